#include "core/ops.h"

#include <algorithm>
#include <cmath>

#include "core/ops_checks.h"

namespace mobius {
namespace {

// x seen as [rows, size of the last dimension].
Tensor as_rows(std::string_view op, const Tensor& x) {
  if (x.ndim() == 0) throw ShapeError("{}: a scalar has no last dimension", op);
  if (x.ndim() == 2) return x;
  const std::int64_t d = x.size(-1);
  return x.reshape({d == 0 ? 0 : x.numel() / d, d});
}

Shape with_last(Shape shape, std::int64_t last) {
  shape.back() = last;
  return shape;
}

Tensor binary(std::string_view op, BinaryOp kind, const Tensor& a, const Tensor& b) {
  require_same_kind(op, a, b);
  const Shape shape = broadcast_shapes(op, a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  backend_of(a).binary(kind, a.expand(shape), b.expand(shape), out);
  return out;
}

}  // namespace

// ---- elementwise

Tensor unary(const Unary& f, const Tensor& x) {
  const Tensor dense = x.contiguous();
  Tensor y = dense.empty_like();
  backend_of(x).unary(f, dense, y);
  return y;
}

Tensor unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y) {
  require_like("unary_backward", "y", y, x, x.shape());
  require_like("unary_backward", "grad_y", grad_y, x, x.shape());
  const Tensor dense = x.contiguous();
  Tensor grad_x = dense.empty_like();
  backend_of(x).unary_backward(f, dense, y.contiguous(), grad_y.contiguous(), grad_x);
  return grad_x;
}

Tensor swiglu(const Tensor& gate, const Tensor& up) {
  require_like("swiglu", "up", up, gate, gate.shape());
  Tensor out = Tensor::empty(gate.shape(), gate.dtype(), gate.device());
  backend_of(out).swiglu(gate.contiguous(), up.contiguous(), out);
  return out;
}

SwigluGrads swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out) {
  require_like("swiglu_backward", "up", up, gate, gate.shape());
  require_like("swiglu_backward", "grad_out", grad_out, gate, gate.shape());
  const Tensor dense_gate = gate.contiguous(), dense_up = up.contiguous();
  SwigluGrads grads{dense_gate.empty_like(), dense_up.empty_like()};
  backend_of(gate).swiglu_backward(dense_gate, dense_up, grad_out.contiguous(), grads.gate,
                                   grads.up);
  return grads;
}

