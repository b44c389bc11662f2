// Quadratic attention as one primitive: docs/MATH.md, sections 1, 3 and 4.
//
//   out_i = sum_j w_ij v_j,   w_ij = normalise_j( score_map( <q_i, k_j>, numbers of i and j ) )
//
// A variant prepares q, k and the per-row numbers with differentiable operations, and names its
// pieces here. The kernel never holds an n x n matrix: it recomputes the weights in the backward
// pass.
// Legend: B batch, H query heads, G key/value heads (H a multiple of G), Nq queries, Nk keys,
// D query/key dimension, Dv value dimension.
#pragma once

#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

namespace pieces {
#include "core/attention_pieces.inc"
}

/// Which keys a query sees. Query i stands at position p = i + (Nk - Nq).
struct AttentionMask {
  bool causal = false;        // only j <= p
  Tensor mask = {};           // undefined, or u8, broadcastable to [B, H, Nq, Nk]: only where not 0
  std::int64_t window = 0;    // > 0: only |p - j| < window ...
  std::int64_t stride = 0;    // ... or, when > 0, (p - j) mod stride == 0 ...
  std::int64_t n_global = 0;  // ... or j < n_global; none of the three may be negative

  /// What window, stride and n_global say of a query at position p and key j.
  bool pattern_sees(std::int64_t p, std::int64_t j) const {
    return pieces::pattern_sees(p, j, window, stride, n_global);
  }
};

/// From the product <q_i, k_j> to an unnormalised weight.
enum class ScoreMap {
  /// exp(scale t_i <q_i, k_j> + key_bias_j + distance_bias[p - j])
  dot,
  /// exp(min(g_i - s log a_ij, log_cap)), a_ij = 1 - t_i <q_i, k_j> > 0, q and k of unit length
  conformal
};

enum class WeightNormalizer {
  softmax,  // w / sum_j w, by a running maximum
  none      // w as it is: no reduction over the keys at all
};

/// A selection of the `topk` keys with the largest products for each query, found by
/// attention_threshold(): a query sees, of the keys that the mask lets it see, those whose product
/// scale t_i <q_i, k_j> is above `value`, or equal to it with j <= `last_key` (ties: the smaller
/// j).
struct AttentionThreshold {
  Tensor value{};     // [B, H, Nq], undefined: no selection
  Tensor last_key{};  // i64 [B, H, Nq]
};

struct AttentionSpec {
  ScoreMap score = ScoreMap::dot;
  WeightNormalizer normalizer = WeightNormalizer::softmax;
  double scale = 1;     // of ScoreMap::dot
  double exponent = 1;  // s of ScoreMap::conformal, > 0
  double log_cap = 80;  // of ScoreMap::conformal without a softmax: e^80 is finite in f32
  AttentionMask mask{};
  AttentionThreshold threshold{};
  double dropout = 0;  // of the weights, after normalisation
  RngKey dropout_key{};
};

/// All tensors of one real type. q, k, v may be strided except along their last dimension, which
/// must be dense; the others are dense.
struct AttentionInputs {
  Tensor q;              // [B, H, Nq, D]
  Tensor k;              // [B, G, Nk, D]
  Tensor v;              // [B, G, Nk, Dv]
  Tensor key_bias;       // dot: undefined or [B, G, Nk]
  Tensor distance_bias;  // dot: undefined or [H, Nq + Nk - 1]; pairs with j - i = t - (Nq - 1) read
                         // entry t
  Tensor sharpness;      // t_i, [B, H, Nq]; conformal: in [0, 1); dot: undefined means 1
  Tensor log_factor;     // conformal: g_i, [B, H, Nq]; undefined means 0
};

/// Gradients of the inputs of the same names, defined where those are.
struct AttentionGrads {
  Tensor q, k, v, key_bias, distance_bias, sharpness, log_factor;
};

/// Attention by feature products:
///   out_i = sum_j <q_i, k_j> v_j / (sum_j <q_i, k_j> + eps),
/// over the keys that i sees: all of them, or the causal ones. q and k are features (docs/MATH.md,
/// section 4), M of them; shapes, strides and heads as in AttentionInputs, with M for D. Causal
/// needs Nk >= Nq.
struct LinearAttentionInputs {
  Tensor q, k, v;
  bool causal = false;
  double eps = 0;
};

struct LinearAttentionGrads {
  Tensor q, k, v;
};

}  // namespace mobius
