// Logic and bit fields: and, or, xor, not, shl, shr, shf, lop3, prmt, bfe, bfi, bfind, brev, popc,
// clz, fns, dp4a.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

struct And {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <typename T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
struct ConditionalNot {
  template <typename T>
  static T apply(T a) {
    return a == 0;
  }
};
// Shifts by the width or more shift everything out.
struct ShiftLeft {
  template <typename T>
  static T apply(T a, std::uint32_t by) {
    constexpr std::uint32_t kBits = 8 * sizeof(T);
    return by < kBits ? static_cast<T>(a << (by & (kBits - 1))) : T{0};
  }
};
struct ShiftRight {
  template <typename T>
  static T apply(T a, std::uint32_t by) {
    constexpr std::uint32_t kBits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (by < kBits ? by : kBits - 1));
    } else {
      return by < kBits ? static_cast<T>(a >> (by & (kBits - 1))) : T{0};
    }
  }
};
// Shifts the 64 bits of b:a, by c modulo 32 or clamped to 32.
template <bool kLeft, bool kClamp>
struct FunnelShift {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    const std::uint32_t by = kClamp ? std::min(c, 32u) : c & 31;
    const std::uint64_t both = std::uint64_t{b} << 32 | a;
    return static_cast<std::uint32_t>(kLeft ? both << by >> 32 : both >> by);
  }
};
// Each byte of the result is one of the eight bytes of b:a, or its sign.
struct Permute {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
    const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
    std::uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t which = selector >> (4 * i);
      auto byte = static_cast<std::uint32_t>(bytes >> (8 * (which & 7)) & 0xFF);
      if ((which & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
      result |= byte << (8 * i);
    }
    return result;
  }
};
struct ExtractField {
  template <typename T>
  static T apply(T a, std::uint32_t position, std::uint32_t length) {
    constexpr std::uint32_t kBits = 8 * sizeof(T);
    using Unsigned = std::make_unsigned_t<T>;
    position &= 0xFF;
    length &= 0xFF;
    if (length == 0) return 0;
    const auto bits = static_cast<Unsigned>(a);
    const std::uint32_t top = std::min(position + length - 1, kBits - 1);
    const bool sign = std::is_signed_v<T> && (bits >> top & 1) != 0;
    const Unsigned fill = sign ? ~Unsigned{0} : 0;
    Unsigned field = position < kBits ? bits >> position : 0;
    const std::uint32_t taken = position < kBits ? std::min(length, kBits - position) : 0;
    if (taken == kBits) return static_cast<T>(field);
    const Unsigned mask = (Unsigned{1} << taken) - 1;
    return static_cast<T>((field & mask) | (fill & ~mask));
  }
};
struct ReverseBits {
  template <typename T>
  static T apply(T a) {
    T result = 0;
    for (std::size_t i = 0; i < 8 * sizeof(T); ++i)
      result = static_cast<T>(result | (a >> i & 1) << (8 * sizeof(T) - 1 - i));
    return result;
  }
};
struct CountOnes {
  template <typename T>
  static std::uint32_t apply(T a) {
    return static_cast<std::uint32_t>(std::popcount(static_cast<std::make_unsigned_t<T>>(a)));
  }
};
struct CountLeadingZeros {
  template <typename T>
  static std::uint32_t apply(T a) {
    return static_cast<std::uint32_t>(std::countl_zero(static_cast<std::make_unsigned_t<T>>(a)));
  }
};
// The place of the highest bit that differs from the sign; with .shiftamt the shift that brings it
// to the top.
template <bool kShiftAmount>
struct FindBit {
  template <typename T>
  static std::uint32_t apply(T a) {
    using Unsigned = std::make_unsigned_t<T>;
    const auto bits = static_cast<Unsigned>(a < 0 ? ~a : a);
    if (bits == 0) return ~0u;
    const auto zeros = static_cast<std::uint32_t>(std::countl_zero(bits));
    return kShiftAmount ? zeros : 8 * sizeof(T) - 1 - zeros;
  }
};
// The place of the n-th set bit from a base; n counts down from it when negative.
struct FindNthSet {
  static std::uint32_t apply(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
    const int step = offset < 0 ? -1 : 1;
    int left = offset == 0 ? 1 : std::abs(offset);
    if (offset == 0) return mask >> (base & 31) & 1 ? base : ~0u;
    for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
      if ((mask >> bit & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(bit);
    }
    return ~0u;
  }
};
// Sum of four products of bytes, plus c.
template <typename A, typename B>
struct DotBytes {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    for (int i = 0; i < 4; ++i) {
      const auto x = static_cast<A>(a >> (8 * i));
      const auto y = static_cast<B>(b >> (8 * i));
      c += static_cast<std::uint32_t>(x * y);
    }
    return c;
  }
};

