// The operands of a call as the kernels on tensor cores take them: rounded to bf16, dense, in whole
// tiles of aligned rows. One pass over f32 tensors, whose views may start and step anywhere.
#pragma once

#include <vector>

#include "core/cuda/attention/tensor_call.cuh"

namespace mobius::cuda {

/// The widths to which the columns of q and k, and of v, are completed.
struct TensorWidths {
  int d, dv;
};

/// The packed operands of a call, which live as long as `memory`.
struct PackedInputs {
  TensorCall call;
  std::vector<Tensor> memory;
};
PackedInputs pack_inputs(const AttentionSpec& spec, const AttentionInputs& inputs,
                         TensorWidths widths);

/// What the backward pass knows of the queries, as dense f32 [kinds, B, H, N]; rows as those of
/// packed operands, where queries past the last have no weights.
struct QueryRows {
  /// The first two kinds; those of numbers follow, in the order of for_each_number().
  enum Kind { log2_sum, mean, numbers };

  const float* data = nullptr;
  std::int64_t kind_stride = 0;

  __device__ const float* of(int kind) const { return data + kind * kind_stride; }
};

/// The kinds that a map has.
template <class Map>
constexpr int query_kinds() {
  int kinds = QueryRows::numbers;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use) {
        if (kind.of == NumberOf::query && use.is_taken && !use.multiplies_query) ++kinds;
      },
      Map::uses);
  return kinds;
}

struct PackedGradients {
  PackedRows grad_out;
  QueryRows rows;
  std::vector<Tensor> memory;
};
/// lse is undefined without a softmax.
PackedGradients pack_gradients(const AttentionSpec& spec, const TensorCall& call,
                               TensorWidths widths, const Tensor& out, const Tensor& lse,
                               const Tensor& grad_out);

}  // namespace mobius::cuda
