#pragma once

#include <cstdint>

#include "tests/gpuless/ptx/decoder.h"
#include "tests/gpuless/ptx/lanes.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

// Instructions that treat each lane alone: D is the type of the destination, A, B and C those of
// the sources, and Op has a static function `apply`.

template <typename D, typename A, typename Op>
void lane_unary(Warp& warp, const Instruction& instruction, LaneMask active) {
  D* const d = warp.lanes_of<D>(instruction.destination);
  const A* const a = warp.lanes_of<A>(instruction.a);
  for_lanes(active, [=](int lane) { d[lane] = Op::apply(a[lane]); });
}

template <typename D, typename A, typename B, typename Op>
void lane_binary(Warp& warp, const Instruction& instruction, LaneMask active) {
  D* const d = warp.lanes_of<D>(instruction.destination);
  const A* const a = warp.lanes_of<A>(instruction.a);
  const B* const b = warp.lanes_of<B>(instruction.b);
  for_lanes(active, [=](int lane) { d[lane] = Op::apply(a[lane], b[lane]); });
}

template <typename D, typename A, typename B, typename C, typename Op>
void lane_ternary(Warp& warp, const Instruction& instruction, LaneMask active) {
  D* const d = warp.lanes_of<D>(instruction.destination);
  const A* const a = warp.lanes_of<A>(instruction.a);
  const B* const b = warp.lanes_of<B>(instruction.b);
  const C* const c = warp.lanes_of<C>(instruction.c);
  for_lanes(active, [=](int lane) { d[lane] = Op::apply(a[lane], b[lane], c[lane]); });
}

template <typename T, typename Op>
constexpr Run unary = &lane_unary<T, T, Op>;
template <typename T, typename Op>
constexpr Run binary = &lane_binary<T, T, T, Op>;
template <typename T, typename Op>
constexpr Run ternary = &lane_ternary<T, T, T, T, Op>;

// Choose a template by the width of a type, or by its width and sign: select(T{}) returns the Run.
// They return null for types that no register has.

template <typename Select>
Run pick_unsigned(int bits, Select select) {
  switch (bits) {
    case 16:
      return select(std::uint16_t{});
    case 32:
      return select(std::uint32_t{});
    case 64:
      return select(std::uint64_t{});
    default:
      return nullptr;
  }
}

template <typename Select>
Run pick_signed(int bits, Select select) {
  switch (bits) {
    case 16:
      return select(std::int16_t{});
    case 32:
      return select(std::int32_t{});
    case 64:
      return select(std::int64_t{});
    default:
      return nullptr;
  }
}

template <typename Select>
Run pick_integer(const Type& type, Select select) {
  return type.is_signed() ? pick_signed(type.bits, select) : pick_unsigned(type.bits, select);
}

/// Sets what an instruction runs; a null Run is an instruction that is not known.
inline void finish(Decoder& decoder, Run run, InstructionClass kind) {
  if (run == nullptr) decoder.unknown();
  decoder.instruction.run = run;
  decoder.instruction.kind = kind;
}

}  // namespace mobius::ptx
