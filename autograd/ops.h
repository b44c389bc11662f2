// Differentiable operations. Each is the function of the same name in core/ops.h with its gradient
// beside it (autograd/*_ops.cpp); shapes and errors are as there. Operands broadcast where they do
// there.
#pragma once

#include <vector>

#include "autograd/variable.h"
#include "core/ops.h"

namespace mobius {

// ---- elementwise (elementwise_ops.cpp)
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
/// Where both are equal the gradient goes to a.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }

Variable unary(const Unary& f, const Variable& x);
/// silu(gate) up, of equal shapes.
Variable swiglu(const Variable& gate, const Variable& up);
Variable affine(const Variable& x, double a, double b);  // a x + b
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
/// min(max(x, low), high); infinities leave a side open. Gradient 0 where it acts.
inline Variable clamp(const Variable& x, double low, double high) {
  return unary({UnaryOp::clamp, low, high}, x);
}
/// condition ? a : b; condition is u8 and has no gradient.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);
/// The same key drops the same elements.
Variable dropout(const Variable& x, double p, RngKey key);
/// log 2F1(a, b; c; x), 0 <= x < 1.
Variable log_hyp2f1(double a, double b, double c, const Variable& x);

// ---- reductions (reduce_ops.cpp)
Variable sum(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
Variable mean(const Variable& x, const std::vector<int>& dims = {}, bool keepdim = false);
/// Ties share the gradient equally.
Variable max(const Variable& x, int dim, bool keepdim = false);
Variable cumsum(const Variable& x, int dim);

// ---- shape (shape_ops.cpp)
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

// ---- matrix products (matmul_ops.cpp)
Variable matmul(const Variable& a, const Variable& b);
/// x[..., K] weight[N, K]^T + bias[N]; bias may be undefined.
/// `precision` is that of the operands, forward and backward: x, weight and the gradient; the bias
/// and all sums stay f32.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = {},
                ProductPrecision precision = ProductPrecision::full);
/// activation(linear(x, weight, bias)), in one pass over the result.
Variable linear_activation(const Variable& x, const Variable& weight, const Variable& bias,
                           Activation activation,
                           ProductPrecision precision = ProductPrecision::full);

// ---- attention pieces (attention_ops.cpp)
Variable masked_softmax(const Variable& scores, double scale, const AttentionMask& mask);
Variable rope(const Variable& x, double base, std::int64_t offset = 0);

/// Fused attention: shapes and formulas in core/attention.h. Fields that core/attention.h allows to
/// be undefined may be undefined here.
using AttentionVariables = AttentionOperands<Variable>;
Variable attention(const AttentionSpec& spec, const AttentionVariables& inputs);

/// By feature products, linear in the sequence: see LinearAttentionInputs.
Variable linear_attention(const Variable& q, const Variable& k, const Variable& v, bool causal,
                          double eps);

// ---- vectors as points (point_ops.cpp)
/// x[..., n, d] = length * direction.
struct Polar {
  Variable direction;  // x / max(|x|, least_length)
  Variable length;     // |x|, [..., n, 1]; its gradient at x = 0 is 0
};
Polar polar(const Variable& x);
/// [mu ; raw] as points of Wasserstein-2 space: see GaussianPointsResult.
struct GaussianPointVariables {
  Variable points;          // [R mu ; sigma], [..., n, 2d]
  Variable squared_length;  // of the points, [..., n, 1]
};
GaussianPointVariables gaussian_points(const Variable& x, const GaussianPoints& how);

// ---- norms (norm_ops.cpp)
Variable rms_norm(const Variable& x, const Variable& weight, double eps = 1e-6);
Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    double eps = 1e-5);

// ---- rows and losses (loss_ops.cpp)
Variable gather_rows(const Variable& table, const Tensor& index);
struct LossResult {
  Variable loss;        // scalar: sum of the losses / normalizer; 0 when no label counts
  double loss_sum = 0;  // over the labels that count, undivided
  Tensor positions;     // i64 [L]: where in the flattened labels each label that counts stands
  Tensor predictions;   // i64 [L]: the likeliest token there
  std::int64_t n_labels() const { return positions.numel(); }
};
/// Mean cross-entropy of logits[R, V] over the labels[R] that are not -100. `normalizer` replaces
/// the count of those labels when positive: a micro-batch divides by the count of its whole batch.
LossResult cross_entropy(const Variable& logits, const Tensor& labels, double normalizer = 0);
/// cross_entropy(hidden[..., D] weight[V, D]^T, labels[...]) without the logits of ignored
/// positions, and in chunks of rows, so that no full [rows, V] matrix exists. `precision` as in
/// linear(): of hidden, weight and the gradient of the logits.
LossResult linear_cross_entropy(const Variable& hidden, const Variable& weight,
                                const Tensor& labels, double normalizer = 0,
                                ProductPrecision precision = ProductPrecision::full);

}  // namespace mobius
