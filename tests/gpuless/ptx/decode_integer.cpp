// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, and chains that carry.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "tests/gpuless/ptx/integer.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

// Sums and products wrap, whatever the sign.
template <typename T>
std::make_unsigned_t<T> wrapping(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Subtract {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct AddSaturated {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        std::int64_t{a} + b, std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}));
  }
};
struct SubtractSaturated {
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(
        std::int64_t{a} - b, std::int64_t{INT32_MIN}, std::int64_t{INT32_MAX}));
  }
};
struct MultiplyLow {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(std::uint64_t{a} * b);
  }
};

template <typename T>
struct Doubled;
template <>
struct Doubled<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Doubled<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Doubled<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Doubled<std::int32_t> {
  using type = std::int64_t;
};
template <>
struct Doubled<std::uint64_t> {
  __extension__ typedef unsigned __int128 type;
};
template <>
struct Doubled<std::int64_t> {
  __extension__ typedef __int128 type;
};
template <typename T>
using doubled = typename Doubled<T>::type;

struct MultiplyHigh {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<doubled<T>>(a) * static_cast<doubled<T>>(b) >>
                          (8 * sizeof(T)));
  }
};
struct MultiplyWide {
  template <typename T>
  static doubled<T> apply(T a, T b) {
    return static_cast<doubled<T>>(a) * static_cast<doubled<T>>(b);
  }
};
// 24-bit operands.
template <bool kHigh>
struct Multiply24 {
  template <typename T>
  static T apply(T a, T b) {
    const auto extend = [](T value) {
      return static_cast<std::int64_t>(std::is_signed_v<T>
                                           ? static_cast<std::int32_t>(wrapping(value) << 8) >> 8
                                           : static_cast<std::int64_t>(value & T{0xFFFFFF}));
    };
    return static_cast<T>(extend(a) * extend(b) >> (kHigh ? 16 : 0));
  }
};
template <typename Multiply>
struct PlusThird {
  template <typename T, typename W>
  static W apply(T a, T b, W c) {
    using Unsigned = std::make_unsigned_t<W>;
    return static_cast<W>(static_cast<Unsigned>(Multiply::apply(a, b)) + static_cast<Unsigned>(c));
  }
};
// A device gives all ones for a division by zero, and wraps for the least number by minus one.
struct Divide {
  template <typename T>
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - wrapping(a));
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <typename T>
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct Negate {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(0 - wrapping(a));
  }
};
struct Absolute {
  template <typename T>
  static T apply(T a) {
    return a < 0 ? Negate::apply(a) : a;
  }
};
struct SumOfAbsoluteDifference {
  template <typename T>
  static T apply(T a, T b, T c) {
    const auto difference = a < b ? wrapping(b) - wrapping(a) : wrapping(a) - wrapping(b);
    return static_cast<T>(wrapping(c) + difference);
  }
};

template <typename Op>
void decode_unsigned_binary(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 2);
  finish(decoder, pick_unsigned(type.bits, [](auto zero) { return binary<decltype(zero), Op>; }),
         InstructionClass::integer);
}

template <typename Op>
void decode_binary(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 2);
  finish(decoder, pick_integer(type, [](auto zero) { return binary<decltype(zero), Op>; }),
         InstructionClass::integer);
}

// The carry of a chain is a predicate of the frame.
template <typename T, bool kSubtract, bool kIn, bool kOut>
void run_carried(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const T* const a = warp.lanes_of<T>(instruction.a);
  const T* const b = warp.lanes_of<T>(instruction.b);
  LaneMask& carry = warp.predicate(instruction.c);
  LaneMask out = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const T in = kIn ? carry >> lane & 1 : 0;
    T result;
    bool one;
    bool two;
    if constexpr (kSubtract) {
      one = __builtin_sub_overflow(a[lane], b[lane], &result);
      two = __builtin_sub_overflow(result, in, &result);
    } else {
      one = __builtin_add_overflow(a[lane], b[lane], &result);
      two = __builtin_add_overflow(result, in, &result);
    }
    out |= static_cast<LaneMask>(one || two) << lane;
    d[lane] = result;
  }
  if (kOut) carry = (carry & ~active) | out;
}