Tensor add(const Tensor& a, const Tensor& b) { return binary("add", BinaryOp::add, a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", BinaryOp::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", BinaryOp::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", BinaryOp::div, a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) {
  return binary("maximum", BinaryOp::maximum, a, b);
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary("minimum", BinaryOp::minimum, a, b);
}

Tensor affine(const Tensor& x, double a, double b) { return unary({UnaryOp::affine, a, b}, x); }

Tensor compare(CompareOp op, const Tensor& a, const Tensor& b) {
  require_same_kind("compare", a, b);
  const Shape shape = broadcast_shapes("compare", a.shape(), b.shape());
  Tensor out = Tensor::empty(shape, DType::u8, a.device());
  backend_of(a).compare(op, a.expand(shape), b.expand(shape), out);
  return out;
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_same_kind("where", a, b);
  if (condition.dtype() != DType::u8)
    throw_unsupported_dtype("where: condition", condition.dtype());
  const Shape values = broadcast_shapes("where", a.shape(), b.shape());
  const Shape shape = broadcast_shapes("where", condition.shape(), values);
  Tensor out = Tensor::empty(shape, a.dtype(), a.device());
  backend_of(a).where(condition.expand(shape), a.expand(shape), b.expand(shape), out);
  return out;
}

Tensor dropout(const Tensor& x, double p, RngKey key) {
  if (!(p >= 0 && p < 1)) throw Error("dropout: p = {} is not in [0, 1)", p);
  const Tensor dense = x.contiguous();
  Tensor y = dense.empty_like();
  backend_of(x).dropout(key, p, dense, y);
  return y;
}

// ---- random

Tensor random_uniform(Shape shape, double low, double high, RngKey key, DType dtype,
                      Device device) {
  if (!(low <= high) || !std::isfinite(high - low))
    throw Error("random_uniform: [{}, {}) is no range", low, high);
  Tensor out = Tensor::empty(std::move(shape), dtype, device);
  backend_of(out).random_uniform(key, low, high, out);
  return out;
}

Tensor random_normal(Shape shape, double mean, double stddev, RngKey key, DType dtype,
                     Device device) {
  if (!std::isfinite(mean) || !(stddev >= 0) || !std::isfinite(stddev))
    throw Error("random_normal: a mean of {} and a standard deviation of {}", mean, stddev);
  Tensor out = Tensor::empty(std::move(shape), dtype, device);
  backend_of(out).random_normal(key, mean, stddev, out);
  return out;
}

// ---- reductions

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

Tensor sum_adjacent(const Tensor& x, int first, int last, Shape out_shape) {
  const Tensor dense = x.contiguous();
  const AxisView view = around(x.shape(), first, last);
  Tensor out = Tensor::empty(std::move(out_shape), x.dtype(), x.device());
  backend_of(x).sum(dense, view.outer, view.n, view.inner, out);
  return out;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
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
    out = sum_adjacent(out, first, last, std::move(shape));
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
  const int d = normalize_dim("max", dim, x.ndim());
  if (x.size(d) == 0) throw ShapeError("max: dimension {} of {} is empty", d, to_string(x.shape()));
  const AxisView view = around(x.shape(), d, d);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(d)] = 1;
  Tensor out = Tensor::empty(std::move(shape), x.dtype(), x.device());
  backend_of(x).max(x.contiguous(), view.outer, view.n, view.inner, out);
  return keepdim ? out : out.squeeze(d);
}

Tensor argmax(const Tensor& x) {
  if (x.ndim() == 0 || x.size(-1) == 0) {
    throw ShapeError("argmax: shape {} has no last dimension", to_string(x.shape()));
  }
  Shape shape = x.shape();
  shape.pop_back();
  Tensor out = Tensor::empty(std::move(shape), DType::i64, x.device());
  backend_of(x).argmax(as_rows("argmax", x.contiguous()), out);
  return out;
}

double sum_of_squares(const Tensor& x) { return backend_of(x).sum_of_squares(x.contiguous()); }

Tensor cumsum(const Tensor& x, int dim, bool reverse) {
  const int d = normalize_dim("cumsum", dim, x.ndim());
  const AxisView view = around(x.shape(), d, d);
  Tensor out = x.empty_like();
  backend_of(x).cumsum(x.contiguous(), view.outer, view.n, view.inner, reverse, out);
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

// ---- shape

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) throw ShapeError("concat: nothing to concatenate");
  const int d = normalize_dim("concat", dim, parts.front().ndim());
  Shape shape = parts.front().shape();
  shape[static_cast<std::size_t>(d)] = 0;
  for (const Tensor& part : parts) {
    require_same_kind("concat", parts.front(), part);
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
    backend_of(out).copy(part, out.slice(d, at, at + part.size(d)));
    at += part.size(d);
  }
  return out;
}

// ---- matrix products

namespace {

DType product_type(DType operand) { return operand == DType::bf16 ? DType::f32 : operand; }

}  // namespace

