// All differentiable operations. Each is the function of the same name in core/ops/ with its
// gradient; shapes and errors are described there. The sources are in autograd/ops/, one for each
// family.
#pragma once

#include "autograd/variable.h"
#include "core/ops.h"

namespace mobius {

// ---- elementwise; operands broadcast
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
/// The gradient of equal elements goes to a.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }

Variable unary(const Unary& f, const Variable& x);
Variable affine(const Variable& x, double a, double b);
inline Variable neg(const Variable& x) { return affine(x, -1, 0); }
inline Variable scale(const Variable& x, double factor) { return affine(x, factor, 0); }
inline Variable exp(const Variable& x) { return unary({UnaryOp::exp}, x); }
inline Variable log(const Variable& x) { return unary({UnaryOp::log}, x); }
inline Variable log1p(const Variable& x) { return unary({UnaryOp::log1p}, x); }
inline Variable sqrt(const Variable& x) { return unary({UnaryOp::sqrt}, x); }
inline Variable rsqrt(const Variable& x) { return unary({UnaryOp::rsqrt}, x); }
inline Variable reciprocal(const Variable& x) { return unary({UnaryOp::reciprocal}, x); }
inline Variable square(const Variable& x) { return unary({UnaryOp::square}, x); }
inline Variable power(const Variable& x, double exponent) {
  return unary({UnaryOp::power, exponent}, x);
}
inline Variable sin(const Variable& x) { return unary({UnaryOp::sin}, x); }
inline Variable cos(const Variable& x) { return unary({UnaryOp::cos}, x); }
inline Variable tanh(const Variable& x) { return unary({UnaryOp::tanh}, x); }
inline Variable sigmoid(const Variable& x) { return unary({UnaryOp::sigmoid}, x); }
inline Variable softplus(const Variable& x) { return unary({UnaryOp::softplus}, x); }
inline Variable relu(const Variable& x) { return unary({UnaryOp::relu}, x); }
inline Variable silu(const Variable& x) { return unary({UnaryOp::silu}, x); }
inline Variable gelu(const Variable& x) { return unary({UnaryOp::gelu}, x); }
inline Variable gelu_tanh(const Variable& x) { return unary({UnaryOp::gelu_tanh}, x); }
inline Variable elu(const Variable& x) { return unary({UnaryOp::elu}, x); }
inline Variable elu_plus_one(const Variable& x) { return unary({UnaryOp::elu_plus_one}, x); }
/// min(max(x, low), high); an infinite bound has no effect. The gradient of a clamped element is 0.
inline Variable clamp(const Variable& x, double low, double high) {
  return unary({UnaryOp::clamp, low, high}, x);
}
/// `condition` has no gradient.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);
Variable swiglu(const Variable& gate, const Variable& up);
Variable log_hyp2f1(double a, double b, double c, const Variable& x);
Variable dropout(const Variable& x, double p, RngKey key);

// ---- reductions
Variable sum(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
Variable mean(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
/// Equal maxima share the gradient equally.
Variable max(const Variable& x, int dim, bool keepdim = false);
Variable cumsum(const Variable& x, int dim);

// ---- views and copies of elements
Variable reshape(const Variable& x, Shape shape);
Variable transpose(const Variable& x, int dim0, int dim1);
Variable permute(const Variable& x, const std::vector<int>& dims);
Variable slice(const Variable& x, int dim, std::int64_t begin, std::int64_t end);
Variable expand(const Variable& x, const Shape& shape);
Variable concat(const std::vector<Variable>& parts, int dim);
/// Consecutive slices of the given sizes along dim, as views.
std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int dim);
/// n_heads heads of equal width, which lie side by side among the columns of a matrix.
struct HeadColumns {
  std::int64_t n_heads, width;
};
/// The columns of x[B, N, D] as heads: one view [B, n_heads, N, width] for each part, in order.
/// Throws ShapeError unless the parts have D columns in total.
std::vector<Variable> split_heads(const Variable& x, const std::vector<HeadColumns>& parts);
Variable gather_rows(const Variable& table, const RowIndex& index);
Variable gather_rows(const Variable& table, const Tensor& index);

// ---- products
Variable matmul(const Variable& a, const Variable& b);
/// `precision` applies to x, weight and the gradient of the result; the bias and all sums stay f32.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                MatmulPrecision precision = MatmulPrecision::full);
/// activation(linear(x, weight, bias)).
Variable linear_activation(const Variable& x, const Variable& weight, const Variable& bias,
                           Activation activation,
                           MatmulPrecision precision = MatmulPrecision::full);

// ---- decompositions
/// See core/ops/decomposition.h.
Variable inverse_cholesky(const Variable& a);

// ---- layers
Variable rms_norm(const Variable& x, const Variable& weight, double eps = 1e-6);
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    double eps = 1e-5);
Variable rope(const Variable& x, double base, std::int64_t offset = 0);
/// x[..., n, d] = length * direction.
struct Polar {
  Variable direction;  // x / max(|x|, least_length)
  Variable length;     // |x|, [..., n, 1]; its gradient at x = 0 is 0
};
Polar polar(const Variable& x);
struct BallRadiusVariables {
  Variable r, one_minus_r, sharpness;
};
/// See core/ops/ball.h; alpha may be undefined.
BallRadiusVariables ball_radius(const Variable& length, const Variable& alpha,
                                const BallRadius& how);
Variable ball_log_factor(const Variable& r, const Variable& one_minus_r, const Tensor& counts,
                         const BallLogFactor& how);
struct GaussianPointVariables {
  Variable points;          // [R mu ; sigma], [..., n, 2d]
  Variable squared_length;  // of the points, [..., n, 1]
};
GaussianPointVariables gaussian_points(const Variable& x, const GaussianPoints& how);

// ---- attention
Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask);
/// Fields that core/ops/attention.h allows to be undefined may be undefined here.
using AttentionVariables = AttentionOperands<Variable>;
Variable attention(const AttentionSpec& spec, const AttentionVariables& inputs);
/// See LinearAttentionInputs.
Variable linear_attention(const Variable& q, const Variable& k, const Variable& v, bool causal,
                          double eps);
/// The form that is not normalized: initial_i + sum_j <q_i, k_j> v_j.
Variable linear_attention_sums(const Variable& q, const Variable& k, const Variable& v, bool causal,
                               std::int64_t lag = 0, const Variable& initial = {});

// ---- cross-entropy

/// All numbers stay on the device until they are read.
struct LossResult {
  Variable loss;       // scalar: sum of the losses / normalizer; 0 when no label counts
  Tensor sums;         // f64 [2]: undivided sum of the losses; number of right scored predictions
  Tensor predictions;  // i64 [L]: the likeliest class for each label that counts

  std::int64_t n_labels() const { return predictions.numel(); }
  /// Waits for the device.
  double loss_sum() const { return sums.slice(0, 0, 1).item(); }
};
/// Mean cross-entropy of logits[R, V] over the labels[R] that count. A positive `normalizer`
/// replaces their number: a micro-batch divides by the count of its whole batch.
LossResult cross_entropy(const Variable& logits, const Labels& labels, double normalizer = 0);
/// cross_entropy(hidden[..., D] weight[V, D]^T, labels[...]), in chunks of rows and without the
/// logits of ignored positions, so that no [rows, V] matrix exists. `precision` applies to hidden,
/// weight and the gradient of the logits.
LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Labels& labels, double normalizer = 0,
                                MatmulPrecision precision = MatmulPrecision::full);

}  // namespace mobius
