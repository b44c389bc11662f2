// The far field of landmarks: kernels around points of the sphere (docs/MATH.md, section 2).
//
// Legend: B batch, H heads, G key/value heads, d dimension of a head, m landmarks.
#pragma once

#include "nn/attention/conformal/far_field.h"

namespace mobius {

/// The kernel of radius r_far around m landmarks on the sphere, and a ridge on its Gram matrix.
class LandmarkBasis final : public FarField {
 public:
  /// landmarks[B or 1, G or 1, m, d] of any length; all gradients reach them. Throws ShapeError
  /// unless they have the dimension of the kernel, Error unless 0 < r_far < 1 and ridge > 0.
  LandmarkBasis(const Variable& landmarks, const ConformalKernel& kernel, double r_far,
                double ridge);

  /// Kt(r_far, <xi, zeta>), [B, G, n_k, m].
  Variable features(const Variable& zeta) const;
  /// (G + ridge I)^-1 Kt(min(r, r_far), <xi, qhat>), [B, H, n_q, m], of qhat[B, H, n_q, d] and a
  /// radius [B, H, n_q, 1]. <coeffs, features> ~ Kt(min(r, r_far), <qhat, zeta>).
  Variable coeffs(const Variable& qhat, const Radius& radius) const;

  std::int64_t n_features() const override { return xi_.size(-2); }
  /// Whitened: the basis is orthonormal in the landmarks' space, so that the product of two
  /// features has the size of the kernel, and f32 keeps its digits.
  Variable query_features(const BallPoints& points) const override;
  Variable key_features(const Variable& zeta) const override;

 private:
  Variable kernel_of(const Variable& qhat, const Radius& radius, bool unit_mean) const;

  ConformalKernel kernel_;
  double r_far_;
  Variable xi_;        // landmarks on the sphere
  Variable whitener_;  // W, lower triangular, W (G + ridge I) W^T = I
};

}  // namespace mobius
