// Comparisons and what chooses by them: setp, set, selp, slct, testp.

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

// Comparisons with a NaN are false; those whose names end in u are true.
struct Equal {
  template <typename T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  static bool apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a < b || a > b;
    } else {
      return a != b;
    }
  }
};
struct Less {
  template <typename T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Greater {
  template <typename T>
  static bool apply(T a, T b) {
    return a > b;
  }
};
struct GreaterEqual {
  template <typename T>
  static bool apply(T a, T b) {
    return a >= b;
  }
};
template <typename Opposite>
struct Unless {
  template <typename T>
  static bool apply(T a, T b) {
    return !Opposite::apply(a, b);
  }
};
struct IsNumber {
  template <typename T>
  static bool apply(T a, T b) {
    return a == a && b == b;
  }
};

// Types as they are compared: sixteen-bit numbers as floats.
template <typename T>
T comparable(T value) {
  return value;
}
inline float comparable(Half value) { return to_float(value); }
inline float comparable(Bfloat value) { return to_float(value); }

template <typename T, typename Op>
LaneMask compare(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* const a = warp.lanes_of<T>(instruction.a);
  const T* const b = warp.lanes_of<T>(instruction.b);
  LaneMask result = 0;
  if (active == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      result |= static_cast<LaneMask>(Op::apply(comparable(a[lane]), comparable(b[lane]))) << lane;
    }
    return result;
  }
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    result |= static_cast<LaneMask>(Op::apply(comparable(a[lane]), comparable(b[lane]))) << lane;
  }
  return result;
}

// Instruction::flags of setp and set: how the result is combined with a further predicate.
constexpr std::uint16_t kCombineAnd = 1;
constexpr std::uint16_t kCombineOr = 2;
constexpr std::uint16_t kCombineXor = 3;
constexpr std::uint16_t kCombineNegated = 4;

LaneMask combined(Warp& warp, const Instruction& instruction, LaneMask result) {
  LaneMask other = warp.predicate(instruction.c);
  if ((instruction.flags & kCombineNegated) != 0) other = ~other;
  switch (instruction.flags & 3) {
    case kCombineAnd:
      return result & other;
    case kCombineOr:
      return result | other;
    case kCombineXor:
      return result ^ other;
    default:
      return result;
  }
}

// The second destination gets the opposite of the comparison, combined in the same way.
template <typename T, typename Op>
void run_setp(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask result = compare<T, Op>(warp, instruction, active);
  const LaneMask first = combined(warp, instruction, result);
  const LaneMask second = combined(warp, instruction, ~result);
  warp.set_predicate(instruction.destination, active, first);
  if (instruction.count == 2)
    warp.set_predicate(static_cast<std::uint32_t>(instruction.immediate), active, second);
}

// set gives a number: `immediate` where the comparison holds, else zero.
template <typename T, typename Op>
void run_set(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask result = combined(warp, instruction, compare<T, Op>(warp, instruction, active));
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const std::int64_t value = (result >> lane & 1) != 0 ? instruction.immediate : 0;
    if (instruction.count == 2) {
      warp.lanes_of<std::uint16_t>(instruction.destination)[lane] =
          static_cast<std::uint16_t>(value);
    } else {
      warp.lanes_of<std::uint32_t>(instruction.destination)[lane] =
          static_cast<std::uint32_t>(value);
    }
  }
}

// A comparison of both halves of packed numbers; the results are `immediate` in each half.
template <typename H, typename Op>
void run_set_packed(Warp& warp, const Instruction& instruction, LaneMask active) {
  std::uint32_t* const d = warp.lanes_of<std::uint32_t>(instruction.destination);
  const std::uint32_t* const a = warp.lanes_of<std::uint32_t>(instruction.a);
  const std::uint32_t* const b = warp.lanes_of<std::uint32_t>(instruction.b);
  const auto value = static_cast<std::uint32_t>(instruction.immediate);
  for_lanes(active, [=](int lane) {
    const auto part = [&](int shift) -> std::uint32_t {
      const H x = {static_cast<std::uint16_t>(a[lane] >> shift)};
      const H y = {static_cast<std::uint16_t>(b[lane] >> shift)};
      return Op::apply(to_float(x), to_float(y)) ? value : 0;
    };
    d[lane] = part(0) | part(16) << 16;
  });
}

