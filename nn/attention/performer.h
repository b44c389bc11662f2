// Performer attention (Choromanski et al. 2021, FAVOR+): positive random features whose products
// approach the weights of softmax attention in the mean, in time and memory linear in the sequence.
//
//   x'       = x / d^(1/4),   omega_1 ... omega_m from orthogonal Gaussian blocks
//   phi(x)_a = exp(omega_a . x' - |x'|^2/2) / sqrt(m) + offset
//   out_i    = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j) + eps)
//
// Range. All features of a query are divided by exp(max_a omega_a . x' - |x'|^2/2), which cancels,
// so that the largest is 1 / sqrt(m) before the offset is added. A common factor of the keys would
// cancel as well, but if it depended on the keys, a later key could change the last bits of earlier
// outputs. So it is 1, and the exponent is capped at 60, with gradient 0 there. Because
// omega . x' - |x'|^2/2 <= |omega|^2/2 for every x, the cap acts only above about 64 dimensions, on
// a key nearly equal to a feature. Sums over keys stay in the range of f32.
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/features.h"

namespace mobius {

/// Small numbers that keep features and sums off 0.
struct PerformerOffsets {
  double feature = 1e-6;      // added to every feature
  double denominator = 1e-6;  // eps
};

/// Returns omega[m, d]: blocks of d orthogonal directions, each scaled to the length of an
/// independent Gaussian vector. The last block may be partial.
Tensor orthogonal_gaussian(std::int64_t m, std::int64_t d, RngKey key, DType dtype,
                           Device device = {});

/// phi of queries q[B, H, n_q, d], [B, H, n_q, m].
Variable performer_query_features(const Variable& q, const Tensor& omega, double offset);
/// phi of keys k[B, G, n_k, d], [B, G, n_k, m].
Variable performer_key_features(const Variable& k, const Tensor& omega, double offset);

/// omega[m, d] for heads of d dimensions.
FeatureCall performer_call(const HeadInputs& in, const Tensor& omega,
                           const PerformerOffsets& offsets = {});

class PerformerOptions : public AttentionOptions {
 public:
  std::int64_t n_features = 256;
  std::optional<std::int64_t> feature_seed;  // null: the seed of the initial values

  std::string kind() const override { return "performer"; }
  void describe(Schema& schema) override;

 protected:
  /// The layer stores omega as the buffer `omega`, which checkpoints save, and never draws it
  /// again.
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
