// cvt between all pairs of types, with every rounding, and cvt.pack of two numbers into one
// register.

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

/// How a conversion rounds. The integer forms give an integral value, also as a floating-point
/// number.
enum class Rounding {
  none,
  nearest,
  zero,
  down,
  up,
  integer_nearest,
  integer_zero,
  integer_down,
  integer_up
};

// Instruction::flags of a conversion.
constexpr std::uint16_t kSaturate = 1;
constexpr std::uint16_t kFlush = 2;
constexpr std::uint16_t kRectify = 4;

Rounding rounding_of(const Decoder& decoder) {
  if (decoder.has("rn")) return Rounding::nearest;
  if (decoder.has("rz")) return Rounding::zero;
  if (decoder.has("rm")) return Rounding::down;
  if (decoder.has("rp")) return Rounding::up;
  if (decoder.has("rni")) return Rounding::integer_nearest;
  if (decoder.has("rzi")) return Rounding::integer_zero;
  if (decoder.has("rmi")) return Rounding::integer_down;
  if (decoder.has("rpi")) return Rounding::integer_up;
  return Rounding::none;
}

double integral(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::integer_nearest:
      return std::nearbyint(value);
    case Rounding::integer_zero:
      return std::trunc(value);
    case Rounding::integer_down:
      return std::floor(value);
    case Rounding::integer_up:
      return std::ceil(value);
    default:
      return value;
  }
}

/// A number of 32 bits with 10 bits of mantissa.
struct Tf32 {
  std::uint32_t bits;
};

float as_float(Tf32 value) { return std::bit_cast<float>(value.bits); }
float as_float(Half value) { return to_float(value); }
float as_float(Bfloat value) { return to_float(value); }

template <typename T>
constexpr bool is_small_float =
    std::is_same_v<T, Half> || std::is_same_v<T, Bfloat> || std::is_same_v<T, Tf32>;

// Sources as double, which holds all of them but 64-bit integers.
template <typename S>
double widened(S value) {
  if constexpr (is_small_float<S>) {
    return static_cast<double>(as_float(value));
  } else {
    return static_cast<double>(value);
  }
}

template <typename D>
D saturated_integer(double value) {
  // Out of range values clamp, NaN becomes zero.
  if (std::isnan(value)) return 0;
  const double low = static_cast<double>(std::numeric_limits<D>::min());
  const double high = static_cast<double>(std::numeric_limits<D>::max());
  if (value <= low) return std::numeric_limits<D>::min();
  if (value >= high) return std::numeric_limits<D>::max();
  return static_cast<D>(value);
}

// The largest float that is no larger, or the smallest that is no smaller.
float narrowed(double value, Rounding rounding) {
  const float nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || std::isnan(value)) return nearest;
  const bool is_above = back > value;
  if (rounding == Rounding::down || (rounding == Rounding::zero && value > 0)) {
    return is_above ? std::nextafter(nearest, -INFINITY) : nearest;
  }
  if (rounding == Rounding::up || (rounding == Rounding::zero && value < 0)) {
    return is_above ? nearest : std::nextafter(nearest, INFINITY);
  }
  return nearest;
}

template <typename D>
D to_small(double value, Rounding rounding) {
  const float odd = round_to_odd(value);
  if constexpr (std::is_same_v<D, Half>) {
    if (std::isnan(value)) return {kNanOf16Bits};
    if (rounding == Rounding::zero)
      return {static_cast<std::uint16_t>(_cvtss_sh(odd, _MM_FROUND_TO_ZERO))};
    if (rounding == Rounding::down)
      return {static_cast<std::uint16_t>(_cvtss_sh(odd, _MM_FROUND_TO_NEG_INF))};
    if (rounding == Rounding::up)
      return {static_cast<std::uint16_t>(_cvtss_sh(odd, _MM_FROUND_TO_POS_INF))};
    return from_float<Half>(odd);
  } else if constexpr (std::is_same_v<D, Bfloat>) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(odd);
    if (rounding == Rounding::zero && !std::isnan(value))
      return {static_cast<std::uint16_t>(bits >> 16)};
    return from_float<Bfloat>(odd);
  } else {
    // .rna: ties go away from zero.
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return {std::isfinite(value) ? (bits + 0x1000) & ~0x1FFFu : bits};
  }
}

double clamped(double value) { return value > 0 ? std::min(value, 1.0) : 0.0; }

// 64-bit integers would round twice on their way through double.
template <typename D, typename S>
D from_wide_integer(S source, Rounding rounding) {
  if (rounding == Rounding::nearest) return static_cast<D>(source);
  const int before = std::fegetround();
  std::fesetround(rounding == Rounding::zero   ? FE_TOWARDZERO
                  : rounding == Rounding::down ? FE_DOWNWARD
                                               : FE_UPWARD);
  volatile S opaque = source;
  volatile D result = static_cast<D>(opaque);
  std::fesetround(before);
  return result;
}

