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
#include "core/ops/matmul.h"
#include "core/rng.h"
#include "core/score_maps/score_maps.h"
#include "core/tensor.h"

namespace mobius {

struct AttentionSpec {
  ScoreMap score = ScoreMap::dot;
  WeightNormalizer normalizer = WeightNormalizer::softmax;
  double scale = 1;     // of ScoreMap::dot
  double exponent = 1;  // s of ScoreMap::conformal, > 0
  double log_cap = 80;  // of ScoreMap::conformal without a softmax: e^80 is finite in f32
  AttentionMask mask{};
  double dropout = 0;  // of the weights, after normalisation
  RngKey dropout_key{};
  /// With bf16, a device that is faster for it rounds the operands of all products of f32 tensors
  /// to bf16: q, k, v, grad_out, the weights and their gradients. Sums, logits, the numbers and all
  /// results stay f32. Others compute in f32 all the same, which differs by rounding alone.
  MatmulPrecision precision = MatmulPrecision::full;
};

/// All tensors of one real type. q, k, v may be strided except along their last dimension, which
/// must be dense; the others are dense. Numbers that the score map does not require may be
/// undefined, which means 1 for `sharpness` and 0 for the others.
using AttentionInputs = AttentionOperands<Tensor>;
/// Gradients of the inputs of the same names, defined where those are.
using AttentionGrads = AttentionOperands<Tensor>;

struct AttentionResult {
  Tensor out;  // [B, H, Nq, Dv], a view of dense [B, Nq, H, Dv]: merging the heads copies nothing
  Tensor lse;  // [B, H, Nq]: log of the sum of the weights (infinity where no key is seen), kept
               // for the backward pass; undefined without a softmax
};
AttentionResult attention(const AttentionSpec& spec, const AttentionInputs& inputs);
AttentionGrads attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const AttentionResult& result, const Tensor& grad_out);

/// For each query, of the keys that the mask of `spec` lets it see, those `topk` whose products
/// with it (times scale and t_i) are largest, of equal ones the earlier: AttentionMask::selected,
/// [B, H, Nq, min(topk, Nk)].
Tensor attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs, std::int64_t topk);

/// Throws Error unless an attention call has the numbers that its score map takes, and constants in
/// range: what the fused and the composed form check alike.
void require_numbers_fit(const AttentionSpec& spec, const AttentionOperands<bool>& is_given);
template <class X>
void require_numbers_fit(const AttentionSpec& spec, const AttentionOperands<X>& inputs) {
  require_numbers_fit(spec, map_operands(inputs, [](const X& x) { return x.defined(); }));
}

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
  /// keys is i32 [B, H, Nq, K].
  virtual void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                              const Tensor& keys) = 0;
};

}  // namespace mobius