Tensor product_operand(const Tensor& x, ProductPrecision precision) {
  if (precision == ProductPrecision::full || x.dtype() == DType::bf16) return x;
  if (x.dtype() != DType::f32)
    throw Error("products in bf16: expected f32 operands, got {}", name_of(x.dtype()));
  return x.to(DType::bf16);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_same_kind("matmul", a, b);
  if (a.ndim() < 2 || b.ndim() < 2 || a.size(-1) != b.size(-2)) {
    throw ShapeError("matmul: {} x {}: expected [..., M, K] x [..., K, N]", to_string(a.shape()),
                     to_string(b.shape()));
  }
  const Shape batch = broadcast_shapes("matmul", {a.shape().begin(), a.shape().end() - 2},
                                       {b.shape().begin(), b.shape().end() - 2});
  const auto with_batch = [&batch](std::int64_t rows, std::int64_t cols) {
    Shape shape = batch;
    shape.push_back(rows);
    shape.push_back(cols);
    return shape;
  };
  Tensor out =
      Tensor::empty(with_batch(a.size(-2), b.size(-1)), product_type(a.dtype()), a.device());
  backend_of(a).matmul(a.expand(with_batch(a.size(-2), a.size(-1))),
                       b.expand(with_batch(b.size(-2), b.size(-1))), false, out);
  return out;
}

void matmul_add(Tensor& out, const Tensor& a, const Tensor& b) {
  require_same_kind("matmul_add", a, b);
  if (out.dtype() != product_type(a.dtype())) {
    throw ShapeError("matmul_add: out is {}, but products of {} are {}", name_of(out.dtype()),
                     name_of(a.dtype()), name_of(product_type(a.dtype())));
  }
  if (a.ndim() != 2 || b.ndim() != 2 || a.size(1) != b.size(0)) {
    throw ShapeError("matmul_add: {} x {}: expected [M, K] x [K, N]", to_string(a.shape()),
                     to_string(b.shape()));
  }
  require_shape("matmul_add", "out", out, {a.size(0), b.size(1)});
  backend_of(a).matmul(a, b, true, out);
  out.bump_version();
}

LinearActivation linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Activation activation) {
  require_same_kind("linear", x, weight);
  if (weight.ndim() != 2 || x.ndim() == 0 || x.size(-1) != weight.size(1)) {
    throw ShapeError("linear: x {} and weight {}: expected [..., K] and [N, K]",
                     to_string(x.shape()), to_string(weight.shape()));
  }
  LinearActivation result;
  result.pre =
      Tensor::empty(with_last(x.shape(), weight.size(0)), product_type(x.dtype()), x.device());
  if (bias.defined()) {
    require_same_kind("linear", result.pre, bias);
    require_shape("linear", "bias", bias, {weight.size(0)});
  }
  if (activation != Activation::none) result.out = result.pre.empty_like();
  backend_of(x).linear(as_rows("linear", x.contiguous()), weight.contiguous(), bias, activation,
                       result.pre, result.out);
  return result;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_activation(x, weight, bias, Activation::none).pre;
}

// ---- norms

namespace {

Shape row_shape(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 1}; }

void require_norm_operand(std::string_view op, std::string_view what, const Tensor& x,
                          const Tensor& parameter) {
  if (x.ndim() == 0) throw ShapeError("{}: a scalar has no last dimension", op);
  require_like(op, what, parameter, x, {x.size(-1)});
}

void require_eps(std::string_view op, double eps) {
  if (!(eps >= 0)) throw Error("{}: expected an eps of at least 0, got {}", op, eps);
}

// A number a row that the forward pass kept.
void require_statistic(std::string_view op, std::string_view what, const Tensor& x,
                       const Tensor& statistic) {
  require_shape(op, what, statistic, row_shape(x));
  if (statistic.dtype() != DType::f64) throw_unsupported_dtype(op, statistic.dtype());
}

}  // namespace

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  require_norm_operand("rms_norm", "weight", x, weight);
  require_eps("rms_norm", eps);
  NormResult result{x.empty_like(), {}, Tensor::empty(row_shape(x), DType::f64, x.device())};
  backend_of(x).rms_norm(as_rows("rms_norm", x.contiguous()), weight, eps, result.y, result.rstd);
  return result;
}

