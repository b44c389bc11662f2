// Conformal attention: the weight of a key is a harmonic kernel of the ball, seen from the query
// (docs/MATH.md, section 1).
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/attention.h"
#include "nn/attention/jspace.h"
#include "nn/attention/weights.h"

namespace mobius {

/// What divides the kernel Kt = K(r, u) / K(r, 1):
///   none       nothing: out = sum_j Kt_ij v_j
///   analytic   its mean over the sphere times the number of visible keys: no sum over the keys.
///              The logarithm of a weight is capped at 80, which acts beyond the resolution limit
///              only, and has gradient 0 there
///   empirical  its sum over the visible keys
enum class ConformalNormalize { none, analytic, empirical };

/// out_i = sum_j w_ij v_j over the keys that `mask` lets query i see; a query that sees none gives
/// a zero row. points as by embed_in_ball(), v[B, G, n_k, d_v] -> [B, H, n_q, d_v]. The kernel
/// takes no distance bias: `extras` with one throws Error, as does a kernel of another dimension.
Variable conformal_attention(const BallPoints& points, const Variable& v,
                             const ConformalKernel& kernel, ConformalNormalize normalize,
                             const AttentionMask& mask, const AttentionExtras& extras = {});
/// Its weights, [B, H, n_q, n_k].
Variable conformal_weights(const BallPoints& points, const ConformalKernel& kernel,
                           ConformalNormalize normalize, const AttentionMask& mask);

/// The same from q[B, H, n_q, d], k[B, G, n_k, d] and alpha, broadcastable to [B, H, n_q, 1].
Variable conformal_attention(const Variable& q, const Variable& k, const Variable& v,
                             const Variable& alpha, const ConformalKernel& kernel,
                             ConformalNormalize normalize, const AttentionMask& mask,
                             const AttentionExtras& extras = {});

class ConformalOptions : public AttentionOptions {
 public:
  ConformalWeight weight = ConformalWeight::newton;
  ConformalNormalize normalize = ConformalNormalize::analytic;
  std::optional<double> s;      // of weight custom
  std::optional<double> gamma;  // of weight custom
  double alpha = 1;             // initial, per head
  bool learn_alpha = true;

  void describe(Schema& schema) override;
  std::shared_ptr<Attention> build(const AttentionContext& context) const override;
};

}  // namespace mobius
