#include "core/ops/copy.h"

#include "core/ops/checks.h"

namespace mobius {

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) throw ShapeError("concat: nothing to concatenate");
  const int d = normalize_dim("concat", dim, parts.front().ndim());
  Shape shape = parts.front().shape();
  shape[static_cast<std::size_t>(d)] = 0;
  for (const Tensor& part : parts) {
    require_same_kind("concat", "a part", parts.front(), part);
    Shape expected = shape;
    if (part.ndim() == parts.front().ndim())
      expected[static_cast<std::size_t>(d)] = part.size(d);
    else
      expected = parts.front().shape();
    require_shape("concat", "a part", part, expected);
  }
  for (const Tensor& part : parts) shape[static_cast<std::size_t>(d)] += part.size(d);
  Tensor out = Tensor::empty(std::move(shape), parts.front().dtype(), parts.front().device());
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    kernels(out, &Backend::copy)->copy(part, out.slice(d, at, at + part.size(d)));
    at += part.size(d);
  }
  return out;
}

namespace {

void require_dense(std::string_view op, const Tensor& x) {
  if (!x.is_contiguous()) throw ShapeError("{}: a {} that is not dense", op, to_string(x.shape()));
}

}  // namespace

void copy_to_host(const Tensor& x, void* host) {
  require_dense("copy_to_host", x);
  kernels(x, &Backend::copy)->copy_to_host(x, host);
}

void copy_from_host(const void* host, const Tensor& x) {
  require_dense("copy_from_host", x);
  kernels(x, &Backend::copy)->copy_from_host(host, x);
}

}  // namespace mobius
