#include "core/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"

namespace mobius {

std::int64_t numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw ShapeError("shape {}: a dimension is negative", to_string(shape));
    if (__builtin_mul_overflow(product, size, &product)) {
      throw ShapeError("shape {}: more than 2^63 - 1 elements", to_string(shape));
    }
  }
  return product;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {  // i counts from the last dimension
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ShapeError("{}: shapes {} and {} do not broadcast", op, to_string(a), to_string(b));
    }
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

int normalize_dim(std::string_view op, int dim, int ndim) {
  const int normalized = dim < 0 ? dim + ndim : dim;
  if (normalized < 0 || normalized >= ndim) {
    throw ShapeError("{}: dimension {} of a tensor with {} dimensions", op, dim, ndim);
  }
  return normalized;
}

}  // namespace mobius