// Chooses by the name of the comparison: select(Op{}).
template <typename Select>
Run pick_comparison(std::string_view name, Select select) {
  if (name == "eq") return select(Equal{});
  if (name == "ne") return select(NotEqual{});
  if (name == "lt" || name == "lo") return select(Less{});
  if (name == "le" || name == "ls") return select(LessEqual{});
  if (name == "gt" || name == "hi") return select(Greater{});
  if (name == "ge" || name == "hs") return select(GreaterEqual{});
  if (name == "equ") return select(Unless<NotEqual>{});
  if (name == "neu") return select(Unless<Equal>{});
  if (name == "ltu") return select(Unless<GreaterEqual>{});
  if (name == "leu") return select(Unless<Greater>{});
  if (name == "gtu") return select(Unless<LessEqual>{});
  if (name == "geu") return select(Unless<Less>{});
  if (name == "num") return select(IsNumber{});
  if (name == "nan") return select(Unless<IsNumber>{});
  return nullptr;
}

template <typename Select>
Run pick_compared(const Type& type, Select select) {
  if (type.kind == 'B') return select(Bfloat{});
  if (type.kind != 'f') return pick_integer(type, select);
  if (type.bits == 16) return select(Half{});
  return type.bits == 64 ? select(double{}) : select(float{});
}

// Reads .and, .or or .xor with the predicate at a place.
void read_combination(Decoder& decoder, std::size_t place) {
  Instruction& instruction = decoder.instruction;
  if (decoder.has("and")) instruction.flags = kCombineAnd;
  if (decoder.has("or")) instruction.flags = kCombineOr;
  if (decoder.has("xor")) instruction.flags = kCombineXor;
  if (instruction.flags == 0) return;
  const PredicateOperand other = decoder.predicate(decoder.operand(place));
  instruction.c = other.offset;
  if (other.is_negated) instruction.flags |= kCombineNegated;
}

void decode_setp(Decoder& decoder) {
  const Type type = decoder.type();
  if (type.is_packed || decoder.has("ftz")) decoder.unknown();
  Instruction& instruction = decoder.instruction;
  const std::vector<std::string_view> destinations = split(decoder.operand(0), '|');
  instruction.destination = decoder.predicate_destination(destinations[0]);
  if (destinations.size() == 2) {
    instruction.count = 2;
    instruction.immediate = decoder.predicate_destination(destinations[1]);
  }
  instruction.a = decoder.source(decoder.operand(1), type);
  instruction.b = decoder.source(decoder.operand(2), type);
  read_combination(decoder, 3);
  finish(decoder,
         pick_comparison(decoder.opcode()[1],
                         [&](auto op) {
                           return pick_compared(type, [](auto zero) -> Run {
                             return &run_setp<decltype(zero), decltype(op)>;
                           });
                         }),
         InstructionClass::integer);
}

std::int64_t true_value(const Type& type) {
  if (!type.is_float()) return -1;
  if (type.kind == 'B') return 0x3F80;
  return type.bits == 16 ? 0x3C00 : 0x3F800000;
}

