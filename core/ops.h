// Operations on tensors, without gradients: they check shapes and types, allocate the result, and
// call the backend of their device. Errors: ShapeError naming the op and the shapes, and Error
// where a number is out of range. Formulas: core/backend.h. Differentiable versions of the same
// names: autograd/ops.h.
#pragma once

#include <vector>

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

// ---- elementwise
Tensor unary(const Unary& f, const Tensor& x);
/// Gradient of y = f(x) in x.
Tensor unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y);
/// silu(gate) up, of equal shapes.
Tensor swiglu(const Tensor& gate, const Tensor& up);
struct SwigluGrads {
  Tensor gate, up;
};
SwigluGrads swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out);
/// Operands broadcast; both of one type.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
/// a x + b.
Tensor affine(const Tensor& x, double a, double b);
inline Tensor neg(const Tensor& x) { return affine(x, -1, 0); }
inline Tensor scale(const Tensor& x, double factor) { return affine(x, factor, 0); }
/// 0/1 in u8; operands broadcast.
Tensor compare(CompareOp op, const Tensor& a, const Tensor& b);
/// condition (u8) ? a : b; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor dropout(const Tensor& x, double p, RngKey key);

// ---- random
Tensor random_uniform(Shape shape, double low, double high, RngKey key, DType dtype = DType::f32,
                      Device device = {});
Tensor random_normal(Shape shape, double mean, double stddev, RngKey key, DType dtype = DType::f32,
                     Device device = {});

// ---- reductions; `dims` empty means all
Tensor sum(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const std::vector<int>& dims = {}, bool keepdim = false);
Tensor max(const Tensor& x, int dim, bool keepdim = false);
/// Over the last dimension, i64; ties: the smaller index.
Tensor argmax(const Tensor& x);
double sum_of_squares(const Tensor& x);
Tensor cumsum(const Tensor& x, int dim, bool reverse = false);
/// Sums x down to `shape`: the adjoint of broadcasting `shape` to x's.
Tensor sum_to(const Tensor& x, const Shape& shape);

// ---- shape
Tensor concat(const std::vector<Tensor>& parts, int dim);

// ---- matrix products. Operands (a and b, x and weight) in bf16 are multiplied and summed in f32;
// bias and result are f32 then.
/// How exact the operands of a product are: as they are, or rounded to bf16 (to nearest, ties to
/// even), which is mixed precision.
enum class ProductPrecision { full, bf16 };
/// x as such an operand: itself, or rounded. Throws Error where anything but f32 is to be rounded.
Tensor product_operand(const Tensor& x, ProductPrecision precision);
/// [..., M, K] x [..., K, N] -> [..., M, N]; batch dimensions broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// out += a b, for 2-d operands.
void matmul_add(Tensor& out, const Tensor& a, const Tensor& b);
/// x[..., K] weight[N, K]^T + bias[N] -> [..., N]; bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
struct LinearActivation {
  Tensor pre;  // x weight^T + bias
  Tensor out;  // activation(pre)
};
LinearActivation linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Activation activation);

// ---- softmax
Tensor masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask);
Tensor softmax_backward(const Tensor& weights, const Tensor& grad, double scale);
/// Which keys each query sees, as u8 [..., n_q, n_k] with the mask's own batch dimensions.
Tensor materialize_mask(const AttentionMask& mask, std::int64_t n_q, std::int64_t n_k,
                        Device device = {});

// ---- fused attention (core/attention.h has shapes and formulas)
struct AttentionResult {
  Tensor out;  // [B, H, Nq, Dv], a view of dense [B, Nq, H, Dv]: merging the heads copies nothing
  Tensor lse;  // [B, H, Nq]; undefined without a softmax
};
AttentionResult attention(const AttentionSpec& spec, const AttentionInputs& inputs);
AttentionGrads attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const AttentionResult& result, const Tensor& grad_out);

/// For each query, of the keys that the mask of `spec` lets it see, those `topk` whose products
/// with it (times scale and t_i) are largest, of equal ones the earlier: AttentionMask::selected,
/// [B, H, Nq, min(topk, Nk)].
Tensor attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs, std::int64_t topk);
struct LinearAttentionResult {
  Tensor out;          // as in AttentionResult
  Tensor denominator;  // [B, H, Nq]
};
LinearAttentionResult linear_attention(const LinearAttentionInputs& inputs);
LinearAttentionGrads linear_attention_backward(const LinearAttentionInputs& inputs,
                                               const LinearAttentionResult& result,
                                               const Tensor& grad_out);

// ---- norms
struct NormResult {
  Tensor y;
  Tensor mean;  // undefined for rms_norm
  Tensor rstd;
};
struct NormGrads {
  Tensor x, weight, bias;  // bias undefined for rms_norm
};
NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps);
NormGrads rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y);
NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
NormGrads layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y);

// ---- vectors as points, x[..., N, D]
struct PolarResult {
  Tensor direction;  // x / max(|x|, least_length)
  Tensor length;     // |x|, [..., N, 1]
};
PolarResult polar(const Tensor& x);
/// Either gradient may be undefined: 0.
Tensor polar_backward(const PolarResult& result, const Tensor& grad_direction,
                      const Tensor& grad_length);

/// Gaussians N(mu, diag(sigma^2)) given as [mu ; raw], [..., N, 2d], as points whose distance is
/// that of Wasserstein (docs/MATH.md, section 3).
struct GaussianPointsResult {
  Tensor points;          // [R mu ; sigma], [..., N, 2d]
  Tensor squared_length;  // of the points, [..., N, 1]
};
GaussianPointsResult gaussian_points(const Tensor& x, const GaussianPoints& how);
Tensor gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length);

// ---- positions, rows, losses
Tensor rope(const Tensor& x, double base, std::int64_t offset, int sign = 1);
/// table[V, D], index of any shape -> [index..., D]. Throws Error on an index outside [0, V).
Tensor gather_rows(const Tensor& table, const Tensor& index);
/// A zero table[n_rows, D] with rows[index..., D] added at their index.
Tensor scatter_add_rows(const Tensor& rows, const Tensor& index, std::int64_t n_rows);

constexpr std::int64_t ignored_label = -100;  // counts neither in losses nor in gradients

struct CrossEntropyResult {
  Tensor losses;       // [R] f64, 0 where ignored
  Tensor predictions;  // [R] i64
  Tensor grad_logits;  // [R, V] of the SUM of losses; shares the storage of the logits given
};
/// Consumes logits[R, V] (they are overwritten by their gradient); labels[R] i32 or i64.
/// Throws Error on a label that is neither -100 nor in [0, V).
CrossEntropyResult cross_entropy(Tensor&& logits, const Tensor& labels);

/// log 2F1(a, b; c; x) and its derivative, elementwise, 0 <= x < 1.
struct LogHyp2f1Result {
  Tensor value, derivative;
};
LogHyp2f1Result log_hyp2f1(double a, double b, double c, const Tensor& x);

}  // namespace mobius
