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

#include "core/backend.h"
#include "core/ops/attention_mask.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace mobius {

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

struct AttentionResult {
  Tensor out;  // [B, H, Nq, Dv], a view of dense [B, Nq, H, Dv]: merging the heads copies nothing
  Tensor lse;  // [B, H, Nq]: log of the sum of the weights (infinity where no key is seen), kept
               // for the backward pass; undefined without a softmax
};
AttentionResult attention(const AttentionSpec& spec, const AttentionInputs& inputs);
AttentionGrads attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const AttentionResult& result, const Tensor& grad_out);

/// For AttentionSpec::threshold; `spec` gives the mask and the scale. In memory linear in Nk.
AttentionThreshold attention_threshold(const AttentionSpec& spec, const AttentionInputs& inputs,
                                       std::int64_t topk);

/// Throws Error unless the numbers of an attention call are in range and belong to its score map:
/// what the fused and the composed form check alike.
void require_numbers_fit(const AttentionSpec& spec, const AttentionInputs& inputs);

class AttentionKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "attention";

  /// out[B, H, Nq, Dv] is strided except along its last dimension; lse is undefined without a
  /// softmax.
  virtual void attention(const AttentionSpec& spec, const AttentionInputs& inputs,
                         const Tensor& out, const Tensor& lse) = 0;
  /// Writes the gradients that are defined; q, k and v always are. grad_out is as strided as out.
  virtual void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                                  const AttentionGrads& grads) = 0;
  /// Writes the threshold that leaves each query the `topk` keys with the largest scale <q_i, k_j>.
  virtual void attention_threshold(const AttentionSpec& spec, const AttentionInputs& inputs,
                                   std::int64_t topk, const AttentionThreshold& out) = 0;
};

}  // namespace mobius
