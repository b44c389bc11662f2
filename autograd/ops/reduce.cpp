#include "autograd/ops.h"

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
  return record("sum", x, sum(x.data(), dims, keepdim),
                [shape = x.shape(), kept = kept_shape("sum", x.shape(), dims)](const Tensor& grad) {
                  return grad.reshape(kept).expand(shape);
                });
}

Variable mean(const Variable& x, const std::vector<int>& dims, bool keepdim) {
  const Variable total = sum(x, dims, keepdim);
  if (total.numel() == 0) return total;
  return scale(total, static_cast<double>(total.numel()) / static_cast<double>(x.numel()));
}

Variable max(const Variable& x, int dim, bool keepdim) {
  const Tensor largest = max(x.data(), dim, true);
  return record("max", x, keepdim ? largest : largest.squeeze(dim),
                [x = Saved("max", x), saved = Saved("max", largest), dim](const Tensor& grad) {
                  const Tensor& y = saved.get();
                  const Tensor ties = compare(CompareOp::equal, x.get(), y).to(y.dtype());
                  const Tensor share = div(grad.reshape(y.shape()), sum(ties, {dim}, true));
                  return mul(ties, share);
                });
}

Variable cumsum(const Variable& x, int dim) {
  return record("cumsum", x, cumsum(x.data(), dim),
                [dim](const Tensor& grad) { return cumsum(grad, dim, true); });
}

}  // namespace mobius
