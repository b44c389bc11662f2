#include "autograd/ops/shape.h"

#include <utility>

#include "core/ops/copy.h"

namespace mobius {

Variable reshape(const Variable& x, Shape shape) {
  return record("reshape", {x}, x.data().reshape(std::move(shape)),
                [shape = x.shape()](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0].reshape(shape)};
                });
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  return record("transpose", {x}, x.data().transpose(dim0, dim1),
                [dim0, dim1](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0].transpose(dim0, dim1)};
                });
}

Variable permute(const Variable& x, const std::vector<int>& dims) {
  Tensor out = x.data().permute(dims);
  std::vector<int> inverse(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    inverse[static_cast<std::size_t>(normalize_dim("permute", dims[i], x.ndim()))] =
        static_cast<int>(i);
  }
  return record("permute", {x}, std::move(out),
                [inverse](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0].permute(inverse)};
                });
}

Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end) {
  const int d = normalize_dim("slice", dim, x.ndim());
  return record(
      "slice", {x}, x.data().slice(d, begin, end),
      [shape = x.shape(), d, begin, end](const std::vector<Tensor>& grads, const NeedsGrad&) {
        Tensor grad_x = Tensor::zeros(shape, grads[0].dtype(), grads[0].device());
        grad_x.slice(d, begin, end).copy_from(grads[0]);
        return std::vector<Tensor>{std::move(grad_x)};
      });
}

Variable expand(const Variable& x, const Shape& shape) {
  // The walker sums the gradient down to the shape of x.
  return record("expand", {x}, x.data().expand(shape),
                [](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0]};
                });
}

Variable concat(const std::vector<Variable>& parts, int dim) {
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> sizes;
  for (const Variable& part : parts) {
    tensors.push_back(part.data());
    sizes.push_back(part.size(dim));
  }
  return record("concat", parts, concat(tensors, dim),
                [sizes, dim](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  std::vector<Tensor> slices;
                  std::int64_t at = 0;
                  for (const std::int64_t size : sizes) {
                    slices.push_back(grads[0].slice(dim, at, at + size));
                    at += size;
                  }
                  return slices;
                });
}

std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int dim) {
  std::vector<Tensor> parts;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(x.data().slice(dim, at, at + size));
    at += size;
  }
  if (at != x.size(dim)) {
    throw ShapeError("split: sizes add up to {}, dimension {} of {} has {}", at, dim,
                     to_string(x.shape()), x.size(dim));
  }
  std::vector<Shape> shapes;
  for (const Tensor& part : parts) shapes.push_back(part.shape());
  return record_many("split", {x}, std::move(parts),
                     [shapes, dim](const std::vector<Tensor>& grads, const NeedsGrad&) {
                       const auto any = [&] {
                         for (const Tensor& grad : grads) {
                           if (grad.defined()) return grad;
                         }
                         throw Error("split: no part has a gradient");
                       }();
                       std::vector<Tensor> filled = grads;
                       for (std::size_t i = 0; i < filled.size(); ++i) {
                         if (filled[i].defined()) continue;
                         filled[i] = Tensor::zeros(shapes[i], any.dtype(), any.device());
                       }
                       return std::vector<Tensor>{concat(filled, dim)};
                     });
}

namespace {

// Views [B, n_heads, N, width] of x[B, N, D].
std::vector<Tensor> heads_of(const Tensor& x, const std::vector<HeadColumns>& parts) {
  std::vector<Tensor> heads;
  std::int64_t at = 0;
  for (const auto& [n_heads, width] : parts) {
    const Tensor columns = x.slice(-1, at, at + n_heads * width);
    heads.push_back(columns.reshape({x.size(0), x.size(1), n_heads, width}).transpose(1, 2));
    at += n_heads * width;
  }
  return heads;
}

}  // namespace

// Backward, the gradients of all heads are written to their columns in one pass, however they lie.
std::vector<Variable> split_heads(const Variable& x, const std::vector<HeadColumns>& parts) {
  std::int64_t columns = 0;
  for (const auto& [n_heads, width] : parts) columns += n_heads * width;
  if (x.ndim() != 3 || x.size(-1) != columns) {
    throw ShapeError("split_heads: x {}: expected [batch, n, {}]", to_string(x.shape()), columns);
  }
  return record_many("split_heads", {x}, heads_of(x.data(), parts),
                     [shape = x.shape(), dtype = x.dtype(), device = x.device(), parts](
                         const std::vector<Tensor>& grads, const NeedsGrad&) {
                       const Tensor grad_x = Tensor::empty(shape, dtype, device);
                       std::vector<Tensor> heads = heads_of(grad_x, parts);
                       for (std::size_t i = 0; i < heads.size(); ++i) {
                         if (grads[i].defined()) {
                           heads[i].copy_from(grads[i]);
                         } else {
                           heads[i].fill(0);
                         }
                       }
                       return std::vector<Tensor>{grad_x};
                     });
}

}  // namespace mobius