NormGrads rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y) {
  constexpr std::string_view op = "rms_norm_backward";
  require_norm_operand(op, "weight", x, weight);
  require_statistic(op, "rstd", x, rstd);
  require_like(op, "grad_y", grad_y, x, x.shape());
  NormGrads grads{x.empty_like(), weight.empty_like(), {}};
  backend_of(x).rms_norm_backward(as_rows("rms_norm", x.contiguous()), weight, rstd,
                                  grad_y.contiguous(), grads.x, grads.weight);
  return grads;
}

NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_norm_operand("layer_norm", "weight", x, weight);
  require_norm_operand("layer_norm", "bias", x, bias);
  require_eps("layer_norm", eps);
  NormResult result{x.empty_like(), Tensor::empty(row_shape(x), DType::f64, x.device()),
                    Tensor::empty(row_shape(x), DType::f64, x.device())};
  backend_of(x).layer_norm(as_rows("layer_norm", x.contiguous()), weight, bias, eps, result.y,
                           result.mean, result.rstd);
  return result;
}

NormGrads layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y) {
  constexpr std::string_view op = "layer_norm_backward";
  require_norm_operand(op, "weight", x, weight);
  require_statistic(op, "mean", x, mean);
  require_statistic(op, "rstd", x, rstd);
  require_like(op, "grad_y", grad_y, x, x.shape());
  NormGrads grads{x.empty_like(), weight.empty_like(), weight.empty_like()};
  backend_of(x).layer_norm_backward(as_rows("layer_norm", x.contiguous()), weight, mean, rstd,
                                    grad_y.contiguous(), grads.x, grads.weight, grads.bias);
  return grads;
}

// ---- vectors as points

namespace {

void require_matrix(std::string_view op, const Tensor& x) {
  if (x.ndim() < 2) throw ShapeError("{}: x {}: expected [..., n, d]", op, to_string(x.shape()));
}

Tensor contiguous_if_defined(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

void require_finite_at_least_0(std::string_view op, std::string_view what, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw Error("{}: expected {} of at least 0, got {}", op, what, value);
}

void require_halves(std::string_view op, const Tensor& x, const GaussianPoints& how) {
  require_matrix(op, x);
  require_finite_at_least_0(op, "a rope_base", how.rope_base);
  require_finite_at_least_0(op, "a least_sigma", how.least_sigma);
  const std::int64_t parts = how.rope_base == 0 ? 2 : 4;
  if (x.size(-1) % parts != 0) {
    throw ShapeError("{}: x {}: expected [..., n, 2d]{}", op, to_string(x.shape()),
                     parts == 4 ? " with even d, to be rotated" : "");
  }
}

}  // namespace

PolarResult polar(const Tensor& x) {
  require_matrix("polar", x);
  PolarResult result{x.empty_like(), Tensor::empty(with_last(x.shape(), 1), x.dtype(), x.device())};
  backend_of(x).polar(with_dense_rows(x), result.direction, result.length);
  return result;
}

Tensor polar_backward(const PolarResult& result, const Tensor& grad_direction,
                      const Tensor& grad_length) {
  constexpr std::string_view op = "polar_backward";
  const Tensor& direction = result.direction;
  require_matrix(op, direction);
  const Shape lengths = with_last(direction.shape(), 1);
  require_like(op, "length", result.length, direction, lengths);
  require_optional(op, "grad_direction", grad_direction, direction, direction.shape());
  require_optional(op, "grad_length", grad_length, direction, lengths);
  Tensor grad_x = direction.empty_like();
  backend_of(grad_x).polar_backward(result.direction, result.length,
                                    contiguous_if_defined(grad_direction),
                                    contiguous_if_defined(grad_length), grad_x);
  return grad_x;
}

GaussianPointsResult gaussian_points(const Tensor& x, const GaussianPoints& how) {
  require_halves("gaussian_points", x, how);
  GaussianPointsResult result{x.empty_like(),
                              Tensor::empty(with_last(x.shape(), 1), x.dtype(), x.device())};
  backend_of(x).gaussian_points(with_dense_rows(x), how, result.points, result.squared_length);
  return result;
}

Tensor gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length) {
  constexpr std::string_view op = "gaussian_points_backward";
  require_halves(op, x, how);
  require_like(op, "points", points, x, x.shape());
  require_optional(op, "grad_points", grad_points, x, x.shape());
  require_optional(op, "grad_squared_length", grad_squared_length, x, with_last(x.shape(), 1));
  Tensor grad_x = x.empty_like();
  backend_of(x).gaussian_points_backward(with_dense_rows(x), how, points,
                                         contiguous_if_defined(grad_points),
                                         contiguous_if_defined(grad_squared_length), grad_x);
  return grad_x;
}

