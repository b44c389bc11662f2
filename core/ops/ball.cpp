#include "core/ops/ball.h"

#include <algorithm>
#include <cmath>

#include "core/ops/checks.h"
#include "core/ops/elementwise.h"
#include "core/ops/reduce.h"

namespace mobius {

namespace {

void require_column(std::string_view op, const Tensor& x) {
  require_real(op, x);
  if (x.ndim() < 2 || x.size(-1) != 1)
    throw ShapeError("{}: {}: expected [..., n, 1]", op, to_string(x.shape()));
}

void require_exponent(std::string_view op, double s) {
  if (!(s > 0) || !std::isfinite(s))
    throw Error("{}: expected an exponent s above 0, got {}", op, s);
}

Shape leading(const Shape& shape, int n_last) { return {shape.begin(), shape.end() - n_last}; }

// The elements of x[..., rest], broadcast to `rows` leading dimensions, as often as they must be
// repeated: [A, rest] where x is A rows after dimensions of size 1, else one for each row.
Tensor repeating_rows(const Tensor& x, const Shape& rows, const Shape& rest) {
  Shape full = rows;
  full.insert(full.end(), rest.begin(), rest.end());
  const int n_rest = static_cast<int>(rest.size());
  const Shape own = leading(x.shape(), std::min(n_rest, x.ndim()));
  std::size_t ones = 0;
  while (ones < own.size() && own[ones] == 1) ++ones;
  const std::size_t tail = own.size() - ones;
  const bool is_suffix =
      tail <= rows.size() && std::equal(own.end() - static_cast<std::ptrdiff_t>(tail), own.end(),
                                        rows.end() - static_cast<std::ptrdiff_t>(tail));
  if (!is_suffix) return x.expand(full).contiguous();
  Shape shape(rows.end() - static_cast<std::ptrdiff_t>(tail), rows.end());
  shape.insert(shape.end(), rest.begin(), rest.end());
  if (shape.empty()) shape = {1};
  Tensor trimmed = x;
  while (trimmed.ndim() > static_cast<int>(shape.size())) trimmed = trimmed.squeeze(0);
  return trimmed.expand(shape).contiguous();
}

// alpha as the kernels read it; undefined where it is.
Tensor rows_of_alpha(std::string_view op, const Tensor& length, const Tensor& alpha) {
  if (!alpha.defined()) return {};
  require_same_kind(op, "alpha", length, alpha);
  const bool is_one_a_row = (alpha.ndim() < 1 || alpha.size(-1) == 1) &&
                            (alpha.ndim() < 2 || alpha.size(-2) == 1) &&
                            alpha.ndim() <= length.ndim();
  if (!is_one_a_row)
    throw ShapeError("{}: alpha {} for lengths {}: expected [..., 1, 1]", op,
                     to_string(alpha.shape()), to_string(length.shape()));
  return repeating_rows(alpha, leading(length.shape(), 2), {1, 1});
}

// x[..., N, 1] or [..., N] as [R, N].
Tensor seen_as_rows(const Tensor& x, const Tensor& length) {
  return x.defined() ? x.contiguous().reshape({-1, length.size(-2)}) : Tensor();
}

BallRadiusResult seen_as_rows(const BallRadiusResult& x, const Tensor& length) {
  return {seen_as_rows(x.r, length), seen_as_rows(x.one_minus_r, length),
          seen_as_rows(x.sharpness, length)};
}

}  // namespace

BallRadiusResult ball_radius(const Tensor& length, const Tensor& alpha, const BallRadius& how) {
  constexpr std::string_view op = "ball_radius";
  require_column(op, length);
  require_exponent(op, how.s);
  const BallRadiusResult result = {length.empty_like(), length.empty_like(), length.empty_like()};
  const Tensor alphas = rows_of_alpha(op, length, alpha);
  if (length.numel() == 0) return result;
  kernels(length, &Backend::ball)
      ->ball_radius(seen_as_rows(length, length), alphas, how, seen_as_rows(result, length));
  return result;
}

BallRadiusGrads ball_radius_backward(const Tensor& length, const Tensor& alpha,
                                     const BallRadius& how, const BallRadiusResult& result,
                                     const BallRadiusResult& grads) {
  constexpr std::string_view op = "ball_radius_backward";
  require_column(op, length);
  require_exponent(op, how.s);
  for (const Tensor* x : {&result.r, &result.one_minus_r, &result.sharpness})
    require_like(op, "result", *x, length, length.shape());
  for (const Tensor* x : {&grads.r, &grads.one_minus_r, &grads.sharpness})
    require_optional(op, "gradient", *x, length, length.shape());
  const Tensor alphas = rows_of_alpha(op, length, alpha);
  BallRadiusGrads out{length.empty_like(), {}};
  if (length.numel() == 0) {
    if (alpha.defined()) out.alpha = alpha.zeros_like();
    return out;
  }
  const Tensor rows = seen_as_rows(length, length);
  const Tensor of_rows =
      alpha.defined() ? Tensor::empty({rows.size(0)}, length.dtype(), length.device()) : Tensor();
  kernels(length, &Backend::ball)
      ->ball_radius_backward(rows, alphas, how, seen_as_rows(result, length),
                             seen_as_rows(grads, length), seen_as_rows(out.length, length),
                             of_rows);
  if (alpha.defined()) {
    Shape one_a_row = leading(length.shape(), 2);
    one_a_row.insert(one_a_row.end(), {1, 1});
    out.alpha = sum_to(of_rows.reshape(one_a_row), alpha.shape());
  }
  return out;
}

Tensor ball_log_factor(const Tensor& r, const Tensor& one_minus_r, const Tensor& counts,
                       const BallLogFactor& how) {
  constexpr std::string_view op = "ball_log_factor";
  require_column(op, r);
  require_like(op, "one_minus_r", one_minus_r, r, r.shape());
  const Shape queries = leading(r.shape(), 1);
  const Tensor g = Tensor::empty(queries, r.dtype(), r.device());
  Tensor counts_of_rows;
  if (counts.defined()) {
    require_same_kind(op, "counts", r, counts);
    if (broadcast_shapes(op, counts.shape(), queries) != queries)
      throw ShapeError("{}: counts {} do not broadcast to {}", op, to_string(counts.shape()),
                       to_string(queries));
    counts_of_rows = repeating_rows(counts, leading(queries, 1), {queries.back()});
    counts_of_rows = counts_of_rows.reshape({-1, queries.back()});
  }
  if (g.numel() == 0) return g;
  kernels(r, &Backend::ball)
      ->ball_log_factor(seen_as_rows(r, r), seen_as_rows(one_minus_r, r), counts_of_rows, how,
                        seen_as_rows(g, r));
  return g;
}

BallLogFactorGrads ball_log_factor_backward(const Tensor& r, const Tensor& one_minus_r,
                                            const BallLogFactor& how, const Tensor& grad) {
  constexpr std::string_view op = "ball_log_factor_backward";
  require_column(op, r);
  require_like(op, "one_minus_r", one_minus_r, r, r.shape());
  require_like(op, "grad", grad, r, leading(r.shape(), 1));
  const BallLogFactorGrads grads = {r.empty_like(), r.empty_like()};
  if (r.numel() == 0) return grads;
  kernels(r, &Backend::ball)
      ->ball_log_factor_backward(seen_as_rows(r, r), seen_as_rows(one_minus_r, r), how,
                                 seen_as_rows(grad, r),
                                 {seen_as_rows(grads.r, r), seen_as_rows(grads.one_minus_r, r)});
  return grads;
}

}  // namespace mobius
