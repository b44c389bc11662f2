#include "train/config/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/error_of.h"

namespace mobius::scalar_test {
namespace {

TEST(ConfigScalar, NumbersAreReadAsWritten) {
  const std::vector<std::pair<std::string, double>> table{
      {"1e-4", 1e-4},
      {"1E-4", 1e-4},
      {"1.e-4", 1e-4},
      {"1e-04", 1e-4},
      {".5", 0.5},
      {"5.", 5},
      {"1", 1},
      {"+3", 3},
      {"-3", -3},
      {"+.5e+1", 5},
      {"0x10", 16},
      {"1e3", 1000},
      {"0", 0},
      {"-0.0", -0.0},
      {"0.1", 0.1},
      {"1.7976931348623157e308", std::numeric_limits<double>::max()},
      {"4.9406564584124654e-324", std::numeric_limits<double>::denorm_min()},
      {"9007199254740993", 9007199254740992.0}};
  for (const auto& [text, value] : table) EXPECT_EQ(read_number(text), value) << text;
  EXPECT_TRUE(std::signbit(read_number("-0.0")));
}

TEST(ConfigScalar, RefusedNumbersSayWhy) {
  const std::string octal = " has a leading zero: octal to some YAML readers, decimal to others";
  const std::vector<std::pair<std::string, std::string>> table{
      {"012", "'012'" + octal},
      {"-012", "'-012'" + octal},
      {"00.5", "'00.5'" + octal},
      {"1_000", "expected number, got '1_000': write 1000"},
      {"no", "expected number, got 'no'"},
      {"fast", "expected number, got 'fast'"},
      {"", "expected number, got ''"},
      {".", "expected number, got '.'"},
      {"-", "expected number, got '-'"},
      {"1e", "expected number, got '1e'"},
      {"1e-", "expected number, got '1e-'"},
      {"e5", "expected number, got 'e5'"},
      {"1,5", "expected number, got '1,5'"},
      {"1.2.3", "expected number, got '1.2.3'"},
      {"--1", "expected number, got '--1'"},
      {"+-1", "expected number, got '+-1'"},
      {"1:30", "expected number, got '1:30'"},
      {"0x", "expected number, got '0x'"},
      {"0x1p3", "expected number, got '0x1p3'"},
      {" 1", "expected number, got ' 1'"},
      {".inf", "must be finite, got '.inf'"},
      {"-.INF", "must be finite, got '-.INF'"},
      {"inf", "must be finite, got 'inf'"},
      {"nan", "must be finite, got 'nan'"},
      {".NaN", "must be finite, got '.NaN'"},
      {"1e400", "'1e400' does not fit in a 64-bit float"},
      {"1e-400", "'1e-400' does not fit in a 64-bit float"}};
  for (const auto& [text, message] : table) {
    EXPECT_EQ(error_of<ConfigError>([&text = text] { read_number(text); }), message) << text;
  }
}

TEST(ConfigScalar, IntegersAreExact) {
  const std::vector<std::pair<std::string, std::int64_t>> table{
      {"0", 0},
      {"-0", 0},
      {"1", 1},
      {"+3", 3},
      {"-7", -7},
      {"0x10", 16},
      {"0XfF", 255},
      {"1e3", 1000},
      {"1E3", 1000},
      {"1.5e1", 15},
      {"2.0", 2},
      {"2.", 2},
      {"200e-2", 2},
      {"0e99999", 0},
      {"0.0e-99999", 0},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()},
      {"9007199254740993e0", 9007199254740993},
      {"9.223372036854775807e18", std::numeric_limits<std::int64_t>::max()}};
  for (const auto& [text, value] : table) EXPECT_EQ(read_integer(text), value) << text;
}

TEST(ConfigScalar, RefusedIntegersSayWhy) {
  const std::string octal = " has a leading zero: octal to some YAML readers, decimal to others";
  const std::vector<std::pair<std::string, std::string>> table{
      {"012", "'012'" + octal},
      {"1_000", "expected integer, got '1_000': write 1000"},
      {"1e-4", "expected integer, got '1e-4'"},
      {".5", "expected integer, got '.5'"},
      {"4503599627370497.3", "expected integer, got '4503599627370497.3'"},
      {"1e-99999999999999999999", "expected integer, got '1e-99999999999999999999'"},
      {"no", "expected integer, got 'no'"},
      {"true", "expected integer, got 'true'"},
      {"nan", "must be finite, got 'nan'"},
      {".inf", "must be finite, got '.inf'"},
      {"9223372036854775808", "'9223372036854775808' does not fit in a 64-bit integer"},
      {"-9223372036854775809", "'-9223372036854775809' does not fit in a 64-bit integer"},
      {"0x8000000000000000", "'0x8000000000000000' does not fit in a 64-bit integer"},
      {"1e19", "'1e19' does not fit in a 64-bit integer"},
      {"1e99999999999999999999", "'1e99999999999999999999' does not fit in a 64-bit integer"}};
  for (const auto& [text, message] : table) {
    EXPECT_EQ(error_of<ConfigError>([&text = text] { read_integer(text); }), message) << text;
  }
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
