#include "train/config/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/error.h"

namespace mobius {
namespace {

std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return digits;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// A decimal as written: [sign] whole [. fraction] [e exponent].
struct Decimal {
  bool is_negative = false;
  std::string_view whole;
  std::string_view fraction;
  bool has_negative_exponent = false;
  std::string_view exponent;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  const std::string_view all = text;
  Decimal decimal;
  decimal.is_negative = text.starts_with('-');
  take(text, "+-");
  decimal.whole = take_digits(text);
  if (take(text, ".")) decimal.fraction = take_digits(text);
  if (decimal.whole.empty() && decimal.fraction.empty()) return std::nullopt;
  if (take(text, "eE")) {
    decimal.has_negative_exponent = text.starts_with('-');
    take(text, "+-");
    decimal.exponent = take_digits(text);
    if (decimal.exponent.empty()) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  if (decimal.whole.size() > 1 && decimal.whole.front() == '0') {
    throw ConfigError("'{}' has a leading zero: octal to some YAML readers, decimal to others",
                      all);
  }
  return decimal;
}

// Returns the digits of a whole decimal with the exponent carried out, or "" if it is not whole.
// Exponents beyond any 64-bit integer are capped; the number still overflows or is not whole.
std::string shift_point(const Decimal& decimal) {
  constexpr long far = 4096;
  long exponent = 0;
  for (const char digit : decimal.exponent) {
    exponent = std::min(10 * exponent + (digit - '0'), far);
  }
  std::string digits = std::string(decimal.whole) + std::string(decimal.fraction);
  if (digits.find_first_not_of('0') == std::string::npos) return "0";
  const long fraction_size = static_cast<long>(decimal.fraction.size());
  const long shift = (decimal.has_negative_exponent ? -exponent : exponent) - fraction_size;
  if (shift >= 0) return digits.append(static_cast<std::size_t>(shift), '0');
  const auto kept =
      static_cast<std::size_t>(std::max(0L, static_cast<long>(digits.size()) + shift));
  if (digits.find_first_not_of('0', kept) != std::string::npos) return "";
  return digits.substr(0, kept);
}

// `digits` holds an optional '-' and digits of the base, at least one; `text` is what was written.
std::int64_t to_integer(std::string_view digits, int base, std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (read.ec == std::errc()) return value;
  throw ConfigError("'{}' does not fit in a 64-bit integer", text);
}

std::optional<std::int64_t> parse_hexadecimal(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  const std::string_view digits = text.substr(2);
  const bool is_valid = digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos;
  if (digits.empty() || !is_valid) return std::nullopt;
  return to_integer(digits, 16, text);
}

bool is_not_finite(std::string_view text) {
  take(text, "+-");
  take(text, ".");
  const std::string name = lower_case(std::string(text));
  return name == "inf" || name == "infinity" || name == "nan";
}

// Throws why a scalar that is not a decimal is refused.
[[noreturn]] void refuse(std::string_view expected, std::string_view text) {
  if (is_not_finite(text)) throw ConfigError("must be finite, got '{}'", text);
  std::string without(text);
  std::erase(without, '_');
  if (without.size() < text.size() && parse_decimal(without)) {
    throw ConfigError("expected {}, got '{}': write {}", expected, text, without);
  }
  throw ConfigError("expected {}, got '{}'", expected, text);
}

// Returns what `read` makes of the text, or nothing if it throws.
template <typename T>
std::optional<T> try_to(T (*read)(std::string_view), std::string_view text) {
  try {
    return read(text);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool read_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  throw ConfigError("expected true or false, got '{}'", text);
}

std::int64_t read_integer(std::string_view text) {
  if (const auto value = parse_hexadecimal(text)) return *value;
  const std::optional<Decimal> decimal = parse_decimal(text);
  if (!decimal) refuse("integer", text);
  const std::string digits = shift_point(*decimal);
  if (digits.empty()) throw ConfigError("expected integer, got '{}'", text);
  return to_integer(decimal->is_negative ? "-" + digits : digits, 10, text);
}

double read_number(std::string_view text) {
  if (const auto value = parse_hexadecimal(text)) return static_cast<double>(*value);
  if (!parse_decimal(text)) refuse("number", text);
  const std::string_view unsigned_text = text.starts_with('+') ? text.substr(1) : text;
  double value = 0;
  const auto read =
      std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), value);
  if (read.ec == std::errc()) return value;
  throw ConfigError("'{}' does not fit in a 64-bit float", text);
}

OptionValue read_scalar(OptionType type, std::string_view text) {
  if (type == OptionType::boolean) return read_boolean(text);
  if (type == OptionType::integer) return read_integer(text);
  if (type == OptionType::number) return read_number(text);
  return std::string(text);
}

std::string canonical_scalar(std::string_view text) {
  if (const auto whole = try_to(read_integer, text)) return fmt::format("{}", *whole);  // exact
  if (const auto number = try_to(read_number, text)) return fmt::format("{}", *number);
  return fmt::format("'{}'", text);
}

}  // namespace mobius
