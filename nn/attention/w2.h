// Wasserstein-2 attention: a token is a Gaussian with diagonal covariance, N(mu, diag(sigma^2)),
// and looks at tokens near it (docs/MATH.md, section 3).
//
//   w2          S_ij = -( |R_i mu_q_i - R_j mu_k_j|^2 + |sigma_q_i - sigma_k_j|^2 ) / (tau + eps)
//   w2_overlap  S_ij = -1/2 ( |R_i m_q_i - R_j m_k_j|^2 + sum log sigma_q_i + sum log sigma_k_j ),
//               m = mu / sqrt(sigma)
//   out_i = sum_j softmax_j( S_ij ) v_j
//
// R is RoPE or the identity; eps = 1e-6. A term of S_ij that is the same for all j changes no
// weight, so both are dot products with a number added for each key, and need no matrix of
// distances:
//
//   w2          S_ij = < 2 x_q_i / (tau + eps), x_k_j > - |x_k_j|^2 / (tau + eps),
//               x = [R mu ; sigma], of twice the dimension
//   w2_overlap  S_ij = < R_i m_q_i, R_j m_k_j > - 1/2 ( |m_k_j|^2 + sum log sigma_k_j )
//
// The layers: projections q and k are twice as wide, [mu ; raw] in each head, with
// sigma = softplus(raw) + 1e-4; tau = softplus(raw_tau) > 0, one for each head of keys.
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/multi_head.h"

namespace mobius {

/// One Gaussian per position, [B, H, n, d] each; sigma > 0 is the standard deviation.
struct Gaussians {
  Variable mu, sigma;
};

/// [mu ; raw], [B, H, n, 2d] -> mu and sigma = softplus(raw) + 1e-4.
Gaussians gaussians_from(const Variable& mu_and_raw);

/// Returns W2^2 = |mu_q - mu_k|^2 + |sigma_q - sigma_k|^2 of every query and key, [B, H, n_q, n_k].
/// It is never negative, and 0 for equal Gaussians. For analysis: takes memory [B, H, n_q, n_k, d].
Variable squared_w2_distance(const Gaussians& q, const Gaussians& k);

/// q[B, H, n_q, 2d], k[B, G, n_k, 2d], both [mu ; raw] as in gaussians_from(), v[B, G, n_k, d_v].
/// tau[G, 1, 1] > 0: heads that share keys share the scale of distances. R is the identity without
/// a rope_base. Query i has position i + n_k - n_q.
AttentionCall w2_call(const HeadInputs& in, const Variable& tau,
                      std::optional<double> rope_base = {});
AttentionCall w2_overlap_call(const HeadInputs& in, std::optional<double> rope_base = {});

class W2Options : public AttentionOptions {
 public:
  std::optional<double> tau;  // initial; null: 2 sqrt(head dimension), the usual scale of products
  bool learn_tau = true;

  std::string kind() const override { return "w2"; }
  void describe(Schema& schema) override;

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

class W2OverlapOptions : public AttentionOptions {
 public:
  std::string kind() const override { return "w2_overlap"; }
  void describe(Schema&) override {}

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