template <typename D, typename S>
D to_floating(S source, Rounding rounding) {
  if constexpr (std::is_integral_v<S> && sizeof(S) == 8 && std::is_floating_point_v<D>) {
    return from_wide_integer<D>(source, rounding);
  } else {
    const double value = integral(widened(source), rounding);
    if constexpr (std::is_same_v<D, double>) {
      return value;
    } else if constexpr (std::is_same_v<D, float>) {
      return narrowed(value, rounding);
    } else {
      return to_small<D>(value, rounding);
    }
  }
}

template <typename D, typename S>
D to_integral_from_integer(S source, bool saturate) {
  if (!saturate) return static_cast<D>(source);
  __extension__ typedef __int128 Wide;
  const Wide value = source;
  return static_cast<D>(
      std::clamp<Wide>(value, std::numeric_limits<D>::min(), std::numeric_limits<D>::max()));
}

template <typename T>
T flush(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
  return value;
}

template <typename D, typename S>
D convert(S source, Rounding rounding, std::uint16_t flags) {
  if ((flags & kFlush) != 0) source = flush(source);
  if constexpr (std::is_integral_v<D> && std::is_integral_v<S>) {
    return to_integral_from_integer<D>(source, (flags & kSaturate) != 0);
  } else if constexpr (std::is_integral_v<D>) {
    return saturated_integer<D>(integral(widened(source), rounding));
  } else if (flags == 0) {
    return to_floating<D, S>(source, rounding);
  } else {
    double value = widened(source);
    if ((flags & kSaturate) != 0) value = clamped(value);
    if ((flags & kRectify) != 0) value = value > 0 ? value : 0;
    D result = to_floating<D, double>(value, rounding);
    return (flags & kFlush) != 0 ? flush(result) : result;
  }
}

// Registers may be wider than the types: sources are their lowest bytes, and integers are extended
// to whole registers. The bytes of a lane are `count` in the destination and `b` in the source.
template <typename D, typename S>
void run_convert(Warp& warp, const Instruction& instruction, LaneMask active) {
  std::byte* const d = warp.lanes_of<std::byte>(instruction.destination);
  const std::byte* const a = warp.lanes_of<std::byte>(instruction.a);
  const auto rounding = static_cast<Rounding>(instruction.immediate);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(rest));
    S source;
    std::memcpy(&source, a + lane * instruction.b, sizeof source);
    const D result = convert<D, S>(source, rounding, instruction.flags);
    if constexpr (std::is_integral_v<D>) {
      const auto extended = static_cast<std::int64_t>(result);
      std::memcpy(d + lane * instruction.count, &extended, instruction.count);
    } else {
      std::memcpy(d + lane * instruction.count, &result, sizeof result);
    }
  }
}

// The common conversions, in loops that vectorise.
struct Cast {
  template <typename D, typename S>
  static void run(Warp& warp, const Instruction& instruction, LaneMask active) {
    D* const d = warp.lanes_of<D>(instruction.destination);
    const S* const a = warp.lanes_of<S>(instruction.a);
    for_lanes(active, [=](int lane) { d[lane] = static_cast<D>(a[lane]); });
  }
};
struct ToBfloat {
  static std::uint16_t apply(float a) { return from_float<Bfloat>(a).bits; }
};
struct FromBfloat {
  static float apply(std::uint16_t a) { return to_float(Bfloat{a}); }
};

struct FastConversion {
  std::string_view opcode;
  int to_bits;
  int from_bits;
  Run run;
};
constexpr FastConversion kFast[] = {
    {"u64.u32", 64, 32, &Cast::run<std::uint64_t, std::uint32_t>},
    {"s64.s32", 64, 32, &Cast::run<std::int64_t, std::int32_t>},
    {"u32.u64", 32, 64, &Cast::run<std::uint32_t, std::uint64_t>},
    {"u32.u16", 32, 16, &Cast::run<std::uint32_t, std::uint16_t>},
    {"u16.u32", 16, 32, &Cast::run<std::uint16_t, std::uint32_t>},
    {"f64.f32", 64, 32, &Cast::run<double, float>},
    {"rn.f32.f64", 32, 64, &Cast::run<float, double>},
    {"rn.f32.s32", 32, 32, &Cast::run<float, std::int32_t>},
    {"rn.f32.u32", 32, 32, &Cast::run<float, std::uint32_t>},
    {"rn.f64.s32", 64, 32, &Cast::run<double, std::int32_t>},
    {"rn.f64.u32", 64, 32, &Cast::run<double, std::uint32_t>},
    {"rn.bf16.f32", 16, 32, &lane_unary<std::uint16_t, float, ToBfloat>},
    {"f32.bf16", 32, 16, &lane_unary<float, std::uint16_t, FromBfloat>},
};