// ---- positions, rows, losses

Tensor rope(const Tensor& x, double base, std::int64_t offset, int sign) {
  if (x.ndim() < 2 || x.size(-1) % 2 != 0) {
    throw ShapeError("rope: x {}: expected [..., n, d] with even d", to_string(x.shape()));
  }
  if (!(base > 0) || !std::isfinite(base))
    throw Error("rope: expected a base above 0, got {}", base);
  if (sign != 1 && sign != -1) throw Error("rope: expected a sign of 1 or -1, got {}", sign);
  Tensor y = x.empty_like();
  backend_of(x).rope(with_dense_rows(x), base, offset, sign, y);
  return y;
}

namespace {

// Throws where an index lies outside [0, limit); `allow_ignored` lets -100 pass.
void require_indices(std::string_view op, const Tensor& index, std::int64_t limit,
                     bool allow_ignored) {
  dispatch_index(op, index.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<T> values = index.to_vector<T>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t value = values[i];
      if (value >= 0 && value < limit) continue;
      if (allow_ignored && value == ignored_label) continue;
      throw Error("{}: index {} at position {} is outside [0, {})", op, value, i, limit);
    }
  });
}

}  // namespace

Tensor gather_rows(const Tensor& table, const Tensor& index) {
  if (table.ndim() != 2) {
    throw ShapeError("gather_rows: table {}: expected [V, D]", to_string(table.shape()));
  }
  require_indices("gather_rows", index, table.size(0), false);
  Shape shape = index.shape();
  shape.push_back(table.size(1));
  Tensor out = Tensor::empty(std::move(shape), table.dtype(), table.device());
  backend_of(table).gather_rows(table.contiguous(), index.contiguous(), out);
  return out;
}

Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows) {
  Shape expected = index.shape();
  expected.push_back(rows.ndim() == 0 ? 0 : rows.size(-1));
  require_shape("scatter_add_rows", "rows", rows, expected);
  require_indices("scatter_add_rows", index, n_rows, false);
  Tensor table = Tensor::zeros({n_rows, expected.back()}, rows.dtype(), rows.device());
  backend_of(rows).scatter_add_rows(rows.contiguous(), index.contiguous(), table);
  return table;
}

CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels) {
  if (logits.ndim() != 2) {
    throw ShapeError("cross_entropy: logits {}: expected [R, V]", to_string(logits.shape()));
  }
  require_shape("cross_entropy", "labels", labels, {logits.size(0)});
  require_indices("cross_entropy", labels, logits.size(1), true);
  CrossEntropyResult result{Tensor::empty(labels.shape(), DType::f64, logits.device()),
                            Tensor::empty(labels.shape(), DType::i64, logits.device()),
                            logits.contiguous()};
  backend_of(logits).cross_entropy(result.grad_logits, labels.contiguous(), result.losses,
                                   result.predictions);
  result.grad_logits.bump_version();
  return result;
}

LogHyp2f1Result log_hyp2f1(double a, double b, double c, const Tensor& x) {
  const Tensor dense = x.contiguous();
  LogHyp2f1Result result{dense.empty_like(), dense.empty_like()};
  backend_of(x).log_hyp2f1(a, b, c, dense, result.value, result.derivative);
  return result;
}

}  // namespace mobius
