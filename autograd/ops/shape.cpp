#include <numeric>

#include "autograd/ops.h"

namespace mobius {

Variable reshape(const Variable& x, Shape shape) {
  return record("reshape", x, x.data().reshape(std::move(shape)),
                [shape = x.shape()](const Tensor& grad) { return grad.reshape(shape); });
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  return record("transpose", x, x.data().transpose(dim0, dim1),
                [dim0, dim1](const Tensor& grad) { return grad.transpose(dim0, dim1); });
}

Variable permute(const Variable& x, const std::vector<int>& dims) {
  Tensor out = x.data().permute(dims);
  std::vector<int> inverse(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    inverse[static_cast<std::size_t>(normalize_dim("permute", dims[i], x.ndim()))] =
        static_cast<int>(i);
  }
  return record("permute", x, std::move(out),
                [inverse](const Tensor& grad) { return grad.permute(inverse); });
}

Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  const int d = normalize_dim("slice", dim, x.ndim());
  return record("slice", x, x.data().slice(d, begin, end),
                [shape = x.shape(), d, begin, end](const Tensor& grad) {
                  Tensor grad_x = Tensor::zeros(shape, grad.dtype(), grad.device());
                  grad_x.slice(d, begin, end).copy_from(grad);
                  return grad_x;
                });
}

// The walker sums the gradient down to the shape of x.
Variable expand(const Variable& x, const Shape& shape) {
  return record("expand", x, x.data().expand(shape), [](const Tensor& grad) { return grad; });
}

namespace {

std::vector<Tensor> slices(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(x.slice(dim, at, at + size));
    at += size;
  }
  return parts;
}

// Makes the views(x) outputs. They cover x: the backward pass writes the gradient of each view, or
// 0, to its place.
template <class Views>
std::vector<Variable> record_views(std::string_view op, const Variable& x, Views views) {
  return record_many(op, {x}, views(x.data()),
                     [views, shape = x.shape(), dtype = x.dtype(), device = x.device()](
                         const Grads& grads, const NeedsGrad&) {
                       const Tensor grad_x = Tensor::empty(shape, dtype, device);
                       std::vector<Tensor> parts = views(grad_x);
                       for (std::size_t i = 0; i < parts.size(); ++i) {
                         if (grads[i].defined())
                           parts[i].copy_from(grads[i]);
                         else
                           parts[i].fill(0);
                       }
                       return Grads{grad_x};
                     });
}

}  // namespace

Variable concat(const std::vector<Variable>& parts, int dim) {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> sizes;
  for (const Variable& part : parts) {
    tensors.push_back(part.data());
    sizes.push_back(part.size(dim));
  }
  return record(
      "concat", parts, concat(tensors, dim),
      [sizes, dim](const Grads& grads, const NeedsGrad&) { return slices(grads[0], sizes, dim); });
}

std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int dim) {
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total != x.size(dim)) {
    throw ShapeError("split: sizes add up to {}, dimension {} of {} has {}", total, dim,
                     to_string(x.shape()), x.size(dim));
  }
  return record_views("split", x, [=](const Tensor& all) { return slices(all, sizes, dim); });
}

std::vector<Variable> split_heads(const Variable& x, const std::vector<HeadColumns>& parts) {
  std::int64_t columns = 0;
  for (const auto& [n_heads, width] : parts) columns += n_heads * width;
  if (x.ndim() != 3 || x.size(-1) != columns) {
    throw ShapeError("split_heads: x {}: expected [batch, n, {}]", to_string(x.shape()), columns);
  }
  return record_views("split_heads", x, [parts](const Tensor& all) {
    std::vector<Tensor> heads;
    std::int64_t at = 0;
    for (const auto& [n_heads, width] : parts) {
      const Tensor part = all.slice(-1, at, at + n_heads * width);
      heads.push_back(part.reshape({all.size(0), all.size(1), n_heads, width}).transpose(1, 2));
      at += n_heads * width;
    }
    return heads;
  });
}

}  // namespace mobius
