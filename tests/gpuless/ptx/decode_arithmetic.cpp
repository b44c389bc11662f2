// Arithmetic of floating-point numbers: add, sub, mul, fma, div, sqrt, rcp, min, max, abs, neg,
// copysign. Words that integers share (add, mul, ...) come here first and are passed on to
// decode_integer.cpp.

#include <algorithm>
#include <cmath>

#include "tests/gpuless/ptx/directed.h"
#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/integer.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Subtract {
  template <typename T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Multiply {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Divide {
  template <typename T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct FusedMultiplyAdd {
  template <typename T>
  static T apply(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct Negate {
  template <typename T>
  static T apply(T a) {
    return -a;
  }
};
struct Absolute {
  template <typename T>
  static T apply(T a) {
    return std::fabs(a);
  }
};
// PTX takes the sign of the first operand.
struct CopySign {
  template <typename T>
  static T apply(T a, T b) {
    return std::copysign(b, a);
  }
};
// Of a number and a NaN they give the number; minus zero is less than zero.
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    const T less = a < b || (a == b && std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : less;
  }
};
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    const T more = a > b || (a == b && !std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : more;
  }
};
// A NaN operand makes the result a NaN.
template <typename Op>
struct NanPropagating {
  template <typename T>
  static T apply(T a, T b) {
    return a != a ? a : b != b ? b : Op::apply(a, b);
  }
};
template <typename Op>
struct OfThree {
  template <typename T>
  static T apply(T a, T b, T c) {
    return Op::apply(Op::apply(a, b), c);
  }
};

float flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}
float saturated(float value) { return value > 0 ? (value < 1 ? value : 1) : 0; }

// .ftz takes subnormal numbers for zero, .sat clamps to [0, 1] and makes NaN zero.
template <typename Op, bool kFlush, bool kSaturate>
struct Modified {
  template <typename... T>
  static float apply(T... operands) {
    float result = kFlush ? flushed(Op::apply(flushed(operands)...)) : Op::apply(operands...);
    return kSaturate ? saturated(result) : result;
  }
};

// Sixteen-bit numbers: exact in double for one operation, then rounded once.
template <typename H, typename Op>
struct Sixteen {
  template <typename... T>
  static std::uint16_t apply(T... operands) {
    return from_double<H>(Op::apply(static_cast<double>(to_float(H{operands}))...)).bits;
  }
};
template <typename H, typename Op>
struct Packed {
  template <typename... T>
  static std::uint32_t apply(T... operands) {
    const std::uint32_t low = Sixteen<H, Op>::apply(static_cast<std::uint16_t>(operands)...);
    const std::uint32_t high = Sixteen<H, Op>::apply(static_cast<std::uint16_t>(operands >> 16)...);
    return low | high << 16;
  }
};
// Signs are changed as bits, so that NaNs keep theirs.
template <std::uint32_t kAnd, std::uint32_t kXor>
struct SignBits {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>((a & static_cast<T>(kAnd)) ^ static_cast<T>(kXor));
  }
};
// max(0, x), of the .relu modifier.
template <typename Op>
struct Rectified {
  template <typename... T>
  static double apply(T... operands) {
    const double result = Op::apply(operands...);
    return result > 0 ? result : 0;
  }
};

template <int kSources, typename T, typename Op>
Run run_of() {
  if constexpr (kSources == 1) return unary<T, Op>;
  if constexpr (kSources == 2) return binary<T, Op>;
  if constexpr (kSources == 3) return ternary<T, Op>;
}

template <int kSources, typename H, typename Op>
Run pick_sixteen(bool is_packed) {
  return is_packed ? run_of<kSources, std::uint32_t, Packed<H, Op>>()
                   : run_of<kSources, std::uint16_t, Sixteen<H, Op>>();
}

template <int kSources, typename Op>
Run pick_float(Decoder& decoder, const Type& type) {
  const bool flush = decoder.has("ftz");
  const bool saturate = decoder.has("sat");
  if (type.bits == 64) return run_of<kSources, double, Op>();
  if (type.bits == 32) {
    if (flush && saturate) return run_of<kSources, float, Modified<Op, true, true>>();
    if (flush) return run_of<kSources, float, Modified<Op, true, false>>();
    if (saturate) return run_of<kSources, float, Modified<Op, false, true>>();
    return run_of<kSources, float, Op>();
  }
  if (saturate) return nullptr;
  if (decoder.has("relu")) {
    return type.kind == 'B' ? pick_sixteen<kSources, Bfloat, Rectified<Op>>(type.is_packed)
                            : pick_sixteen<kSources, Half, Rectified<Op>>(type.is_packed);
  }
  return type.kind == 'B' ? pick_sixteen<kSources, Bfloat, Op>(type.is_packed)
                          : pick_sixteen<kSources, Half, Op>(type.is_packed);
}

