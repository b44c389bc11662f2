// Special functions: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, as exact as devices have them or
// better.

#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/gpuless/ptx/directed.h"
#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

// 2^x by the Taylor series of exp on [-ln 2 / 2, ln 2 / 2], in double: exact to 2^-35, and
// vectorised.
struct Exp2 {
  static float apply(float x) {
    const double clamped = x > 129.0f ? 129.0 : x < -151.0f ? -151.0 : static_cast<double>(x);
    constexpr double kShift = 0x1.8p52;
    const double shifted = clamped + kShift;
    const double t = (clamped - (shifted - kShift)) * 0.69314718055994530942;
    double p = 1.0 / 362880;
    p = p * t + 1.0 / 40320;
    p = p * t + 1.0 / 5040;
    p = p * t + 1.0 / 720;
    p = p * t + 1.0 / 120;
    p = p * t + 1.0 / 24;
    p = p * t + 1.0 / 6;
    p = p * t + 0.5;
    p = p * t + 1.0;
    p = p * t + 1.0;
    // The low bits of the shifted number are the integer part of x.
    const std::uint64_t exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
    const auto result =
        static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + exponent));
    return x != x ? x : result;
  }
};

// log2 of the mantissa m in [sqrt(1/2), sqrt(2)) is a series in s = (m - 1) / (m + 1), in double.
struct Log2 {
  static float apply(float x) {
    const auto wide = static_cast<double>(x);
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(wide);
    constexpr std::uint64_t kRootHalf = 0x3FE6A09E667F3BCD;
    const std::uint64_t offset = bits - kRootHalf;
    const std::uint64_t whole = offset & 0xFFF0000000000000;
    const double m = std::bit_cast<double>(bits - whole);
    // The exponent, made a double by way of the mantissa bits of 1.5 * 2^52.
    const std::uint64_t biased = (offset >> 52) + 0x4338000000000000;
    double exponent = std::bit_cast<double>(biased) - 0x1.8p52;
    exponent = exponent >= 2048 ? exponent - 4096 : exponent;
    const double s = (m - 1) / (m + 1);
    const double q = s * s;
    double p = 1.0 / 17;
    p = p * q + 1.0 / 15;
    p = p * q + 1.0 / 13;
    p = p * q + 1.0 / 11;
    p = p * q + 1.0 / 9;
    p = p * q + 1.0 / 7;
    p = p * q + 1.0 / 5;
    p = p * q + 1.0 / 3;
    p = p * q + 1.0;
    const double value = exponent + 2 * s * p * 1.44269504088896340736;
    const float result = static_cast<float>(value);
    const float edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
    return x > 0 && x < INFINITY ? result : edge;
  }
};
struct Reciprocal {
  template <typename T>
  static T apply(T x) {
    return 1 / x;
  }
};
struct SquareRoot {
  template <typename T>
  static T apply(T x) {
    return std::sqrt(x);
  }
};
struct ReciprocalRoot {
  static float apply(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
};
// Devices give about 20 bits of sin and cos near zero, and an absolute error of 2^-20.
struct Sine {
  static float apply(float x) { return std::sin(x); }
};
struct Cosine {
  static float apply(float x) { return std::cos(x); }
};
// Devices give 11 bits of tanh.
struct HyperbolicTangent {
  static float apply(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(std::tanh(x));
    return std::bit_cast<float>((bits + 0x800) & 0xFFFFF000);
  }
};

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}
template <typename Op>
struct Flushed {
  static float apply(float x) { return flushed(Op::apply(flushed(x))); }
};
template <typename H, typename Op>
struct Sixteen {
  static std::uint16_t apply(std::uint16_t x) {
    return from_float<H>(Op::apply(to_float(H{x}))).bits;
  }
};
template <typename H, typename Op>
struct Packed {
  static std::uint32_t apply(std::uint32_t x) {
    const std::uint32_t low = Sixteen<H, Op>::apply(static_cast<std::uint16_t>(x));
    return low |
           static_cast<std::uint32_t>(Sixteen<H, Op>::apply(static_cast<std::uint16_t>(x >> 16)))
               << 16;
  }
};

// The approximations .approx.ftz of f64 look at the upper 32 bits of the source, give the upper 32
// bits of the result, and take subnormal numbers for zero.
double upper(double value) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) & 0xFFFFFFFF00000000);
}
double flushed_upper(double value) {
  return std::fabs(value) < 0x1p-1022 ? std::copysign(0.0, value) : upper(value);
}
template <typename Op>
struct UpperHalf {
  static double apply(double x) { return flushed_upper(Op::apply(flushed_upper(x))); }
};
struct ReciprocalRootWide {
  static double apply(double x) { return 1 / std::sqrt(x); }
};

template <typename Op>
Run pick_special(const Decoder& decoder, const Type& type) {
  if (type.bits == 16) {
    if (type.kind == 'B')
      return type.is_packed ? unary<std::uint32_t, Packed<Bfloat, Op>>
                            : unary<std::uint16_t, Sixteen<Bfloat, Op>>;
    return type.is_packed ? unary<std::uint32_t, Packed<Half, Op>>
                          : unary<std::uint16_t, Sixteen<Half, Op>>;
  }
  if (type.bits != 32) return nullptr;
  return decoder.has("ftz") ? unary<float, Flushed<Op>> : unary<float, Op>;
}

template <typename Op>
void decode_special(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  finish(decoder, pick_special<Op>(decoder, type), InstructionClass::special);
}

bool is_directed(const Decoder& decoder) {
  return decoder.has("rz") || decoder.has("rm") || decoder.has("rp");
}

// rcp, sqrt and rsqrt have approximate and exact forms, of f32 and f64.
template <typename Op, typename WideOp, DirectedOperation kDirected>
void decode_root(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  const InstructionClass kind =
      type.bits == 64 ? InstructionClass::fp64 : InstructionClass::special;
  if (is_directed(decoder)) return finish(decoder, directed(kDirected, decoder, type), kind);
  if (type.bits != 64) return finish(decoder, pick_special<Op>(decoder, type), kind);
  if (decoder.has("ftz")) return finish(decoder, unary<double, UpperHalf<WideOp>>, kind);
  finish(decoder, unary<double, WideOp>, kind);
}

}  // namespace

void add_special_functions(DecodeTable& table) {
  table["ex2"] = decode_special<Exp2>;
  table["lg2"] = decode_special<Log2>;
  table["sin"] = decode_special<Sine>;
  table["cos"] = decode_special<Cosine>;
  table["tanh"] = decode_special<HyperbolicTangent>;
  table["rcp"] = decode_root<Reciprocal, Reciprocal, DirectedOperation::rcp>;
  table["sqrt"] = decode_root<SquareRoot, SquareRoot, DirectedOperation::sqrt>;
  table["rsqrt"] = decode_root<ReciprocalRoot, ReciprocalRootWide, DirectedOperation::sqrt>;
}

}  // namespace mobius::ptx
