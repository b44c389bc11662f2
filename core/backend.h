// The primitives that a device implements. Everything above core/ is composed of them and never
// knows which device it runs on.
//
// Contract of every operation: the caller (core/ops.cpp) has checked shapes, types and devices and
// has allocated the outputs; implementations only assert. Inputs are dense row-major unless the
// comment says "strided"; outputs are dense row-major and are overwritten (=) unless the comment
// says "accumulates" (+=). Real inputs are all f32 or all f64.
// Legend: R rows, D features of a row, V vocabulary, B batch, H heads, N positions.
#pragma once

#include <cstdint>
#include <vector>

#include "core/allocator.h"
#include "core/attention.h"
#include "core/device.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

/// Functions of one variable. `a` and `b` of Unary are their parameters.
enum class UnaryOp {
  affine,  // a x + b
  exp,
  log,
  log1p,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  power,  // x^a; for x < 0 only when a is an integer
  sin,
  cos,
  tanh,
  sigmoid,
  softplus,  // log(1 + e^x), without overflow
  relu,
  silu,          // x sigmoid(x)
  gelu,          // x Phi(x), exact (erf)
  gelu_tanh,     // its tanh approximation
  elu,           // x for x > 0, else e^x - 1
  elu_plus_one,  // x + 1 for x > 0, else e^x: positive however small x is
  clamp          // min(max(x, a), b); derivative 1 strictly inside, 0 where it acts
};

struct Unary {
  UnaryOp op;
  double a = 0;
  double b = 0;
};

enum class BinaryOp { add, sub, mul, div, maximum, minimum };
enum class CompareOp { less, less_equal, equal };

/// What follows a matrix product, applied while the result is still in cache: C = act(A B + bias).
enum class Activation { none, relu, silu, gelu, gelu_tanh };

/// Below it a vector has no direction: see Backend::polar.
constexpr double least_length = 1e-12;

/// How [mu ; raw] becomes a point of Wasserstein-2 space: see Backend::gaussian_points.
struct GaussianPoints {
  double rope_base = 0;     // 0: not rotated
  std::int64_t offset = 0;  // position of the first row
  double least_sigma = 0;
};

struct AdamWStep {
  double lr, beta1, beta2, eps, weight_decay;
  std::int64_t step;  // 1 for the first update
};

struct SgdStep {
  double lr, momentum, weight_decay;
  bool nesterov;
  std::int64_t step;  // 1 for the first update: momentum starts as the gradient
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual Allocator& allocator() = 0;
  /// Whether bf16 operands make products faster here. Elsewhere they give the same but for
  /// rounding.
  virtual bool has_bf16_products() const = 0;

  // ---- moving and making
  /// Strided source and destination of equal shape; converts between any two types.
  virtual void copy(const Tensor& source, const Tensor& out) = 0;
  virtual void copy_to_host(const Tensor& source, void* host) = 0;
  virtual void copy_from_host(const void* host, const Tensor& out) = 0;
  virtual void fill(const Tensor& out, double value) = 0;  // strided
  virtual void arange(const Tensor& out) = 0;              // 0, 1, 2, ...
  /// Element i of a real tensor comes from Philox block i / 4 (f32) or i / 2 (f64) of the stream.
  virtual void random_uniform(RngKey key, double low, double high, const Tensor& out) = 0;
  virtual void random_normal(RngKey key, double mean, double stddev, const Tensor& out) = 0;

