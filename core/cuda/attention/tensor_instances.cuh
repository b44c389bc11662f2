// The launchers of the kernels on tensor cores, for the files that instantiate them.
#pragma once

#include "core/cuda/attention/tensor_forward.cuh"
#include "core/cuda/attention/tensor_kernels.h"
#include "core/cuda/launch.cuh"

namespace mobius::cuda {

template <int kD, int kDv>
int TensorKernels<kD, kDv>::forward_queries() {
  return ForwardTile<kD, kDv>::queries;
}
template <int kD, int kDv>
int TensorKernels<kD, kDv>::forward_keys() {
  return ForwardTile<kD, kDv>::keys;
}
template <int kD, int kDv>
void TensorKernels<kD, kDv>::forward(const AttentionSpec& spec, const ForwardCall& call) {
  using Tile = ForwardTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const std::int64_t blocks =
      std::int64_t{p.batch} * p.heads * call.splits * ceil_div(p.n_q, Tile::queries);
  scores::with_score(spec, [&](auto map, auto) {
    using Map = decltype(map);
    launch(tensor_forward<Map, kD, kDv>,
           {.grid = dim3(static_cast<unsigned>(blocks)),
            .block = dim3(tensor_threads),
            .shared_bytes = Tile::shared_bytes},
           FastScore<Map>(spec), call);
  });
}

}  // namespace mobius::cuda
