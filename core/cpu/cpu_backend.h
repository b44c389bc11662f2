// The CPU backend: one source file per family of operations, each compiled for AVX2 and AVX-512
// side by side by Highway and chosen at start (core/cpu/simd/isa.h).
#pragma once

#include "core/backend.h"

namespace mobius {

class CpuBackend final : public Backend {
 public:
  CpuBackend();

  Allocator& allocator() override;
  bool has_bf16_products() const override;
  void copy(const Tensor& source, const Tensor& out) override;
  void copy_to_host(const Tensor& source, void* host) override;
  void copy_from_host(const void* host, const Tensor& out) override;
  void fill(const Tensor& out, double value) override;
  void arange(const Tensor& out) override;
  void random_uniform(RngKey key, double low, double high, const Tensor& out) override;
  void random_normal(RngKey key, double mean, double stddev, const Tensor& out) override;
  void unary(const Unary& f, const Tensor& x, const Tensor& y) override;
  void unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                      const Tensor& grad_x) override;
  void swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) override;
  void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                       const Tensor& grad_gate, const Tensor& grad_up) override;
  void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) override;
  void add_in_place(const Tensor& out, const Tensor& x) override;
  void scale_in_place(const Tensor& out, double factor) override;
  void dropout(RngKey key, double p, const Tensor& x, const Tensor& y) override;
  void sum(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override;
  void max(const Tensor& x, std::int64_t outer, std::int64_t reduced, std::int64_t inner,
           const Tensor& out) override;
  void argmax(const Tensor& x, const Tensor& out) override;
  double sum_of_squares(const Tensor& x) override;
  void cumsum(const Tensor& x, std::int64_t outer, std::int64_t n, std::int64_t inner, bool reverse,
              const Tensor& out) override;
  void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) override;
  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              const Tensor& pre, const Tensor& out) override;
  void masked_softmax(const Tensor& scores, double scale, const AttentionMask& mask,
                      const Tensor& weights) override;
  void softmax_backward(const Tensor& weights, const Tensor& grad, double scale,
                        const Tensor& grad_scores) override;
  void materialize_mask(const AttentionMask& mask, const Tensor& allowed) override;
  void attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                 const Tensor& lse) override;
  void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                          const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                          const AttentionGrads& grads) override;
  void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                      const Tensor& keys) override;
  void linear_attention(const LinearAttentionInputs& inputs, const Tensor& out,
                        const Tensor& denominator) override;
  void linear_attention_backward(const LinearAttentionInputs& inputs, const Tensor& out,
                                 const Tensor& denominator, const Tensor& grad_out,
                                 const LinearAttentionGrads& grads) override;
  void rms_norm(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                const Tensor& rstd) override;
  void rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                         const Tensor& grad_y, const Tensor& grad_x,
                         const Tensor& grad_weight) override;
  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd) override;
  void layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                           const Tensor& rstd, const Tensor& grad_y, const Tensor& grad_x,
                           const Tensor& grad_weight, const Tensor& grad_bias) override;
  void polar(const Tensor& x, const Tensor& direction, const Tensor& length) override;
  void polar_backward(const Tensor& direction, const Tensor& length, const Tensor& grad_direction,
                      const Tensor& grad_length, const Tensor& grad_x) override;
  void gaussian_points(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                       const Tensor& squared_length) override;
  void gaussian_points_backward(const Tensor& x, const GaussianPoints& how, const Tensor& points,
                                const Tensor& grad_points, const Tensor& grad_squared_length,
                                const Tensor& grad_x) override;
  void rope(const Tensor& x, double base, std::int64_t offset, int sign, const Tensor& y) override;
  void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) override;
  void scatter_add_rows(const Tensor& rows, const Tensor& index, const Tensor& table) override;
  void cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& losses,
                     const Tensor& predictions) override;
  void log_hyp2f1(double a, double b, double c, const Tensor& x, const Tensor& y,
                  const Tensor& dy) override;
  void adamw(const AdamWStep& s, const Tensor& grad, const Tensor& parameter, const Tensor& m,
             const Tensor& v) override;
  void sgd(const SgdStep& s, const Tensor& grad, const Tensor& parameter,
           const Tensor& momentum) override;

 private:
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace mobius
