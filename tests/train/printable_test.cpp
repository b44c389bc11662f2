#include "train/printable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mobius {
namespace {

using std::string_literals::operator""s;

TEST(Printable, LeavesTextAsItIs) {
  for (const char* text :
       {"", "plain text", "caf\u00e9 \u4e2d \U0001f600", "back\\slash 'quoted'"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable("\u009b2J"), "\\xc2\\x9b2J");  // a control sequence of one character
  EXPECT_EQ(printable_lines("a\x1b\n\nb\r"), "a\\x1b\n\nb\\r");
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("caf\xe9!"), "caf\\xe9!");                     // Latin-1
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8");                    // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // longer than it need be
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // half a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // beyond the last
}

TEST(Printable, GivesNanNoSign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {nan, -nan, std::copysign(nan, -1.0)}) {
    EXPECT_EQ(fmt::format("{:.4f}", printable(value)), "nan");
  }
  EXPECT_EQ(printable(-1.5), -1.5);
  EXPECT_EQ(printable(-std::numeric_limits<double>::infinity()),
            -std::numeric_limits<double>::infinity());
}

TEST(FindBinary, FindsTheFirstByteThatIsNoText) {
  for (const char* text : {"", "a: 1\r\n\tb: \u00e9\n", "\ufeffa: 1\n", "a: \u0085"}) {
    EXPECT_EQ(find_binary(text), std::string_view(text).size());
  }
  EXPECT_EQ(find_binary("ab\0c"s), 2u);
  EXPECT_EQ(find_binary("\u00e9\xe9"), 2u);
  EXPECT_EQ(find_binary("a\x1b"), 1u);
}

}  // namespace
}  // namespace mobius