// Calls select(T{}) for a type.
template <typename Select>
Run pick_type(const Type& type, Select select) {
  if (type.kind == 't') return select(Tf32{});
  if (type.kind == 'B') return select(Bfloat{});
  if (type.kind == 'f')
    return type.bits == 16 ? select(Half{}) : type.bits == 32 ? select(float{}) : select(double{});
  if (type.bits == 8) return type.is_signed() ? select(std::int8_t{}) : select(std::uint8_t{});
  return pick_integer(type, select);
}

// The width of an operand's register, which may exceed the type's for integers.
int register_bits(const Decoder& decoder, std::string_view operand, const Type& type) {
  const auto symbol = decoder.find(operand);
  return symbol ? symbol->bits : std::max(type.bits, 16);
}

// cvt.rn.bf16x2.f32 d, a, b: a goes to the upper half.
template <typename H>
void run_pack_floats(Warp& warp, const Instruction& instruction, LaneMask active) {
  std::uint32_t* const d = warp.lanes_of<std::uint32_t>(instruction.destination);
  const float* const a = warp.lanes_of<float>(instruction.a);
  const float* const b = warp.lanes_of<float>(instruction.b);
  const bool rectify = (instruction.flags & kRectify) != 0;
  for_lanes(active, [=](int lane) {
    const float high = rectify && !(a[lane] > 0) ? 0 : a[lane];
    const float low = rectify && !(b[lane] > 0) ? 0 : b[lane];
    d[lane] = std::uint32_t{from_float<H>(high).bits} << 16 | from_float<H>(low).bits;
  });
}

void decode_packed(Decoder& decoder, const Type& to) {
  constexpr Type kF32 = {'f', 32, false};
  decoder.instruction.destination = decoder.destination(decoder.operand(0), 32);
  decoder.instruction.a = decoder.source(decoder.operand(1), kF32);
  decoder.instruction.b = decoder.source(decoder.operand(2), kF32);
  const bool nearest = decoder.has("rn");
  finish(decoder,
         !nearest         ? nullptr
         : to.kind == 'B' ? &run_pack_floats<Bfloat>
                          : &run_pack_floats<Half>,
         InstructionClass::conversion);
}

Run fast_conversion(const Decoder& decoder, int to_bits, int from_bits) {
  const std::string_view first = decoder.opcode()[1];
  const std::string_view last = decoder.opcode().back();
  const std::string_view opcode(first.data(),
                                static_cast<std::size_t>(last.data() + last.size() - first.data()));
  for (const FastConversion& fast : kFast) {
    if (fast.opcode == opcode && fast.to_bits == to_bits && fast.from_bits == from_bits)
      return fast.run;
  }
  return nullptr;
}

void decode_cvt(Decoder& decoder) {
  const std::vector<Type> types = decoder.types();
  if (types.size() != 2) decoder.unknown();
  const Type& to = types[0];
  const Type& from = types[1];
  Instruction& instruction = decoder.instruction;
  if (decoder.has("sat") || decoder.has("satfinite")) instruction.flags |= kSaturate;
  if (decoder.has("ftz")) instruction.flags |= kFlush;
  if (decoder.has("relu")) instruction.flags |= kRectify;
  if (to.is_packed) return decode_packed(decoder, to);
  const int to_bits = register_bits(decoder, decoder.operand(0), to);
  const int from_bits = register_bits(decoder, decoder.operand(1), from);
  instruction.destination = decoder.destination(decoder.operand(0), to_bits);
  instruction.a = decoder.source(decoder.operand(1), {from.kind, from_bits, false});
  instruction.count = static_cast<std::uint8_t>(to_bits / 8);
  instruction.b = static_cast<std::uint32_t>(from_bits / 8);
  instruction.immediate = static_cast<std::int64_t>(rounding_of(decoder));
  Run run = fast_conversion(decoder, to_bits, from_bits);
  if (run == nullptr) {
    run = pick_type(to, [&](auto d) -> Run {
      return pick_type(from, [](auto s) -> Run { return &run_convert<decltype(d), decltype(s)>; });
    });
  }
  finish(decoder, run, InstructionClass::conversion);
}

}  // namespace

void add_conversion(DecodeTable& table) { table["cvt"] = decode_cvt; }

}  // namespace mobius::ptx
