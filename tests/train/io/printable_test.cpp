#include "train/io/printable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace mobius::printable_test {
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

TEST(Printable, EscapesWhatTurnsOrEndsLines) {
  EXPECT_EQ(printable("a\u202eb\u2066c\u200f"), "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xe2\\x80\\x8f");
  EXPECT_EQ(printable("a\u2028b\u2029"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9");
}

TEST(Printable, ALineIsOfBoundedLength) {
  EXPECT_EQ(printable_line("a.yaml:1:1: text\n"), "a.yaml:1:1: text\\n");
  EXPECT_EQ(printable_line(std::string(256, 'x')), std::string(256, 'x'));
  const std::string name = printable_line("a.yaml: '" + std::string(10000, 'x') + "': unknown key");
  EXPECT_TRUE(name.starts_with("a.yaml: 'xxx")) << name;
  EXPECT_TRUE(name.ends_with("xxx': unknown key")) << name;
  EXPECT_LE(name.size(), 300u);
  std::string words = "first ";
  for (int i = 0; i < 100000; ++i) words += "word ";
  const std::string line = printable_line(words + "last");
  EXPECT_LE(line.size(), 2000u);
  EXPECT_TRUE(line.starts_with("first word ") && line.ends_with(" word last")) << line;
  EXPECT_LE(printable_line(std::string(600000, '\n')).size(), 256u);
  EXPECT_EQ(printable_lines("a\n" + std::string(300, 'b')).find('\n'), 1u);
}

// Characters of several bytes stay whole wherever the text is cut.
TEST(Printable, AShortenedTextIsStillText) {
  for (const std::string character : {"\u00e9", "\u4e2d", "\U0001f600"}) {
    std::string text = "a";
    for (int i = 0; i < 100; ++i) text += character;
    for (std::size_t most = 20; most < 40; ++most) {
      const std::string short_text = shortened(text, most);
      EXPECT_LE(short_text.size(), most);
      EXPECT_EQ(find_binary(short_text), short_text.size());
      EXPECT_NE(short_text.find("..."), std::string::npos);
    }
  }
  EXPECT_LE(shortened(std::string(1000, '\x80'), 50).size(), 50u);
  EXPECT_EQ(shortened("short", 5), "short");
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
}  // namespace mobius::printable_test