// mad.lo.cc, madc.hi and the like: the half of the product plus c plus the carry.
template <typename T, bool kHigh, bool kIn, bool kOut>
void run_carried_mad(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const T* const a = warp.lanes_of<T>(instruction.a);
  const T* const b = warp.lanes_of<T>(instruction.b);
  const T* const c = warp.lanes_of<T>(instruction.c);
  LaneMask& carry = warp.predicate(static_cast<std::uint32_t>(instruction.immediate));
  LaneMask out = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const T in = kIn ? carry >> lane & 1 : 0;
    const T part =
        kHigh ? MultiplyHigh::apply(a[lane], b[lane]) : MultiplyLow::apply(a[lane], b[lane]);
    T result;
    const bool one = __builtin_add_overflow(part, c[lane], &result);
    const bool two = __builtin_add_overflow(result, in, &result);
    out |= static_cast<LaneMask>(one || two) << lane;
    d[lane] = result;
  }
  if (kOut) carry = (carry & ~active) | out;
}

template <bool kSubtract>
void decode_carried(Decoder& decoder, bool in, bool out) {
  const Type type = decoder.type();
  decoder.operands(type, 2);
  decoder.instruction.c = decoder.carry();
  const auto pick = [&](auto zero) -> Run {
    using T = decltype(zero);
    if (in)
      return out ? &run_carried<T, kSubtract, true, true> : &run_carried<T, kSubtract, true, false>;
    return &run_carried<T, kSubtract, false, true>;
  };
  finish(decoder, type.bits == 16 ? nullptr : pick_unsigned(type.bits, pick),
         InstructionClass::integer);
}

void decode_carried_mad(Decoder& decoder, bool in, bool out) {
  const Type type = decoder.type();
  decoder.operands(type, 3);
  decoder.instruction.immediate = decoder.carry();
  const bool high = decoder.has("hi");
  const auto pick = [&](auto zero) -> Run {
    using T = decltype(zero);
    if (high) {
      if (in)
        return out ? &run_carried_mad<T, true, true, true> : &run_carried_mad<T, true, true, false>;
      return &run_carried_mad<T, true, false, true>;
    }
    if (in)
      return out ? &run_carried_mad<T, false, true, true> : &run_carried_mad<T, false, true, false>;
    return &run_carried_mad<T, false, false, true>;
  };
  // The high half of a signed product differs.
  const bool is_known = type.bits != 16 && !(high && type.is_signed());
  finish(decoder, is_known ? pick_unsigned(type.bits, pick) : nullptr, InstructionClass::integer);
}

void decode_addc(Decoder& decoder) { decode_carried<false>(decoder, true, decoder.has("cc")); }
void decode_subc(Decoder& decoder) { decode_carried<true>(decoder, true, decoder.has("cc")); }
void decode_madc(Decoder& decoder) { decode_carried_mad(decoder, true, decoder.has("cc")); }

// The widths of 16 and 32 bits have products of twice the width.
template <typename T>
constexpr bool kHasWide = sizeof(T) < 8;

Run pick_wide(const Type& type, bool adds) {
  return pick_integer(type, [=](auto zero) -> Run {
    using T = decltype(zero);
    if constexpr (kHasWide<T>) {
      using W = doubled<T>;
      if (adds) return &lane_ternary<W, T, T, W, PlusThird<MultiplyWide>>;
      return &lane_binary<W, T, T, MultiplyWide>;
    } else {
      return nullptr;
    }
  });
}

Type wide(Type type) {
  type.bits *= 2;
  return type;
}

void decode_wide(Decoder& decoder, bool adds) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), type.bits * 2);
  instruction.a = decoder.source(decoder.operand(1), type);
  instruction.b = decoder.source(decoder.operand(2), type);
  if (adds) instruction.c = decoder.source(decoder.operand(3), wide(type));
  finish(decoder, pick_wide(type, adds), InstructionClass::integer);
}

