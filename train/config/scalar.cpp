#include "train/config/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

#include "core/error.h"

namespace mobius {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
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
  decimal.is_negative = !text.empty() && text.front() == '-';
  take(text, "+-");
  decimal.whole = take_digits(text);
  if (take(text, ".")) decimal.fraction = take_digits(text);
  if (decimal.whole.empty() && decimal.fraction.empty()) return std::nullopt;
  if (take(text, "eE")) {
    decimal.has_negative_exponent = !text.empty() && text.front() == '-';
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

// The digits of a whole decimal with the exponent carried out; empty where it is not whole.
// Exponents beyond any 64-bit integer are cut short: they overflow or are not whole all the same.
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

std::int64_t to_integer(const std::string& digits, int base, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc::result_out_of_range) {
    throw ConfigError("'{}' does not fit in a 64-bit integer", text);
  }
  if (error != std::errc() || end != digits.data() + digits.size()) {
    throw ConfigError("expected integer, got '{}'", text);
  }
  return value;
}

std::optional<std::int64_t> parse_hexadecimal(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  const std::string digits(text.substr(2));
  const bool is_valid = !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
  return is_valid ? std::optional(to_integer(digits, 16, text)) : std::nullopt;
}

bool is_not_finite(std::string_view text) {
  take(text, "+-");
  take(text, ".");
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array names{"inf", "infinity", "nan"};
  return std::find(names.begin(), names.end(), lower) != names.end();
}

// Why a scalar that is no decimal was refused.
[[noreturn]] void refuse(std::string_view expected, std::string_view text) {
  if (is_not_finite(text)) throw ConfigError("must be finite, got '{}'", text);
  std::string without(text);
  std::erase(without, '_');
  if (without.size() < text.size() && parse_decimal(without)) {
    throw ConfigError("expected {}, got '{}': write {}", expected, text, without);
  }
  throw ConfigError("expected {}, got '{}'", expected, text);
}

// What `read` makes of the text; nothing where it refuses it.
template <typename T>
std::optional<T> try_to(T (*read)(std::string_view), std::string_view text) {
  try {
    return read(text);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

}  // namespace

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
  const auto [end, error] =
      std::from_chars(unsigned_text.data(), unsigned_text.data() + unsigned_text.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw ConfigError("'{}' does not fit in a 64-bit float", text);
  }
  if (error != std::errc() || end != unsigned_text.data() + unsigned_text.size()) {
    refuse("number", text);
  }
  return value;
}

OptionValue read_scalar(OptionType type, std::string_view text) {
  switch (type) {
    case OptionType::boolean:
      return read_boolean(text);
    case OptionType::integer:
      return read_integer(text);
    case OptionType::number:
      return read_number(text);
    case OptionType::text:
      break;
  }
  return std::string(text);
}

std::string canonical_scalar(std::string_view text) {
  if (const auto whole = try_to(read_integer, text)) return fmt::format("{}", *whole);  // exact
  if (const auto number = try_to(read_number, text)) return fmt::format("{}", *number);
  return fmt::format("'{}'", text);
}

}  // namespace mobius
