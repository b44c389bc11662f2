#include "train/results/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "train/io/printable.h"

namespace mobius {

std::string short_number(double value) {
  constexpr double largest_in_full = 1e6;
  if (value == std::floor(value) && std::abs(value) <= largest_in_full)
    return fmt::format("{:.0f}", value == 0 ? 0.0 : value);
  std::string text = fmt::format("{:.4g}", printable(value));
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  const std::size_t digits = text.find_first_not_of("+-0", exponent + 1);
  const bool is_negative = text[exponent + 1] == '-';
  return text.substr(0, exponent + 1) + (is_negative ? "-" : "") + text.substr(digits);
}

std::string cell_text(const Cell& cell) {
  const auto* number = std::get_if<double>(&cell);
  return number != nullptr ? short_number(*number) : std::get<std::string>(cell);
}

}  // namespace mobius