template <typename Op>
void decode_ternary(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 3);
  finish(decoder, pick_integer(type, [](auto zero) { return ternary<decltype(zero), Op>; }),
         InstructionClass::integer);
}

template <typename Op>
void decode_24(Decoder& decoder, int sources) {
  const Type type = decoder.type();
  decoder.operands(type, sources);
  const Run signed_run =
      sources == 2 ? binary<std::int32_t, Op> : ternary<std::int32_t, PlusThird<Op>>;
  const Run unsigned_run =
      sources == 2 ? binary<std::uint32_t, Op> : ternary<std::uint32_t, PlusThird<Op>>;
  finish(decoder, type.is_signed() ? signed_run : unsigned_run, InstructionClass::integer);
}

void decode_mul24(Decoder& decoder) {
  decoder.has("hi") ? decode_24<Multiply24<true>>(decoder, 2)
                    : decode_24<Multiply24<false>>(decoder, 2);
}
void decode_mad24(Decoder& decoder) {
  decoder.has("hi") ? decode_24<Multiply24<true>>(decoder, 3)
                    : decode_24<Multiply24<false>>(decoder, 3);
}

void decode_sad(Decoder& decoder) { decode_ternary<SumOfAbsoluteDifference>(decoder); }
void decode_rem(Decoder& decoder) { decode_binary<Remainder>(decoder); }

}  // namespace

void decode_integer_add(Decoder& decoder) {
  const Type type = decoder.type();
  if (type.is_packed) decoder.unknown();
  if (decoder.has("cc")) return decode_carried<false>(decoder, false, true);
  if (!decoder.has("sat")) return decode_unsigned_binary<Add>(decoder);
  decoder.operands(type, 2);
  finish(decoder, binary<std::int32_t, AddSaturated>, InstructionClass::integer);
}

void decode_integer_sub(Decoder& decoder) {
  const Type type = decoder.type();
  if (decoder.has("cc")) return decode_carried<true>(decoder, false, true);
  if (!decoder.has("sat")) return decode_unsigned_binary<Subtract>(decoder);
  decoder.operands(type, 2);
  finish(decoder, binary<std::int32_t, SubtractSaturated>, InstructionClass::integer);
}

void decode_integer_mul(Decoder& decoder) {
  if (decoder.has("wide")) return decode_wide(decoder, false);
  if (decoder.has("hi")) return decode_binary<MultiplyHigh>(decoder);
  decode_unsigned_binary<MultiplyLow>(decoder);
}

void decode_integer_mad(Decoder& decoder) {
  if (decoder.has("wide")) return decode_wide(decoder, true);
  if (decoder.has("cc")) return decode_carried_mad(decoder, false, true);
  if (decoder.has("hi")) return decode_ternary<PlusThird<MultiplyHigh>>(decoder);
  const Type type = decoder.type();
  decoder.operands(type, 3);
  finish(decoder,
         pick_unsigned(type.bits,
                       [](auto zero) { return ternary<decltype(zero), PlusThird<MultiplyLow>>; }),
         InstructionClass::integer);
}

void decode_integer_div(Decoder& decoder) { decode_binary<Divide>(decoder); }
void decode_integer_min(Decoder& decoder) { decode_binary<Minimum>(decoder); }
void decode_integer_max(Decoder& decoder) { decode_binary<Maximum>(decoder); }

void decode_integer_neg(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  finish(decoder, pick_signed(type.bits, [](auto zero) { return unary<decltype(zero), Negate>; }),
         InstructionClass::integer);
}

void decode_integer_abs(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  finish(decoder, pick_signed(type.bits, [](auto zero) { return unary<decltype(zero), Absolute>; }),
         InstructionClass::integer);
}

void add_integer(DecodeTable& table) {
  table["addc"] = decode_addc;
  table["subc"] = decode_subc;
  table["madc"] = decode_madc;
  table["mul24"] = decode_mul24;
  table["mad24"] = decode_mad24;
  table["sad"] = decode_sad;
  table["rem"] = decode_rem;
}

}  // namespace mobius::ptx
