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
#include "core/score_maps/operands.h"
#include "core/tensor.h"

namespace mobius {

/// Which keys a query sees. Query i stands at position p = i + (Nk - Nq).
struct AttentionMask {
  bool causal = false;        // only j <= p
  Tensor mask = {};           // undefined, or u8, broadcastable to [B, H, Nq, Nk]: only where not 0
  std::int64_t window = 0;    // > 0: only |p - j| < window ...
  std::int64_t stride = 0;    // ... or, when > 0, (p - j) mod stride == 0 ...
  std::int64_t n_global = 0;  // ... or j < n_global; none of the three may be negative
  Tensor selected = {};  // undefined, or i32, broadcastable to [B, H, Nq, K]: only these keys, in
                         // ascending order, the rest of a row being Nk; see attention_topk()

  /// Whether it says no more than `causal` does.
  bool is_simple() const { return !mask.defined() && window == 0 && !selected.defined(); }
};

struct AttentionSpec {
  ScoreMap score = ScoreMap::dot;
  WeightNormalizer normalizer = WeightNormalizer::softmax;
  double scale = 1;     // of ScoreMap::dot
  double exponent = 1;  // s of ScoreMap::conformal, > 0
  double log_cap = 80;  // of ScoreMap::conformal without a softmax: e^80 is finite in f32
  AttentionMask mask{};
  double dropout = 0;  // of the weights, after normalisation
  RngKey dropout_key{};
};

/// All tensors of one real type. q, k, v may be strided except along their last dimension, which
/// must be dense; the others are dense. Numbers that the score map does not require may be
/// undefined, which means 1 for `sharpness` and 0 for the others.
using AttentionInputs = AttentionOperands<Tensor>;
/// Gradients of the inputs of the same names, defined where those are.
using AttentionGrads = AttentionOperands<Tensor>;

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
