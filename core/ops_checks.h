// What core/ops.cpp and core/attention_ops.cpp check of operands, and how they prepare them.
#pragma once

#include <string_view>

#include "core/backend.h"
#include "core/score_maps/score_maps.h"

namespace mobius {

/// The backend of the device that holds x.
inline Backend& backend_of(const Tensor& x) { return backend_for(x.device()); }

/// x itself where elements of its last dimension lie side by side, else a dense copy.
inline Tensor with_dense_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

/// Throws ShapeError unless a and b have one element type and lie on one device.
inline void require_same_kind(std::string_view op, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) {
    throw ShapeError("{}: types {} and {} differ", op, name_of(a.dtype()), name_of(b.dtype()));
  }
  if (a.device() != b.device()) {
    throw ShapeError("{}: devices {} and {} differ", op, to_string(a.device()),
                     to_string(b.device()));
  }
}

/// Throws ShapeError, naming the operand as `what`, unless x has the shape `expected`.
inline void require_shape(std::string_view op, std::string_view what, const Tensor& x,
                          const Shape& expected) {
  if (x.shape() != expected) {
    throw ShapeError("{}: {} has shape {}, expected {}", op, what, to_string(x.shape()),
                     to_string(expected));
  }
}

/// The same, and that x is of the type of `like` and lies where that does.
inline void require_like(std::string_view op, std::string_view what, const Tensor& x,
                         const Tensor& like, const Shape& expected) {
  require_same_kind(op, like, x);
  require_shape(op, what, x, expected);
}

/// The same where x is defined: it need not be.
inline void require_optional(std::string_view op, std::string_view what, const Tensor& x,
                             const Tensor& like, const Shape& expected) {
  if (x.defined()) require_like(op, what, x, like, expected);
}

/// Throws Error unless an attention call has the numbers that its score map takes, and constants in
/// range: what the fused and the composed form check alike.
void require_numbers_fit(const AttentionSpec& spec, const AttentionOperands<bool>& is_given);
template <class X>
void require_numbers_fit(const AttentionSpec& spec, const AttentionOperands<X>& inputs) {
  require_numbers_fit(spec, map_operands(inputs, [](const X& x) { return x.defined(); }));
}

}  // namespace mobius
