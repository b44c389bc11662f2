// Views and what is made of them: operations that compute nothing.
#pragma once

#include <vector>

#include "autograd/variable.h"

namespace mobius {

Variable reshape(const Variable& x, Shape shape);
Variable transpose(const Variable& x, int dim0, int dim1);
Variable permute(const Variable& x, const std::vector<int>& dims);
Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end);
Variable expand(const Variable& x, const Shape& shape);
Variable concat(const std::vector<Variable>& parts, int dim);
/// Consecutive slices of the given sizes along dim, as views.
std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int dim);
/// A number of heads, of equal width, that stand side by side among the columns of a matrix.
struct HeadColumns {
  std::int64_t n_heads, width;
};
/// The columns of x[B, N, D] as heads, part after part: views [B, n_heads, N, width]. Throws
/// ShapeError unless the parts have D columns together.
std::vector<Variable> split_heads(const Variable& x, const std::vector<HeadColumns>& parts);

}  // namespace mobius