void decode_set(Decoder& decoder) {
  const std::vector<Type> types = decoder.types();
  if (types.size() != 2 || decoder.has("ftz")) decoder.unknown();
  const Type& compared = types[1];
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), types[0].register_bits());
  instruction.count = types[0].register_bits() == 16 ? 2 : 1;
  instruction.a = decoder.source(decoder.operand(1), compared);
  instruction.b = decoder.source(decoder.operand(2), compared);
  instruction.immediate = true_value(types[0]);
  read_combination(decoder, 3);
  finish(decoder,
         pick_comparison(decoder.opcode()[1],
                         [&](auto op) -> Run {
                           using Op = decltype(op);
                           if (compared.is_packed) {
                             instruction.immediate &= 0xFFFF;
                             return compared.kind == 'B' ? &run_set_packed<Bfloat, Op>
                                                         : &run_set_packed<Half, Op>;
                           }
                           return pick_compared(compared, [](auto zero) -> Run {
                             return &run_set<decltype(zero), Op>;
                           });
                         }),
         InstructionClass::integer);
}

template <typename T>
void run_selp(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const T* const a = warp.lanes_of<T>(instruction.a);
  const T* const b = warp.lanes_of<T>(instruction.b);
  const LaneMask choice =
      warp.predicate(instruction.c) ^ static_cast<LaneMask>(instruction.immediate);
  for_lanes(active, [=](int lane) { d[lane] = (choice >> lane & 1) != 0 ? a[lane] : b[lane]; });
}

void decode_selp(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 2);
  const PredicateOperand choice = decoder.predicate(decoder.operand(3));
  decoder.instruction.c = choice.offset;
  decoder.instruction.immediate = choice.is_negated ? kAllLanes : 0;
  finish(decoder,
         pick_unsigned(type.bits, [](auto zero) -> Run { return &run_selp<decltype(zero)>; }),
         InstructionClass::integer);
}

// The first where the third is not negative.
struct SelectBySign {
  template <typename T, typename C>
  static T apply(T a, T b, C c) {
    return c >= 0 ? a : b;
  }
};

void decode_slct(Decoder& decoder) {
  const std::vector<Type> types = decoder.types();
  const Type& type = types[0];
  decoder.operands(type, 2);
  decoder.instruction.c = decoder.source(decoder.operand(3), types[1]);
  const bool by_float = types[1].is_float();
  finish(decoder,
         pick_unsigned(type.bits,
                       [=](auto zero) -> Run {
                         using T = decltype(zero);
                         if (by_float) return &lane_ternary<T, T, T, float, SelectBySign>;
                         return &lane_ternary<T, T, T, std::int32_t, SelectBySign>;
                       }),
         InstructionClass::integer);
}

struct IsFinite {
  template <typename T>
  static bool apply(T a, T) {
    return std::isfinite(a);
  }
};
struct IsInfinite {
  template <typename T>
  static bool apply(T a, T) {
    return std::isinf(a);
  }
};
struct IsNan {
  template <typename T>
  static bool apply(T a, T) {
    return std::isnan(a);
  }
};
struct IsNormal {
  template <typename T>
  static bool apply(T a, T) {
    return std::isnormal(a);
  }
};
struct IsSubnormal {
  template <typename T>
  static bool apply(T a, T) {
    return std::fpclassify(a) == FP_SUBNORMAL;
  }
};

template <typename T>
Run pick_test(std::string_view name) {
  if (name == "finite") return &run_setp<T, IsFinite>;
  if (name == "infinite") return &run_setp<T, IsInfinite>;
  if (name == "number") return &run_setp<T, Unless<IsNan>>;
  if (name == "notanumber") return &run_setp<T, IsNan>;
  if (name == "normal") return &run_setp<T, IsNormal>;
  if (name == "subnormal") return &run_setp<T, IsSubnormal>;
  return nullptr;
}

void decode_testp(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.predicate_destination(decoder.operand(0));
  instruction.a = instruction.b = decoder.source(decoder.operand(1), type);
  const std::string_view name = decoder.opcode()[1];
  finish(decoder, type.bits == 64 ? pick_test<double>(name) : pick_test<float>(name),
         InstructionClass::integer);
}

}  // namespace

void add_comparison(DecodeTable& table) {
  table["setp"] = decode_setp;
  table["set"] = decode_set;
  table["selp"] = decode_selp;
  table["slct"] = decode_slct;
  table["testp"] = decode_testp;
}

}  // namespace mobius::ptx
