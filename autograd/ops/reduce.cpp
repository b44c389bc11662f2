#include "autograd/ops/reduce.h"

#include <utility>

#include "autograd/ops/elementwise.h"
#include "core/ops/elementwise.h"

namespace mobius {
namespace {

// `shape` with the reduced dimensions kept as size 1.
Shape kept_shape(std::string_view op, Shape shape, const std::vector<int>& dims) {
  if (dims.empty()) return Shape(shape.size(), 1);
  const int ndim = static_cast<int>(shape.size());
  for (const int dim : dims) shape[static_cast<std::size_t>(normalize_dim(op, dim, ndim))] = 1;
  return shape;
}

}  // namespace

Variable sum(const Variable& x, const std::vector<int>& dims, bool keepdim) {
  return record("sum", {x}, sum(x.data(), dims, keepdim),
                [shape = x.shape(), kept = kept_shape("sum", x.shape(), dims)](
                    const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{grads[0].reshape(kept).expand(shape)};
                });
}

Variable mean(const Variable& x, const std::vector<int>& dims, bool keepdim) {
  const Variable total = sum(x, dims, keepdim);
  if (total.numel() == 0) return total;
  return scale(total, static_cast<double>(total.numel()) / static_cast<double>(x.numel()));
}

Variable max(const Variable& x, int dim, bool keepdim) {
  Tensor largest = max(x.data(), dim, true);
  Saved saved("max", largest);
  Tensor out = keepdim ? std::move(largest) : largest.squeeze(dim);
  return record(
      "max", {x}, std::move(out),
      [x = Saved("max", x), saved, dim](const std::vector<Tensor>& grads, const NeedsGrad&) {
        const Tensor& y = saved.get();
        const Tensor ties = compare(CompareOp::equal, x.get(), y).to(y.dtype());
        const Tensor share = div(grads[0].reshape(y.shape()), sum(ties, {dim}, true));
        return std::vector<Tensor>{mul(ties, share)};
      });
}

Variable cumsum(const Variable& x, int dim) {
  return record("cumsum", {x}, cumsum(x.data(), dim),
                [dim](const std::vector<Tensor>& grads, const NeedsGrad&) {
                  return std::vector<Tensor>{cumsum(grads[0], dim, true)};
                });
}

}  // namespace mobius
