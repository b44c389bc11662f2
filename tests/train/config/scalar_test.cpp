#include "train/config/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "tests/error_of.h"

namespace mobius::scalar_test {
namespace {

const std::string kOctal = " has a leading zero: octal to some YAML readers, decimal to others";

template <typename T>
std::string refusal_of(T (*read)(std::string_view), const std::string& text) {
  return error_of<ConfigError>([&] { read(text); });
}

TEST(ConfigScalar, NumbersAreReadAsWritten) {
  for (const char* text : {"1e-4", "1E-4", "1.e-4", "1e-04"}) EXPECT_EQ(read_number(text), 1e-4);
  for (const char* text : {"5.", "+.5e+1", "5"}) EXPECT_EQ(read_number(text), 5);
  EXPECT_EQ(read_number(".5"), 0.5);
  EXPECT_EQ(read_number("1"), 1);
  EXPECT_EQ(read_number("+3"), 3);
  EXPECT_EQ(read_number("-3"), -3);
  EXPECT_EQ(read_number("0x10"), 16);
  EXPECT_EQ(read_number("1e3"), 1000);
  EXPECT_EQ(read_number("0"), 0);
  EXPECT_EQ(read_number("0.1"), 0.1);
  EXPECT_EQ(read_number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(read_number("4.9406564584124654e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(read_number("9007199254740993"), 9007199254740992.0);
  EXPECT_EQ(read_number("-0.0"), -0.0);
  EXPECT_TRUE(std::signbit(read_number("-0.0")));
}

TEST(ConfigScalar, RefusedNumbersSayWhy) {
  const auto refusal = [](const std::string& text) { return refusal_of(read_number, text); };
  for (const std::string text : {"no", "fast", "", ".", "-", "1e", "1e-", "e5", "1,5", "1.2.3",
                                 "--1", "+-1", "1:30", "0x", "0x1p3", " 1"}) {
    EXPECT_EQ(refusal(text), "expected number, got '" + text + "'");
  }
  for (const std::string text : {".inf", "-.INF", "inf", "nan", ".NaN"}) {
    EXPECT_EQ(refusal(text), "must be finite, got '" + text + "'");
  }
  for (const std::string text : {"012", "-012", "00.5"}) {
    EXPECT_EQ(refusal(text), "'" + text + "'" + kOctal);
  }
  for (const std::string text : {"1e400", "1e-400"}) {
    EXPECT_EQ(refusal(text), "'" + text + "' does not fit in a 64-bit float");
  }
  EXPECT_EQ(refusal("1_000"), "expected number, got '1_000': write 1000");
}

TEST(ConfigScalar, IntegersAreExact) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const char* text : {"0", "-0", "0e99999", "0.0e-99999"}) EXPECT_EQ(read_integer(text), 0);
  for (const char* text : {"2.0", "2.", "200e-2"}) EXPECT_EQ(read_integer(text), 2);
  for (const char* text : {"1e3", "1E3"}) EXPECT_EQ(read_integer(text), 1000);
  EXPECT_EQ(read_integer("1"), 1);
  EXPECT_EQ(read_integer("+3"), 3);
  EXPECT_EQ(read_integer("-7"), -7);
  EXPECT_EQ(read_integer("0x10"), 16);
  EXPECT_EQ(read_integer("0XfF"), 255);
  EXPECT_EQ(read_integer("1.5e1"), 15);
  EXPECT_EQ(read_integer("9223372036854775807"), most);
  EXPECT_EQ(read_integer("9.223372036854775807e18"), most);
  EXPECT_EQ(read_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read_integer("9007199254740993e0"), 9007199254740993);
}

TEST(ConfigScalar, RefusedIntegersSayWhy) {
  const auto refusal = [](const std::string& text) { return refusal_of(read_integer, text); };
  for (const std::string text :
       {"1e-4", ".5", "4503599627370497.3", "1e-99999999999999999999", "no", "true"}) {
    EXPECT_EQ(refusal(text), "expected integer, got '" + text + "'");
  }
  for (const std::string text : {"nan", ".inf"}) {
    EXPECT_EQ(refusal(text), "must be finite, got '" + text + "'");
  }
  for (const std::string text : {"9223372036854775808", "-9223372036854775809",
                                 "0x8000000000000000", "1e19", "1e99999999999999999999"}) {
    EXPECT_EQ(refusal(text), "'" + text + "' does not fit in a 64-bit integer");
  }
  EXPECT_EQ(refusal("012"), "'012'" + kOctal);
  EXPECT_EQ(refusal("1_000"), "expected integer, got '1_000': write 1000");
}

TEST(ConfigScalar, NumbersAreTheSameHoweverTheyAreWritten) {
  for (const auto& [a, b] : {std::pair("1e-3", "0.001"), std::pair("16", "0x10"),
                             std::pair("2", "2.0"), std::pair(".5", "5e-1")}) {
    EXPECT_EQ(canonical_scalar(a), canonical_scalar(b));
  }
  for (const auto& [a, b] : {std::pair("9007199254740992", "9007199254740993"), std::pair("1", "2"),
                             std::pair("1", "true"), std::pair("10", "1_0"), std::pair("a", "A"),
                             std::pair("0.5", "0.50001"), std::pair("nan", "x")}) {
    EXPECT_NE(canonical_scalar(a), canonical_scalar(b));
  }
}

TEST(ConfigScalar, OnlyTrueAndFalseAreBooleans) {
  EXPECT_TRUE(read_boolean("true"));
  EXPECT_FALSE(read_boolean("false"));
  for (const std::string text : {"yes", "no", "on", "off", "True", "FALSE", "1", "0", "y", ""}) {
    EXPECT_EQ(error_of<ConfigError>([&] { read_boolean(text); }),
              "expected true or false, got '" + text + "'");
  }
}

}  // namespace
}  // namespace mobius::scalar_test
