#include "core/ops/checks.h"

namespace mobius {

// ---- types and devices

void require_real(std::string_view op, const Tensor& x) {
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) throw_unsupported_dtype(op, x.dtype());
}

void require_product_operand(std::string_view op, const Tensor& x) {
  if (!is_floating(x.dtype())) throw_unsupported_dtype(op, x.dtype());
}

void require_same_device(std::string_view op, std::string_view what, const Tensor& like,
                         const Tensor& x) {
  if (x.device() != like.device()) {
    throw ShapeError("{}: {} lies on {}, expected {}", op, what, to_string(x.device()),
                     to_string(like.device()));
  }
}

void require_same_kind(std::string_view op, std::string_view what, const Tensor& like,
                       const Tensor& x) {
  if (x.dtype() != like.dtype()) {
    throw ShapeError("{}: types {} and {} differ", op, name_of(like.dtype()), name_of(x.dtype()));
  }
  require_same_device(op, what, like, x);
}

void require_dtype(std::string_view op, std::string_view what, const Tensor& x, const Tensor& like,
                   DType dtype) {
  if (x.dtype() != dtype) {
    throw ShapeError("{}: elements of type {} are not supported here: {} has to be {}", op,
                     name_of(x.dtype()), what, name_of(dtype));
  }
  require_same_device(op, what, like, x);
}

void require_index(std::string_view op, std::string_view what, const Tensor& x,
                   const Tensor& like) {
  if (x.dtype() != DType::i32 && x.dtype() != DType::i64) throw_unsupported_dtype(op, x.dtype());
  require_same_device(op, what, like, x);
}

// ---- shapes

void require_shape(std::string_view op, std::string_view what, const Tensor& x,
                   const Shape& expected) {
  if (x.shape() != expected) {
    throw ShapeError("{}: {} has shape {}, expected {}", op, what, to_string(x.shape()),
                     to_string(expected));
  }
}

void require_like(std::string_view op, std::string_view what, const Tensor& x, const Tensor& like,
                  const Shape& expected) {
  require_same_kind(op, what, like, x);
  require_shape(op, what, x, expected);
}

void require_optional(std::string_view op, std::string_view what, const Tensor& x,
                      const Tensor& like, const Shape& expected) {
  if (x.defined()) require_like(op, what, x, like, expected);
}

void require_heads(std::string_view op, const Tensor& q, const Tensor& k, const Tensor& v) {
  require_real(op, q);
  require_same_kind(op, "k", q, k);
  require_same_kind(op, "v", q, v);
  const bool fits = q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && q.size(0) == k.size(0) &&
                    q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0;
  const Shape kv = fits ? Shape{k.size(0), k.size(1), k.size(2), v.size(3)} : Shape{};
  if (!fits || v.shape() != kv) {
    throw ShapeError(
        "{}: q {}, k {}, v {}: expected [B, H, Nq, D], [B, G, Nk, D], [B, G, Nk, Dv], G dividing H",
        op, to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
  }
}

// ---- preparing

Tensor with_dense_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

Tensor as_rows(std::string_view op, const Tensor& x) {
  if (x.ndim() == 0) throw ShapeError("{}: a scalar has no last dimension", op);
  const Tensor dense = x.contiguous();
  if (x.ndim() == 2) return dense;
  const std::int64_t d = x.size(-1);
  return dense.reshape({d == 0 ? 0 : x.numel() / d, d});
}

Tensor contiguous_if_defined(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

Tensor empty_if_defined(const Tensor& x) { return x.defined() ? x.empty_like() : x; }

Tensor empty_heads(const Tensor& q, std::int64_t dv) {
  return Tensor::empty({q.size(0), q.size(2), q.size(1), dv}, q.dtype(), q.device())
      .transpose(1, 2);
}

Shape with_last(Shape shape, std::int64_t last) {
  shape.back() = last;
  return shape;
}

}  // namespace mobius
