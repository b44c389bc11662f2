// Features of keys and queries whose products approach a conformal kernel. Sums over keys then
// become moments, matrices that add (docs/MATH.md, section 2).
//
// Legend: B batch, H heads, G key/value heads, d dimension of a head, m landmarks, M features.
#pragma once

#include <memory>
#include <optional>

#include "core/options/schema.h"
#include "nn/attention/jspace.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

/// Features whose products approach the kernel: <query(i), key(j)> ~ K(min(r_i, r_far), u_ij) /
/// E[K], which has a mean of 1 over the sphere.
class FarField {
 public:
  virtual ~FarField() = default;
  virtual std::int64_t n_features() const = 0;
  /// [B, H, n_q, M], of the radii and directions of the points; their keys are not read.
  virtual Variable query_features(const BallPoints& points) const = 0;
  /// zeta[B, G, n_k, d] on the sphere -> [B, G, n_k, M].
  virtual Variable key_features(const Variable& zeta) const = 0;
};

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

/// Where the landmarks come from: drawn from the seed, trained, or some of the keys themselves.
enum class LandmarkSource { random, learned, keys };

enum class FarFieldKind { degrees, landmarks };

struct FarFieldOptions {
  FarFieldKind kind = FarFieldKind::degrees;
  std::int64_t degree = 1;  // of kind degrees; the others are of kind landmarks
  std::int64_t n_landmarks = 48;
  LandmarkSource landmark_source = LandmarkSource::random;
  std::optional<double> r_far = {};
  double ridge = 1e-3;

  void describe(Schema& schema);
  /// r_far, or unless it is given, the radius of an inverse temperature of 2 alpha: twice that of a
  /// query of length sqrt(d). A kernel of 0.5 is so narrow in 64 dimensions that no key lies near a
  /// landmark.
  double landmark_radius(const ConformalKernel& kernel, double alpha) const;
};

/// What a layer keeps for its far fields: drawn or learned values.
class FarFieldBuilder : public Module {
 public:
  /// The far field over keys zeta[B, G, n, d], for one pass.
  virtual std::unique_ptr<FarField> build(const Variable& zeta) const = 0;
};

/// Makes the builder that the options ask for, for n_groups key/value heads whose queries start
/// with this alpha.
std::shared_ptr<FarFieldBuilder> make_far_field_builder(const FarFieldOptions& options,
                                                        const ConformalKernel& kernel, double alpha,
                                                        std::int64_t n_groups,
                                                        const Initializer& init);

}  // namespace mobius
