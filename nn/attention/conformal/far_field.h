// Features of keys and queries whose products approach a conformal kernel. Sums over keys then
// become moments, matrices that add (docs/MATH.md, section 2).
//
// Legend: B batch, H heads, G key/value heads, d dimension of a head, M features.
#pragma once

#include <memory>
#include <optional>

#include "core/options/schema.h"
#include "nn/attention/conformal/jspace.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

/// Features whose products approach the kernel: <query(i), key(j)> ~ K(r_i, u_ij) / E[K], which has
/// a mean of 1 over the sphere. A far field may cap the radius r_i.
class FarField {
 public:
  virtual ~FarField() = default;
  virtual std::int64_t n_features() const = 0;
  /// [B, H, n_q, M], of the radii and directions of the points; their keys are not read.
  virtual Variable query_features(const BallPoints& points) const = 0;
  /// zeta[B, G, n_k, d] on the sphere -> [B, G, n_k, M].
  virtual Variable key_features(const Variable& zeta) const = 0;
};

/// Where the landmarks come from: drawn from the seed, trained, or some of the keys themselves.
enum class LandmarkSource { random, learned, keys };

/// What stands for far keys. `none` leaves them out: a sliding window of exact weights.
enum class FarFieldKind { degrees, landmarks, none };

struct FarFieldOptions {
  FarFieldKind kind = FarFieldKind::degrees;
  std::int64_t degree = 1;  // of kind degrees; those below are of kind landmarks
  std::int64_t n_landmarks = 48;
  LandmarkSource landmark_source = LandmarkSource::random;
  std::optional<double> r_far = {};
  double ridge = 1e-3;

  void describe(Schema& schema);
  /// Returns r_far or, unless it is given, the radius of an inverse temperature of 2 alpha: twice
  /// that of a query of length sqrt(d). A fixed radius would not suit every dimension: in 64, a
  /// kernel of radius 0.5 is so narrow that no key lies near a landmark.
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
