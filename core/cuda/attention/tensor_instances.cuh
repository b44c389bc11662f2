// The launchers of the kernels on tensor cores, for the files that instantiate them.
#pragma once

#include "core/cuda/attention/tensor_forward.cuh"
#include "core/cuda/attention/tensor_kernels.h"
#include "core/cuda/attention/tensor_key_gradients.cuh"
#include "core/cuda/attention/tensor_query_gradients.cuh"
#include "core/cuda/launch.cuh"

namespace mobius::cuda {

inline LaunchShape tensor_launch(std::int64_t blocks, int shared_bytes) {
  return {.grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(tensor_threads),
          .shared_bytes = static_cast<std::size_t>(shared_bytes)};
}

/// Calls fn(the fast form of the score map of a spec).
template <class Fn>
void with_fast_score(const AttentionSpec& spec, const Fn& fn) {
  scores::with_score(spec, [&](auto map, auto) { fn(FastScore<decltype(map)>(spec)); });
}

template <int kD, int kDv>
TileSize TensorKernels<kD, kDv>::forward_tile() {
  return {ForwardTile<kD, kDv>::queries, ForwardTile<kD, kDv>::keys};
}
template <int kD, int kDv>
TileSize TensorKernels<kD, kDv>::query_gradient_tile() {
  return {QueryGradientTile<kD, kDv>::queries, QueryGradientTile<kD, kDv>::staged};
}

template <int kD, int kDv>
void TensorKernels<kD, kDv>::forward(const AttentionSpec& spec, const ForwardCall& call) {
  using Tile = ForwardTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const std::int64_t blocks =
      std::int64_t{p.batch} * p.heads * call.splits * ceil_div(p.n_q, Tile::queries);
  with_fast_score(spec, [&]<class Map>(const FastScore<Map>& score) {
    launch(tensor_forward<Map, kD, kDv>, tensor_launch(blocks, Tile::shared_bytes), score, call);
  });
}

template <int kD, int kDv>
void TensorKernels<kD, kDv>::key_gradients(const AttentionSpec& spec, const BackwardCall& call) {
  using Tile = KeyGradientTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const std::int64_t blocks =
      std::int64_t{p.batch} * p.groups * ceil_div(p.n_k, Tile::keys) * Tile::parts;
  with_fast_score(spec, [&]<class Map>(const FastScore<Map>& score) {
    launch(tensor_key_gradients<Map, kD, kDv>,
           tensor_launch(blocks, Tile::template shared_bytes<Map>), score, call);
  });
}

template <int kD, int kDv>
void TensorKernels<kD, kDv>::query_gradients(const AttentionSpec& spec,
                                             const QueryGradientCall& call) {
  using Tile = QueryGradientTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const std::int64_t blocks = std::int64_t{p.batch} * p.heads * call.tiles;
  const int shared_bytes = Tile::shared_bytes + (call.diagonals ? Tile::pair_bytes : 0);
  with_fast_score(spec, [&]<class Map>(const FastScore<Map>& score) {
    launch(tensor_query_gradients<Map, kD, kDv>, tensor_launch(blocks, shared_bytes), score, call);
  });
}

}  // namespace mobius::cuda