// The truth table is the immediate: bit 4a + 2b + c tells the result.
void run_lop3(Warp& warp, const Instruction& instruction, LaneMask active) {
  std::uint32_t* const d = warp.lanes_of<std::uint32_t>(instruction.destination);
  const std::uint32_t* const a = warp.lanes_of<std::uint32_t>(instruction.a);
  const std::uint32_t* const b = warp.lanes_of<std::uint32_t>(instruction.b);
  const std::uint32_t* const c = warp.lanes_of<std::uint32_t>(instruction.c);
  std::uint32_t term[8];
  for (int i = 0; i < 8; ++i) term[i] = (instruction.immediate >> i & 1) != 0 ? ~0u : 0;
  for_lanes(active, [&](int lane) {
    const std::uint32_t x = a[lane];
    const std::uint32_t y = b[lane];
    const std::uint32_t z = c[lane];
    const std::uint32_t low =
        (~y & ((~z & term[0]) | (z & term[1]))) | (y & ((~z & term[2]) | (z & term[3])));
    const std::uint32_t high =
        (~y & ((~z & term[4]) | (z & term[5]))) | (y & ((~z & term[6]) | (z & term[7])));
    d[lane] = (~x & low) | (x & high);
  });
}

// bfi a, b, position, length: b with a field of a.
template <typename T>
void run_insert(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const T* const a = warp.lanes_of<T>(instruction.a);
  const T* const b = warp.lanes_of<T>(instruction.b);
  const std::uint32_t* const position = warp.lanes_of<std::uint32_t>(instruction.c);
  const std::uint32_t* const length = warp.lanes_of<std::uint32_t>(warp.operands(instruction)[0]);
  constexpr std::uint32_t kBits = 8 * sizeof(T);
  for_lanes(active, [=](int lane) {
    const std::uint32_t at = position[lane] & 0xFF;
    const std::uint32_t bits = length[lane] & 0xFF;
    const T ones = bits >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << bits) - 1);
    const T mask = at >= kBits ? T{0} : static_cast<T>(ones << at);
    const T field = at >= kBits ? T{0} : static_cast<T>(a[lane] << at);
    d[lane] = static_cast<T>((b[lane] & ~mask) | (field & mask));
  });
}

// and.pred and the like; the immediate holds flips of the two sources.
template <typename Op>
void run_predicate(Warp& warp, const Instruction& instruction, LaneMask active) {
  const LaneMask a = warp.predicate(instruction.a) ^ ((instruction.flags & 1) != 0 ? kAllLanes : 0);
  const LaneMask b = warp.predicate(instruction.b) ^ ((instruction.flags & 2) != 0 ? kAllLanes : 0);
  warp.set_predicate(instruction.destination, active, Op::apply(a, b));
}

constexpr Type kU32 = {'u', 32, false};

template <typename Op>
void decode_logic(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  if (type.kind == 'p') {
    instruction.destination = decoder.predicate_destination(decoder.operand(0));
    const PredicateOperand a = decoder.predicate(decoder.operand(1));
    const PredicateOperand b = decoder.predicate(decoder.operand(2));
    instruction.a = a.offset;
    instruction.b = b.offset;
    instruction.flags = static_cast<std::uint16_t>((a.is_negated ? 1 : 0) | (b.is_negated ? 2 : 0));
    finish(decoder, &run_predicate<Op>, InstructionClass::integer);
    return;
  }
  decoder.operands(type, 2);
  finish(decoder, pick_unsigned(type.bits, [](auto zero) { return binary<decltype(zero), Op>; }),
         InstructionClass::integer);
}

// not.pred p, q is p = q xor true.
void decode_not(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  if (type.kind == 'p') {
    const PredicateOperand a = decoder.predicate(decoder.operand(1));
    instruction.destination = decoder.predicate_destination(decoder.operand(0));
    instruction.a = a.offset;
    instruction.b = 0;
    instruction.flags = a.is_negated ? 1 : 0;
    finish(decoder, &run_predicate<Xor>, InstructionClass::integer);
    return;
  }
  decoder.operands(type, 1);
  finish(decoder, pick_unsigned(type.bits, [](auto zero) { return unary<decltype(zero), Not>; }),
         InstructionClass::integer);
}

void decode_cnot(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  finish(decoder,
         pick_unsigned(type.bits, [](auto zero) { return unary<decltype(zero), ConditionalNot>; }),
         InstructionClass::integer);
}

template <typename Op>
void decode_shift(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), type.bits);
  instruction.a = decoder.source(decoder.operand(1), type);
  instruction.b = decoder.source(decoder.operand(2), kU32);
  finish(decoder,
         pick_integer(type,
                      [](auto zero) -> Run {
                        using T = decltype(zero);
                        return &lane_binary<T, T, std::uint32_t, Op>;
                      }),
         InstructionClass::integer);
}

