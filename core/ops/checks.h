// How the operations of core/ops/ check and prepare their operands. Every check throws ShapeError,
// which names the operation `op` and the operand `what`.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace mobius {

// ---- types and devices

/// x is f32 or f64.
void require_real(std::string_view op, const Tensor& x);
/// x may be an operand of a product: f32, f64 or bf16.
void require_product_operand(std::string_view op, const Tensor& x);
/// x is on the device of `like`.
void require_same_device(std::string_view op, std::string_view what, const Tensor& like,
                         const Tensor& x);
/// x has the element type and device of `like`.
void require_same_kind(std::string_view op, std::string_view what, const Tensor& like,
                       const Tensor& x);
/// x has type `dtype` and is on the device of `like`.
void require_dtype(std::string_view op, std::string_view what, const Tensor& x, const Tensor& like,
                   DType dtype);
/// x holds indices or labels: it is i32 or i64 and on the device of `like`.
void require_index(std::string_view op, std::string_view what, const Tensor& x, const Tensor& like);

// ---- shapes

/// x has the shape `expected`.
void require_shape(std::string_view op, std::string_view what, const Tensor& x,
                   const Shape& expected);
/// x has the shape `expected` and the type and device of `like`.
void require_like(std::string_view op, std::string_view what, const Tensor& x, const Tensor& like,
                  const Shape& expected);
/// x is undefined or passes require_like().
void require_optional(std::string_view op, std::string_view what, const Tensor& x,
                      const Tensor& like, const Shape& expected);
/// q[B, H, Nq, D], k[B, G, Nk, D] and v[B, G, Nk, Dv] are real and fit together, G dividing H.
void require_heads(std::string_view op, const Tensor& q, const Tensor& k, const Tensor& v);

// ---- preparing

/// Returns x itself if its last dimension is dense, else a dense copy.
Tensor with_dense_rows(const Tensor& x);
/// Returns a dense x, seen as [rows, size of the last dimension]; throws ShapeError on a scalar.
Tensor as_rows(std::string_view op, const Tensor& x);
Tensor contiguous_if_defined(const Tensor& x);
Tensor empty_if_defined(const Tensor& x);
/// An empty [B, H, Nq, Dv] for the heads of q, in the memory order [B, Nq, H, Dv].
Tensor empty_heads(const Tensor& q, std::int64_t dv);
/// `shape` with a last dimension of another size.
Shape with_last(Shape shape, std::int64_t last);

}  // namespace mobius
