// atom and red, in shared and global memory, and the fences that order them.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/memory_path.h"

namespace mobius::ptx {

namespace {

enum class Space { generic, global, shared };

// What an atomic makes of the old value, its operand b and, for cas, c.
struct Add {
  template <typename T>
  static T apply(T old, T b, T) {
    return static_cast<T>(old + b);
  }
};
struct Minimum {
  template <typename T>
  static T apply(T old, T b, T) {
    return std::min(old, b);
  }
};
struct Maximum {
  template <typename T>
  static T apply(T old, T b, T) {
    return std::max(old, b);
  }
};
struct And {
  template <typename T>
  static T apply(T old, T b, T) {
    return old & b;
  }
};
struct Or {
  template <typename T>
  static T apply(T old, T b, T) {
    return old | b;
  }
};
struct Xor {
  template <typename T>
  static T apply(T old, T b, T) {
    return old ^ b;
  }
};
struct Exchange {
  template <typename T>
  static T apply(T, T b, T) {
    return b;
  }
};
struct CompareAndSwap {
  template <typename T>
  static T apply(T old, T b, T c) {
    return old == b ? c : old;
  }
};
struct Increment {
  template <typename T>
  static T apply(T old, T b, T) {
    return old >= b ? 0 : old + 1;
  }
};
struct Decrement {
  template <typename T>
  static T apply(T old, T b, T) {
    return old == 0 || old > b ? b : old - 1;
  }
};
template <typename H>
struct AddHalves {
  static std::uint16_t one(std::uint32_t a, std::uint32_t b) {
    return from_float<H>(to_float(H{static_cast<std::uint16_t>(a)}) +
                         to_float(H{static_cast<std::uint16_t>(b)}))
        .bits;
  }
  static std::uint32_t apply(std::uint32_t old, std::uint32_t b, std::uint32_t) {
    return std::uint32_t{one(old, b)} | std::uint32_t{one(old >> 16, b >> 16)} << 16;
  }
  static std::uint16_t apply(std::uint16_t old, std::uint16_t b, std::uint16_t) {
    return one(old, b);
  }
};

template <typename T, typename Op>
void change(unsigned char* place, Warp& warp, const Instruction& instruction, int lane) {
  T old;
  std::memcpy(&old, place, sizeof old);
  const T b = warp.lanes_of<T>(instruction.b)[lane];
  const T c = warp.lanes_of<T>(instruction.c)[lane];
  const T result = Op::apply(old, b, c);
  std::memcpy(place, &result, sizeof result);
  // red has no destination.
  if (instruction.destination != 0) warp.lanes_of<T>(instruction.destination)[lane] = old;
}

constexpr std::uint16_t kNarrowBase = 1;

std::uint64_t address_of(Warp& warp, const Instruction& instruction, int lane) {
  const auto offset = static_cast<std::uint64_t>(instruction.immediate);
  if ((instruction.flags & kNarrowBase) != 0) {
    return static_cast<std::uint32_t>(warp.lanes_of<std::uint32_t>(instruction.a)[lane] +
                                      static_cast<std::uint32_t>(offset));
  }
  return warp.lanes_of<std::uint64_t>(instruction.a)[lane] + offset;
}

template <typename T, typename Op, Space kSpace>
void run_atomic(Warp& warp, const Instruction& instruction, LaneMask active) {
  ++warp.block().counters().atomics;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    std::uint64_t address = address_of(warp, instruction, lane);
    bool is_shared = kSpace == Space::shared;
    if (kSpace == Space::generic && is_in_window(address, Window::shared)) {
      is_shared = true;
      address -= window_base(Window::shared);
    }
    if (is_shared) {
      change<T, Op>(atomic_shared(warp, instruction, lane, address, sizeof(T)), warp, instruction,
                    lane);
    } else {
      const std::lock_guard lock(warp.block().global().atomic_lock(address));
      change<T, Op>(atomic_global(warp, instruction, lane, address, sizeof(T)), warp, instruction,
                    lane);
    }
  }
}

template <typename T, typename Op>
Run pick_space(const Decoder& decoder) {
  if (decoder.has("global")) return &run_atomic<T, Op, Space::global>;
  if (decoder.has("shared") || decoder.has("shared::cta")) return &run_atomic<T, Op, Space::shared>;
  return &run_atomic<T, Op, Space::generic>;
}

template <typename Op>
Run pick_number(const Decoder& decoder, const Type& type) {
  if (type.bits == 32) {
    return type.is_signed() ? pick_space<std::int32_t, Op>(decoder)
                            : pick_space<std::uint32_t, Op>(decoder);
  }
  if (type.bits != 64) return nullptr;
  return type.is_signed() ? pick_space<std::int64_t, Op>(decoder)
                          : pick_space<std::uint64_t, Op>(decoder);
}

template <typename Op>
Run pick_bits(const Decoder& decoder, const Type& type) {
  if (type.bits == 16) return pick_space<std::uint16_t, Op>(decoder);
  return type.bits == 32 ? pick_space<std::uint32_t, Op>(decoder)
                         : pick_space<std::uint64_t, Op>(decoder);
}

Run pick_add(const Decoder& decoder, const Type& type) {
  if (!type.is_float()) return pick_number<Add>(decoder, type);
  if (type.bits == 64) return pick_space<double, Add>(decoder);
  if (type.bits == 32) return pick_space<float, Add>(decoder);
  if (type.kind == 'B') {
    return type.is_packed ? pick_space<std::uint32_t, AddHalves<Bfloat>>(decoder)
                          : pick_space<std::uint16_t, AddHalves<Bfloat>>(decoder);
  }
  return type.is_packed ? pick_space<std::uint32_t, AddHalves<Half>>(decoder)
                        : pick_space<std::uint16_t, AddHalves<Half>>(decoder);
}

Run pick_operation(const Decoder& decoder, const Type& type) {
  if (decoder.has("add")) return pick_add(decoder, type);
  if (type.is_float()) return nullptr;
  if (decoder.has("min")) return pick_number<Minimum>(decoder, type);
  if (decoder.has("max")) return pick_number<Maximum>(decoder, type);
  if (decoder.has("exch")) return pick_bits<Exchange>(decoder, type);
  if (decoder.has("cas")) return pick_bits<CompareAndSwap>(decoder, type);
  if (type.bits == 16) return nullptr;
  if (decoder.has("and")) return pick_bits<And>(decoder, type);
  if (decoder.has("or")) return pick_bits<Or>(decoder, type);
  if (decoder.has("xor")) return pick_bits<Xor>(decoder, type);
  if (decoder.has("inc")) return pick_bits<Increment>(decoder, type);
  if (decoder.has("dec")) return pick_bits<Decrement>(decoder, type);
  return nullptr;
}

void decode_operands(Decoder& decoder, std::size_t place) {
  Instruction& instruction = decoder.instruction;
  const Type type = decoder.type();
  const AddressOperand address = decoder.address(decoder.operand(place));
  const auto base = decoder.find(address.base);
  const int bits = base && base->kind == Symbol::Kind::reg ? base->bits : 64;
  if (bits == 32) instruction.flags |= kNarrowBase;
  instruction.a = decoder.source(address.base, {'u', bits, false});
  instruction.immediate = address.offset;
  instruction.b = decoder.source(decoder.operand(place + 1), type);
  if (decoder.has("cas")) instruction.c = decoder.source(decoder.operand(place + 2), type);
  finish(decoder, pick_operation(decoder, type), InstructionClass::memory);
}

void decode_atom(Decoder& decoder) {
  decoder.instruction.destination =
      decoder.destination(decoder.operand(0), decoder.type().register_bits());
  decode_operands(decoder, 1);
}

void decode_red(Decoder& decoder) { decode_operands(decoder, 0); }

void run_fence(Warp& warp, const Instruction&, LaneMask) { warp.block().global().fence(); }
void run_block_fence(Warp&, const Instruction&, LaneMask) {}

void decode_fence(Decoder& decoder) {
  const bool is_of_block = decoder.has("cta");
  finish(decoder, is_of_block ? &run_block_fence : &run_fence, InstructionClass::control);
}

}  // namespace

void add_atomics(DecodeTable& table) {
  table["atom"] = decode_atom;
  table["red"] = decode_red;
  table["membar"] = decode_fence;
  table["fence"] = decode_fence;
}

}  // namespace mobius::ptx
