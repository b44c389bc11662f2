// Element types of a Tensor.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace mobius {

enum class DType : std::uint8_t { f32, f64, bf16, i32, i64, u8 };

/// Storage of a bfloat16: the upper half of a float's bits. Arithmetic is done in float. Its
/// conversions are constexpr so that kernels of every device can call them.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; every NaN stays a NaN.
  constexpr explicit BFloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<std::uint16_t>((word >> 16) | 0x40u)
                  : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// Bytes of one element.
std::size_t size_of(DType dtype);
/// "f32", "f64", ...
std::string_view name_of(DType dtype);
/// Inverse of name_of(). Throws Error if the name is unknown.
DType dtype_from_name(std::string_view name);

inline bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
}

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no DType for this type");
    return DType::u8;
  }
}

/// Passes a type as a value to the functions below: `[&](auto tag) { using T = typename
/// decltype(tag)::type; }`.
template <class T>
struct TypeTag {
  using type = T;
};

[[noreturn]] void throw_unsupported_dtype(std::string_view op, DType dtype);

/// Calls `fn(TypeTag<T>{})` for f32 or f64; throws Error naming `op` for any other type.
template <class Fn>
decltype(auto) dispatch_real(std::string_view op, DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(TypeTag<float>{});
    case DType::f64:
      return fn(TypeTag<double>{});
    default:
      throw_unsupported_dtype(op, dtype);
  }
}

/// Calls `fn(TypeTag<T>{})` for i32 or i64; throws Error naming `op` for any other type.
template <class Fn>
decltype(auto) dispatch_index(std::string_view op, DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::i32:
      return fn(TypeTag<std::int32_t>{});
    case DType::i64:
      return fn(TypeTag<std::int64_t>{});
    default:
      throw_unsupported_dtype(op, dtype);
  }
}

/// Calls `fn(TypeTag<T>{})` for every element type.
template <class Fn>
decltype(auto) dispatch_any(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(TypeTag<float>{});
    case DType::f64:
      return fn(TypeTag<double>{});
    case DType::bf16:
      return fn(TypeTag<BFloat16>{});
    case DType::i32:
      return fn(TypeTag<std::int32_t>{});
    case DType::i64:
      return fn(TypeTag<std::int64_t>{});
    case DType::u8:
      break;
  }
  return fn(TypeTag<std::uint8_t>{});
}

}  // namespace mobius