InstructionClass kind_of(const Type& type) {
  return type.bits == 64 ? InstructionClass::fp64 : InstructionClass::fma;
}

template <int kSources, typename Op>
void decode_float(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, kSources);
  finish(decoder, pick_float<kSources, Op>(decoder, type), kind_of(type));
}

bool is_directed(const Decoder& decoder) {
  return decoder.has("rz") || decoder.has("rm") || decoder.has("rp");
}

// Op on floating-point numbers, with any rounding; other types go to the integers.
template <int kSources, typename Op, DirectedOperation kDirected>
void decode_rounded(Decoder& decoder, DecodeFunction integers) {
  const Type type = decoder.type();
  if (!type.is_float()) {
    integers(decoder);
  } else if (is_directed(decoder)) {
    decoder.operands(type, kSources);
    finish(decoder, directed(kDirected, decoder, type), kind_of(type));
  } else {
    decode_float<kSources, Op>(decoder);
  }
}

void decode_add(Decoder& decoder) {
  decode_rounded<2, Add, DirectedOperation::add>(decoder, decode_integer_add);
}
void decode_sub(Decoder& decoder) {
  decode_rounded<2, Subtract, DirectedOperation::sub>(decoder, decode_integer_sub);
}
void decode_mul(Decoder& decoder) {
  decode_rounded<2, Multiply, DirectedOperation::mul>(decoder, decode_integer_mul);
}
void decode_mad(Decoder& decoder) {
  decode_rounded<3, FusedMultiplyAdd, DirectedOperation::fma>(decoder, decode_integer_mad);
}
void decode_div(Decoder& decoder) {
  decode_rounded<2, Divide, DirectedOperation::div>(decoder, decode_integer_div);
}

template <typename Op>
void decode_extreme(Decoder& decoder, DecodeFunction integers) {
  const Type type = decoder.type();
  const bool nan = decoder.has("NaN");
  if (!type.is_float()) {
    integers(decoder);
  } else if (decoder.operand_count() == 4) {
    nan ? decode_float<3, OfThree<NanPropagating<Op>>>(decoder)
        : decode_float<3, OfThree<Op>>(decoder);
  } else {
    nan ? decode_float<2, NanPropagating<Op>>(decoder) : decode_float<2, Op>(decoder);
  }
}
void decode_min(Decoder& decoder) { decode_extreme<Minimum>(decoder, decode_integer_min); }
void decode_max(Decoder& decoder) { decode_extreme<Maximum>(decoder, decode_integer_max); }

template <std::uint32_t kAnd, std::uint32_t kXor>
Run pick_sign(const Type& type) {
  return type.is_packed ? unary<std::uint32_t, SignBits<kAnd | kAnd << 16, kXor | kXor << 16>>
                        : unary<std::uint16_t, SignBits<kAnd, kXor>>;
}

void decode_neg(Decoder& decoder) {
  const Type type = decoder.type();
  if (!type.is_float()) return decode_integer_neg(decoder);
  if (type.bits != 16) return decode_float<1, Negate>(decoder);
  decoder.operands(type, 1);
  finish(decoder, pick_sign<0xFFFF, 0x8000>(type), InstructionClass::fma);
}

void decode_abs(Decoder& decoder) {
  const Type type = decoder.type();
  if (!type.is_float()) return decode_integer_abs(decoder);
  if (type.bits != 16) return decode_float<1, Absolute>(decoder);
  decoder.operands(type, 1);
  finish(decoder, pick_sign<0x7FFF, 0>(type), InstructionClass::fma);
}

}  // namespace

void add_arithmetic(DecodeTable& table) {
  table["add"] = decode_add;
  table["sub"] = decode_sub;
  table["mul"] = decode_mul;
  table["mad"] = decode_mad;
  table["fma"] = decode_mad;
  table["div"] = decode_div;
  table["min"] = decode_min;
  table["max"] = decode_max;
  table["neg"] = decode_neg;
  table["abs"] = decode_abs;
  table["copysign"] = decode_float<2, CopySign>;
}

}  // namespace mobius::ptx
