// The score maps on the host, and visitors of the operands of attention.
#pragma once

#include <limits>
#include <type_traits>

#include "core/score_maps/operands.h"

namespace mobius {

namespace scores {

#include "core/score_maps/score_maps.inc"

/// Calls fn(name, the member of each of `operands`) for all operands, in the order of their fields.
template <class Fn, class... Operands>
void for_each_operand(Fn&& fn, Operands&&... operands) {
  fn("q", operands.q...);
  fn("k", operands.k...);
  fn("v", operands.v...);
  for_each_number([&](const NumberKind& kind, auto&... member) { fn(kind.name, member...); },
                  operands...);
}

}  // namespace scores

/// fn of every operand.
template <class X, class Fn>
auto map_operands(const AttentionOperands<X>& operands, Fn&& fn) {
  AttentionOperands<decltype(fn(operands.q))> mapped;
  scores::for_each_operand([&](const char*, const X& x, auto& y) { y = fn(x); }, operands, mapped);
  return mapped;
}

}  // namespace mobius
