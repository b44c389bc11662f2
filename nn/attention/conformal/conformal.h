// Conformal attention: the weight of a key is a harmonic kernel of the ball, seen from the query
// (docs/MATH.md, section 1).
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/conformal/jspace.h"
#include "nn/attention/multi_head.h"

namespace mobius {

/// The divisor of the kernel Kt = K(r, u) / K(r, 1):
///   none       1: out = sum_j Kt_ij v_j
///   analytic   its mean over the sphere times the number of visible keys, without a sum over keys.
///              The logarithm of a weight is capped at 80, which acts only beyond the resolution
///              limit, and has gradient 0 there
///   empirical  its sum over the visible keys
enum class ConformalNormalize { none, analytic, empirical };

/// Embeds q[B, H, n_q, d] and k[B, G, n_k, d] in the ball by embed_in_ball() with alpha,
/// broadcastable to [B, H, n_q, 1]. A query that sees no key gives a zero row. Throws Error for a
/// distance bias and for a kernel of another dimension. Reports "beyond_resolution" by head: the
/// share of the queries that see a key and lie beyond the resolution limit of their key count
/// (docs/MATH.md, section 1).
AttentionCall conformal_call(const HeadInputs& in, const Variable& alpha,
                             const ConformalKernel& kernel, ConformalNormalize normalize);
/// The same for queries and keys that are points already, where `counts`, broadcastable to
/// [B, H, n_q], says how many keys the mean over the sphere stands for. They may be undefined
/// unless the normalisation is analytic; if they are defined, the call reports as above. Reads of
/// `in` neither q nor k.
AttentionCall conformal_call(const HeadInputs& in, const BallPoints& points, const Tensor& counts,
                             const ConformalKernel& kernel, ConformalNormalize normalize);
/// Returns the number of keys that each query sees, broadcastable to [B, H, n_q].
Tensor visible_counts(const HeadInputs& in);

class ConformalOptions : public AttentionOptions {
 public:
  ConformalWeight weight = ConformalWeight::newton;
  ConformalNormalize normalize = ConformalNormalize::analytic;
  std::optional<double> s;      // only for weight custom
  std::optional<double> gamma;  // only for weight custom
  double alpha = 1;             // initial, per head
  bool learn_alpha = true;

  std::string kind() const override { return "conformal"; }
  void describe(Schema& schema) override;

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

/// The base of layers with conformal weights: the kernel, and alpha by head.
class ConformalLayer : public MultiHeadAttention {
 public:
  /// Throws ConfigError if the model asks for a bias by distance.
  ConformalLayer(const AttentionContext& context, const ConformalOptions& options);

  void tell_parameters(DiagnosticsSink& sink) const override;

 protected:
  const ConformalKernel& kernel() const { return kernel_; }
  ConformalNormalize normalize() const { return normalize_; }
  Variable alpha() const;  // [H, 1, 1]

 private:
  ConformalKernel kernel_;
  ConformalNormalize normalize_;
  Variable raw_alpha_;
};

}  // namespace mobius
