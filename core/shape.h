// Shapes and strides, counted in elements, outermost dimension first (row-major).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

using Shape = std::vector<std::int64_t>;
using Strides = std::vector<std::int64_t>;

/// Product of the dimensions; 1 for a scalar (empty shape). Throws ShapeError on a negative
/// dimension or a product beyond 2^63 - 1.
std::int64_t numel(const Shape& shape);
/// Formats a shape as "[2, 3, 4]".
std::string to_string(const Shape& shape);
/// Returns the strides of a dense row-major tensor of this shape.
Strides contiguous_strides(const Shape& shape);
/// Broadcasts two shapes: dimensions are aligned at the last one, and size 1 stretches. Throws
/// ShapeError naming `op` and both shapes if they do not fit.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);
/// Maps dim in [-ndim, ndim) to [0, ndim); throws ShapeError naming `op` otherwise.
int normalize_dim(std::string_view op, int dim, int ndim);

}  // namespace mobius