  // ---- elementwise
  virtual void unary(const Unary& f, const Tensor& x, const Tensor& y) = 0;
  /// grad_x = grad_y f'(x); y = f(x) is at hand where that is cheaper.
  virtual void unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                              const Tensor& grad_y, const Tensor& grad_x) = 0;
  /// out = silu(gate) up, all dense (Shazeer 2020).
  virtual void swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) = 0;
  virtual void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                               const Tensor& grad_gate, const Tensor& grad_up) = 0;
  /// Strided, a and b already expanded to the shape of out. Integer types too.
  virtual void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// Strided, expanded; out is u8.
  virtual void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) = 0;
  /// Strided, expanded; condition is u8: out = condition ? a : b.
  virtual void where(const Tensor& condition, const Tensor& a, const Tensor& b,
                     const Tensor& out) = 0;
  /// Strided: out += x. out is real, x of the same shape (expanded).
  virtual void add_in_place(const Tensor& out, const Tensor& x) = 0;
  /// out = factor * out.
  virtual void scale_in_place(const Tensor& out, double factor) = 0;
  /// y = x / (1 - p) where a Philox bit of the stream keeps it, else 0. The same key gives the same
  /// mask.
  virtual void dropout(RngKey key, double p, const Tensor& x, const Tensor& y) = 0;

  // ---- reductions
  /// x is seen as [outer, reduced, inner]; out as [outer, inner]. f32 sums in double for inner
  /// == 1.
  virtual void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                   const Tensor& out) = 0;
  virtual void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
                   const Tensor& out) = 0;
  /// Index (i64) of the first largest element of each row of [R, D].
  virtual void argmax(const Tensor& x, const Tensor& out) = 0;
  /// Sum of squares of all elements, accumulated in double.
  virtual double sum_of_squares(const Tensor& x) = 0;
  /// Running sum along the middle axis of [outer, n, inner]; from the end when `reverse`.
  virtual void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner,
                      bool reverse, const Tensor& out) = 0;

  // ---- matrix products; the operands (a and b, x and weight) may be bf16, all else being f32
  /// out[..., M, N] = a[..., M, K] b[..., K, N] (accumulates when `accumulate`). a and b are
  /// strided, with the batch shape of out (stride 0 repeats a matrix). Results do not depend on the
  /// thread count.
  virtual void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) = 0;
  /// pre[R, N] = x[R, K] weight[N, K]^T + bias[N]; bias may be undefined. When `activation` is not
  /// none, `out` = activation(pre) is written too, else `out` is undefined.
  virtual void linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      Activation activation, const Tensor& pre, const Tensor& out) = 0;

  // ---- softmax over the last dimension
  /// weights[..., n_q, n_k] = softmax_j(scale * scores) over the keys that the mask allows; 0
  /// elsewhere; a row that sees no key is 0. Of the mask only `causal` and `mask` may be set.
  virtual void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                              const Tensor& weights) = 0;
  /// grad_scores = scale * weights * (grad - sum_j grad weights).
  virtual void softmax_backward(const Tensor& weights, const Tensor& grad, double scale,
                                const Tensor& grad_scores) = 0;
  /// allowed[..., n_q, n_k] (u8): what `mask` lets each query see.
  virtual void materialize_mask(const AttentionMask& mask, const Tensor& allowed) = 0;

  // ---- fused attention (core/attention.h)
  /// out[B, H, Nq, Dv] is strided except along its last dimension. lse[B, H, Nq]: log of the sum of
  /// the weights (infinity where no key is seen), kept for the backward pass; undefined without
  /// a softmax.
  virtual void attention(const AttentionSpec& spec, const AttentionInputs& inputs,
                         const Tensor& out, const Tensor& lse) = 0;
  /// Writes the gradients that are defined; q, k and v always are. grad_out is as strided as out.
  virtual void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                                  const AttentionGrads& grads) = 0;

  /// Writes AttentionMask::selected, keys[B, H, Nq, K] (i32): the K keys with the largest products.
  virtual void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                              const Tensor& keys) = 0;
  /// denominator[B, H, Nq] is kept for the backward pass; out is strided as for attention.
  virtual void linear_attention(const LinearAttentionInputs& inputs, const Tensor& out,
                                const Tensor& denominator) = 0;
  virtual void linear_attention_backward(const LinearAttentionInputs& inputs, const Tensor& out,
                                         const Tensor& denominator, const Tensor& grad_out,
                                         const LinearAttentionGrads& grads) = 0;

  // ---- norms over the last dimension; statistics in double
  /// y = weight x / sqrt(mean(x^2) + eps); rstd[R] (f64) is kept for the backward pass.
  virtual void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                        const Tensor& rstd) = 0;
  virtual void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                                 const Tensor& grad_y, const Tensor& grad_x,
                                 const Tensor& grad_weight) = 0;
  /// y = weight (x - mean) / sqrt(var + eps) + bias; mean[R] and rstd[R] (f64) are kept.
  virtual void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                          const Tensor& y, const Tensor& mean, const Tensor& rstd) = 0;
  virtual void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                                   const Tensor& rstd, const Tensor& grad_y, const Tensor& grad_x,
                                   const Tensor& grad_weight, const Tensor& grad_bias) = 0;

  // ---- vectors as points; x[..., N, D] is strided but for the last dimension
  /// direction = x / max(|x|, least_length), length = |x|, [..., N, 1].
  virtual void polar(const Tensor& x, const Tensor& direction, const Tensor& length) = 0;
  /// Either gradient may be undefined: 0.
  virtual void polar_backward(const Tensor& direction, const Tensor& length,
                              const Tensor& grad_direction, const Tensor& grad_length,
                              const Tensor& grad_x) = 0;
  /// points = [R mu ; softplus(raw) + least] of x = [mu ; raw], R as rope() with `base`, nothing
  /// where base is 0; squared_length = |points|^2, [..., N, 1].
  virtual void gaussian_points(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                               const Tensor& squared_length) = 0;
  /// Either gradient may be undefined: 0.
  virtual void gaussian_points_backward(const Tensor& x, const GaussianPoints& how,
                                        const Tensor& points, const Tensor& grad_points,
                                        const Tensor& grad_squared_length,
                                        const Tensor& grad_x) = 0;

  // ---- positions
  /// Rotates the pairs (x_t, x_{t+d/2}) of x[..., N, d] (strided but for the last dimension) by
  /// sign * position * base^(-2t/d), position = offset + n. sign -1 is the backward pass.
  virtual void rope(const Tensor& x, double base, std::int64_t offset, int sign,
                    const Tensor& y) = 0;

  // ---- rows by index (i32 or i64)
  /// out[r] = table[index[r]].
  virtual void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) = 0;
  /// table[index[r]] += rows[r], in the order of r for every row of the table. Accumulates.
  virtual void scatter_add_rows(const Tensor& rows, const Tensor& index, const Tensor& table) = 0;

  // ---- losses
  /// losses[R] (f64) = logsumexp(logits[r]) - logits[r, label]; 0 where the label is -100.
  /// predictions[R] (i64) = argmax of logits[r]. logits[R, V] is overwritten by softmax - onehot
  /// (by 0 where the label is -100): the gradient of the sum of the losses.
  virtual void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                             const Tensor& predictions) = 0;

  // ---- special functions
  /// y = log 2F1(a, b; c; x) and dy = its derivative in x, for 0 <= x < 1.
  virtual void log_hyp2f1(double a, double b, double c, const Tensor& x, const Tensor& y,
                          const Tensor& dy) = 0;

  // ---- optimiser updates, in place on parameter and moments
  virtual void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter,
                     const Tensor& m, const Tensor& v) = 0;
  virtual void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter,
                   const Tensor& momentum) = 0;
};

/// The backend of a device; throws Error when this build has none for it.
Backend& backend_for(Device device);
/// The allocator of a device (memory counters, cache).
inline Allocator& allocator_for(Device device) { return backend_for(device).allocator(); }

}  // namespace mobius
