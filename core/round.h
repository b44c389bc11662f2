// Division and rounding upwards, of integers that are not negative.
#pragma once

#include <concepts>
#include <type_traits>

namespace mobius {

/// The least integer that is not below a / b.
template <std::integral T>
constexpr T ceil_div(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

/// The least multiple of `unit` that is not below n.
template <std::integral T>
constexpr T round_up(T n, std::type_identity_t<T> unit) {
  return ceil_div(n, unit) * unit;
}

}  // namespace mobius
