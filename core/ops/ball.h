// Queries of conformal attention as points of the Poincare ball (docs/MATH.md, section 1), fused:
// composed of elementwise operations they are three dozen passes over one number a query.
// Legend: N queries of a row, R rows (of batch elements and heads).
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// What turns the length of a query into a radius: its inverse temperature is
/// beta = min(factor alpha length, largest_beta), with gradient 0 where that acts.
struct BallRadius {
  double s = 1;  // exponent of the kernel, > 0
  double factor = 1;
  double largest_beta = 0;  // >= 0, may be infinite
};

/// Elementwise in beta >= 0, each as accurate as its type allows.
struct BallRadiusResult {
  Tensor r;            // beta / (sqrt(s^2 + beta^2) + s)
  Tensor one_minus_r;  // 1 - r, which a subtraction would round away near the sphere
  Tensor sharpness;    // t = 2 r / (1 + r^2)
};
/// `length` is real, [..., N, 1]. alpha broadcasts to it and has size 1 in the last two dimensions,
/// or is undefined, which means 1.
BallRadiusResult ball_radius(const Tensor& length, const Tensor& alpha, const BallRadius& how);
struct BallRadiusGrads {
  Tensor length;
  Tensor alpha;  // undefined without alpha
};
/// An undefined gradient is 0.
BallRadiusGrads ball_radius_backward(const Tensor& length, const Tensor& alpha,
                                     const BallRadius& how, const BallRadiusResult& result,
                                     const BallRadiusResult& grads);

/// The factors of the powers in ball_log_factor().
struct BallLogFactor {
  double s = 1;            // of 1 / (1 + r^2)
  double one_minus_r = 0;  // of 1 - r
  double one_plus_r = 0;   // of 1 + r
};
/// g = -s log(1 + r^2) + how.one_minus_r log(1 - r) + how.one_plus_r log(1 + r) - log(count), of a
/// radius [..., N, 1]: the part of a weight's logarithm that does not depend on the key, [..., N].
/// `counts` broadcasts to g, or is undefined, which means 1; a count below 1 counts as 1.
Tensor ball_log_factor(const Tensor& r, const Tensor& one_minus_r, const Tensor& counts,
                       const BallLogFactor& how);
struct BallLogFactorGrads {
  Tensor r, one_minus_r;
};
BallLogFactorGrads ball_log_factor_backward(const Tensor& r, const Tensor& one_minus_r,
                                            const BallLogFactor& how, const Tensor& grad);

/// `length` and all outputs are seen as [R, N].
class BallKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "ball";

  /// Row r has the alpha of index r modulo alpha.numel(), or 1 if it is undefined.
  virtual void ball_radius(const Tensor& length, const Tensor& alpha, const BallRadius& how,
                           const BallRadiusResult& result) = 0;
  /// grad_alpha[R] has that of each row, and is undefined without alpha.
  virtual void ball_radius_backward(const Tensor& length, const Tensor& alpha,
                                    const BallRadius& how, const BallRadiusResult& result,
                                    const BallRadiusResult& grads, const Tensor& grad_length,
                                    const Tensor& grad_alpha) = 0;
  /// Row r has the row of counts[C, N] of index r modulo C.
  virtual void ball_log_factor(const Tensor& r, const Tensor& one_minus_r, const Tensor& counts,
                               const BallLogFactor& how, const Tensor& g) = 0;
  virtual void ball_log_factor_backward(const Tensor& r, const Tensor& one_minus_r,
                                        const BallLogFactor& how, const Tensor& grad,
                                        const BallLogFactorGrads& grads) = 0;
};

}  // namespace mobius