void decode_shf(Decoder& decoder) {
  decoder.operands(kU32, 3);
  const bool clamp = decoder.has("clamp");
  const Run left = clamp ? ternary<std::uint32_t, FunnelShift<true, true>>
                         : ternary<std::uint32_t, FunnelShift<true, false>>;
  const Run right = clamp ? ternary<std::uint32_t, FunnelShift<false, true>>
                          : ternary<std::uint32_t, FunnelShift<false, false>>;
  finish(decoder, decoder.has("l") ? left : right, InstructionClass::integer);
}

void decode_lop3(Decoder& decoder) {
  decoder.operands(kU32, 3);
  const auto table = parse_immediate(decoder.operand(4), kU32);
  if (!table || decoder.opcode().size() != 2) decoder.unknown();
  decoder.instruction.immediate = static_cast<std::int64_t>(*table);
  finish(decoder, &run_lop3, InstructionClass::integer);
}

void decode_prmt(Decoder& decoder) {
  decoder.operands(kU32, 3);
  finish(decoder, decoder.opcode().size() == 2 ? ternary<std::uint32_t, Permute> : nullptr,
         InstructionClass::integer);
}

void decode_bfe(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), type.bits);
  instruction.a = decoder.source(decoder.operand(1), type);
  instruction.b = decoder.source(decoder.operand(2), kU32);
  instruction.c = decoder.source(decoder.operand(3), kU32);
  finish(decoder,
         pick_integer(type,
                      [](auto zero) -> Run {
                        using T = decltype(zero);
                        return &lane_ternary<T, T, std::uint32_t, std::uint32_t, ExtractField>;
                      }),
         InstructionClass::integer);
}

void decode_bfi(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), type.bits);
  instruction.a = decoder.source(decoder.operand(1), type);
  instruction.b = decoder.source(decoder.operand(2), type);
  instruction.c = decoder.source(decoder.operand(3), kU32);
  instruction.operands = decoder.add_operands({decoder.source(decoder.operand(4), kU32)});
  finish(decoder, type.bits == 64 ? &run_insert<std::uint64_t> : &run_insert<std::uint32_t>,
         InstructionClass::integer);
}

void decode_brev(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  finish(decoder,
         type.bits == 64 ? unary<std::uint64_t, ReverseBits> : unary<std::uint32_t, ReverseBits>,
         InstructionClass::integer);
}

// Counts give 32 bits, whatever the width of the source.
template <typename Op>
void decode_count(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  instruction.destination = decoder.destination(decoder.operand(0), 32);
  instruction.a = decoder.source(decoder.operand(1), type);
  finish(decoder,
         pick_integer(
             type, [](auto zero) -> Run { return &lane_unary<std::uint32_t, decltype(zero), Op>; }),
         InstructionClass::integer);
}

void decode_bfind(Decoder& decoder) {
  decoder.has("shiftamt") ? decode_count<FindBit<true>>(decoder)
                          : decode_count<FindBit<false>>(decoder);
}

void decode_fns(Decoder& decoder) {
  decoder.operands(kU32, 3);
  finish(decoder,
         &lane_ternary<std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t, FindNthSet>,
         InstructionClass::integer);
}

void decode_dp4a(Decoder& decoder) {
  decoder.operands(kU32, 3);
  const std::vector<Type> types = decoder.types();
  const bool a = types.front().is_signed();
  const bool b = types.back().is_signed();
  Run run = a ? (b ? ternary<std::uint32_t, DotBytes<std::int8_t, std::int8_t>>
                   : ternary<std::uint32_t, DotBytes<std::int8_t, std::uint8_t>>)
              : (b ? ternary<std::uint32_t, DotBytes<std::uint8_t, std::int8_t>>
                   : ternary<std::uint32_t, DotBytes<std::uint8_t, std::uint8_t>>);
  finish(decoder, run, InstructionClass::integer);
}

}  // namespace

void add_bits(DecodeTable& table) {
  table["and"] = decode_logic<And>;
  table["or"] = decode_logic<Or>;
  table["xor"] = decode_logic<Xor>;
  table["not"] = decode_not;
  table["cnot"] = decode_cnot;
  table["shl"] = decode_shift<ShiftLeft>;
  table["shr"] = decode_shift<ShiftRight>;
  table["shf"] = decode_shf;
  table["lop3"] = decode_lop3;
  table["prmt"] = decode_prmt;
  table["bfe"] = decode_bfe;
  table["bfi"] = decode_bfi;
  table["brev"] = decode_brev;
  table["popc"] = decode_count<CountOnes>;
  table["clz"] = decode_count<CountLeadingZeros>;
  table["bfind"] = decode_bfind;
  table["fns"] = decode_fns;
  table["dp4a"] = decode_dp4a;
}

}  // namespace mobius::ptx
