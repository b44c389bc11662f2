#pragma once

#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace mobius::ptx {

/// Sixteen-bit floating-point numbers, as registers hold them. Arithmetic is done in float or
/// double and rounded once.
struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

inline float to_float(Half value) { return _cvtsh_ss(value.bits); }
inline float to_float(Bfloat value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

constexpr std::uint16_t kNanOf16Bits = 0x7FFF;  // what devices give for both types

/// Round to nearest even.
template <typename T>
T from_float(float value);
template <>
inline Half from_float<Half>(float value) {
  if (std::isnan(value)) return {kNanOf16Bits};
  return {static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT))};
}
template <>
inline Bfloat from_float<Bfloat>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {kNanOf16Bits};
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

/// Rounds towards zero, except that a lost part makes the last bit one: a later rounding to fewer
/// bits is then exact.
inline float round_to_odd(double value) {
  float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || std::isnan(value) || std::isinf(rounded))
    return rounded;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <typename T>
T from_double(double value) {
  return from_float<T>(round_to_odd(value));
}

}  // namespace mobius::ptx
