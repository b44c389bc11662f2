#include "core/ops/reduce.h"

#include <algorithm>

#include "core/ops/checks.h"
#include "core/ops/elementwise.h"

namespace mobius {

namespace {

// A tensor seen as [outer, n, inner] around one dimension.
struct AxisView {
  std::int64_t outer = 1, n = 1, inner = 1;
};

AxisView around(const Shape& shape, int first, int last) {
  AxisView view;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    std::int64_t& part = i < first ? view.outer : i > last ? view.inner : view.n;
    part *= shape[static_cast<std::size_t>(i)];
  }
  return view;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  require_real("sum", x);
  std::vector<bool> reduced(x.shape().size(), dims.empty());
  for (const int dim : dims) {
    reduced[static_cast<std::size_t>(normalize_dim("sum", dim, x.ndim()))] = true;
  }
  Tensor out = x;
  // Runs of adjacent reduced dimensions, from the last, each in one pass, kept as size 1.
  for (int last = x.ndim() - 1; last >= 0; --last) {
    if (!reduced[static_cast<std::size_t>(last)]) continue;
    int first = last;
    while (first > 0 && reduced[static_cast<std::size_t>(first - 1)]) --first;
    Shape shape = out.shape();
    std::fill(shape.begin() + first, shape.begin() + last + 1, 1);
    const AxisView view = around(out.shape(), first, last);
    const Tensor from = out.contiguous();
    out = Tensor::empty(std::move(shape), x.dtype(), x.device());
    kernels(x, &Backend::reduce)->sum(from, view.outer, view.n, view.inner, out);
    last = first;
  }
  if (keepdim) return out;
  Shape kept;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!reduced[static_cast<std::size_t>(i)]) kept.push_back(x.size(i));
  }
  return out.reshape(std::move(kept));
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  Tensor total = sum(x, dims, keepdim);
  if (total.numel() == 0) return total;
  return scale(total, static_cast<double>(total.numel()) / static_cast<double>(x.numel()));
}

Tensor max(const Tensor& x, int dim, bool keepdim) {
  require_real("max", x);
  const int d = normalize_dim("max", dim, x.ndim());
  if (x.size(d) == 0) throw ShapeError("max: dimension {} of {} is empty", d, to_string(x.shape()));
  const AxisView view = around(x.shape(), d, d);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(d)] = 1;
  Tensor out = Tensor::empty(std::move(shape), x.dtype(), x.device());
  kernels(x, &Backend::reduce)->max(x.contiguous(), view.outer, view.n, view.inner, out);
  return keepdim ? out : out.squeeze(d);
}

Tensor argmax(const Tensor& x) {
  require_real("argmax", x);
  if (x.ndim() == 0 || x.size(-1) == 0) {
    throw ShapeError("argmax: shape {} has no last dimension", to_string(x.shape()));
  }
  Shape shape = x.shape();
  shape.pop_back();
  Tensor out = Tensor::empty(std::move(shape), DType::i64, x.device());
  kernels(x, &Backend::reduce)->argmax(as_rows("argmax", x), out);
  return out;
}

double sum_of_squares(const Tensor& x) {
  const Tensor dense = x.contiguous();
  const Tensor sums = Tensor::empty({1}, DType::f64, x.device());
  sum_of_squares(std::span(&dense, 1), sums);
  return sums.item();
}

void sum_of_squares(std::span<const Tensor> xs, const Tensor& sums) {
  require_dtype("sum_of_squares", "the sums", sums, sums, DType::f64);
  require_shape("sum_of_squares", "the sums", sums, {std::ssize(xs)});
  for (const Tensor& x : xs) {
    if (!x.defined()) continue;
    require_real("sum_of_squares", x);
    require_same_device("sum_of_squares", "x", sums, x);
    if (!x.is_contiguous()) throw ShapeError("sum_of_squares: an operand is not dense");
  }
  kernels(sums, &Backend::reduce)->sum_of_squares(xs, sums);
  Tensor(sums).bump_version();
}

Tensor cumsum(const Tensor& x, int dim, bool reverse) {
  require_real("cumsum", x);
  const int d = normalize_dim("cumsum", dim, x.ndim());
  const AxisView view = around(x.shape(), d, d);
  Tensor out = x.empty_like();
  kernels(x, &Backend::reduce)
      ->cumsum(x.contiguous(), view.outer, view.n, view.inner, reverse, out);
  return out;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (broadcast_shapes("sum_to", shape, x.shape()) != x.shape()) {
    throw ShapeError("sum_to: {} is no broadcast of {}", to_string(x.shape()), to_string(shape));
  }
  std::vector<int> dims;
  const int added = x.ndim() - static_cast<int>(shape.size());
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < added || (shape[static_cast<std::size_t>(i - added)] == 1 && x.size(i) != 1)) {
      dims.push_back(i);
    }
  }
  return sum(x, dims, true).reshape(shape);
}

}  // namespace mobius
