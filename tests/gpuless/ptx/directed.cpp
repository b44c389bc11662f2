// Operations that round towards zero, down, or up. Compiled with -frounding-math: each sets the
// rounding of the processor around its lanes.

#include "tests/gpuless/ptx/directed.h"

#include <cfenv>
#include <cmath>

#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

template <DirectedOperation kOperation, typename T>
T compute(T a, T b, T c) {
  switch (kOperation) {
    case DirectedOperation::add:
      return a + b;
    case DirectedOperation::sub:
      return a - b;
    case DirectedOperation::mul:
      return a * b;
    case DirectedOperation::fma:
      return std::fma(a, b, c);
    case DirectedOperation::div:
      return a / b;
    case DirectedOperation::sqrt:
      return std::sqrt(a);
    case DirectedOperation::rcp:
      return 1 / a;
  }
}

template <DirectedOperation kOperation, int kRounding, typename T>
void run_directed(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const T* const a = warp.lanes_of<T>(instruction.a);
  // Operations of one or two operands have no offset here, which is a place that may be read.
  const T* const b = warp.lanes_of<T>(instruction.b);
  const T* const c = warp.lanes_of<T>(instruction.c);
  const int before = std::fegetround();
  std::fesetround(kRounding);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    volatile T result = compute<kOperation, T>(a[lane], b[lane], c[lane]);
    d[lane] = result;
  }
  std::fesetround(before);
}

template <DirectedOperation kOperation, typename T>
Run pick_rounding(const Decoder& decoder) {
  if (decoder.has("rz")) return &run_directed<kOperation, FE_TOWARDZERO, T>;
  if (decoder.has("rm")) return &run_directed<kOperation, FE_DOWNWARD, T>;
  return &run_directed<kOperation, FE_UPWARD, T>;
}

template <DirectedOperation kOperation>
Run pick_type(const Decoder& decoder, const Type& type) {
  if (decoder.has("ftz") || decoder.has("sat")) return nullptr;
  if (type.kind != 'f' || type.bits == 16) return nullptr;
  return type.bits == 64 ? pick_rounding<kOperation, double>(decoder)
                         : pick_rounding<kOperation, float>(decoder);
}

}  // namespace

Run directed(DirectedOperation operation, const Decoder& decoder, const Type& type) {
  switch (operation) {
    case DirectedOperation::add:
      return pick_type<DirectedOperation::add>(decoder, type);
    case DirectedOperation::sub:
      return pick_type<DirectedOperation::sub>(decoder, type);
    case DirectedOperation::mul:
      return pick_type<DirectedOperation::mul>(decoder, type);
    case DirectedOperation::fma:
      return pick_type<DirectedOperation::fma>(decoder, type);
    case DirectedOperation::div:
      return pick_type<DirectedOperation::div>(decoder, type);
    case DirectedOperation::sqrt:
      return pick_type<DirectedOperation::sqrt>(decoder, type);
    case DirectedOperation::rcp:
      return pick_type<DirectedOperation::rcp>(decoder, type);
  }
  return nullptr;
}

}  // namespace mobius::ptx
