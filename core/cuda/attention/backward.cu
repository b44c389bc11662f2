// The backward pass of attention in f32 and f64. The weights are computed again, tile by tile, by
// each of two kernels: one owns a tile of keys and sums what all queries that see it leave there,
// the other owns a tile of queries. Gradients of distance biases have a third, which owns a range
// of diagonals. So no sum passes through memory, but those of distances over the batch; the order
// of all is fixed.
// Buffers: all gradients are overwritten (=).
#include <algorithm>
#include <cmath>

#include "core/cuda/attention/plain_path.h"
#include "core/cuda/attention/tile.cuh"
#include "core/cuda/launch.cuh"

namespace mobius::cuda {
namespace {

template <class T>
struct BackwardCall {
  AttentionProblem<T> problem;
  HeadRows<const T> out, grad_out;
  const T* lse;      // [B, H, Nq], with a softmax
  T* mean;           // [B, H, Nq], with a softmax: <grad_out_i, out_i>
  T largest_weight;  // without one
  T *grad_q, *grad_k, *grad_v;
  AttentionOperands<T*> grads;  // of the numbers; distance_bias apart for each batch element
};

/// <grad_out_i, out_i> for every query, summed in the order in which the tile products sum
/// <grad_out_i, v_j>: a query that sees a single key then gets a gradient of exactly 0. One thread
/// for each row of a tile; grid: tiles of queries of all heads.
template <class T>
__global__ void __launch_bounds__(Tiling<T>::side) row_means_kernel(const BackwardCall<T> call) {
  using Tile = Tiling<T>;
  constexpr int slice = 32, pitch = slice + 1;
  __shared__ T out[Tile::side * pitch], grad_out[Tile::side * pitch];
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead query_tile(blockIdx.x, p.heads, ceil_div(p.n_q, Tile::side));
  const int i0 = query_tile.tile * Tile::side, row = static_cast<int>(threadIdx.x);
  const int count = min(p.n_q - i0, Tile::side);
  T sum = 0;
  for (int c0 = 0; c0 < p.dv; c0 += slice) {
    const int width = min(p.dv - c0, slice);
    __syncthreads();
    for (int at = row; at < count * slice; at += Tile::side) {
      const int r = at / slice, c = at % slice;
      if (c >= width) continue;
      out[r * pitch + c] = call.out.row(query_tile.b, query_tile.h, i0 + r)[c0 + c];
      grad_out[r * pitch + c] = call.grad_out.row(query_tile.b, query_tile.h, i0 + r)[c0 + c];
    }
    __syncthreads();
    for (int c = 0; row < count && c < width; ++c)
      sum = ::fma(grad_out[row * pitch + c], out[row * pitch + c], sum);
  }
  if (row < count) call.mean[p.row_of(query_tile.b, query_tile.h, i0 + row)] = sum;
}

/// This thread's piece of a tile of pairs: the weights with the factors of dropout, and
/// d loss / d <q_i, k_j>.
template <class T>
struct PairPiece {
  T weight[4][4], grad_dot[4][4];
};

/// Row r of this thread's piece: products -> weights, and d loss / d weights -> d loss / d
/// products.
template <bool kSoftmax, class Map, class T, class AddGrads>
__device__ void row_through_weights(const Map& map, const BackwardCall<T>& call,
                                    const TilePosition& at, const QueryNumbers<T>& query, int r,
                                    unsigned seen, Quad<T>& weights, Quad<T>& grads,
                                    AddGrads&& add) {
  const AttentionProblem<T>& p = call.problem;
  const int i = at.i0 + piece_row<T>() + r;
  RowWeights<T> row{0, 0, call.largest_weight};
  T factors[4] = {1, 1, 1, 1};
  if (seen) {
    if constexpr (kSoftmax) {
      row.lse = call.lse[p.row_of(at.b, at.h, i)];
      row.mean = call.mean[p.row_of(at.b, at.h, i)];
    }
    if (p.dropout.is_on) piece_dropout(p, at, i, factors);
  }
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    PairGradient<T> pair{0, 0};
    if ((seen >> s) & 1u) {
      const int j = at.j0 + piece_column<T>() + s;
      AttentionOperands<T> of_numbers;
      pair = pair_gradient<kSoftmax>(map, query, pair_numbers<Map>(p, query, at.b, at.h, i, j), row,
                                     weights.x[s], factors[s] * grads.x[s], of_numbers);
      add(r, s, of_numbers);
    }
    weights.x[s] = factors[s] * pair.weight;
    grads.x[s] = pair.grad_dot;
  }
}

/// Fills `piece` and calls add(r, s, gradients of the numbers) for its pairs that are seen. False
/// if the tile has none.
template <bool kSoftmax, class Map, class T, class AddGrads>
__device__ bool through_weights(const Map& map, const BackwardCall<T>& call, const TilePosition& at,
                                TileMemory<T>& memory, PairPiece<T>& piece, AddGrads&& add) {
  const AttentionProblem<T>& p = call.problem;
  const TileSight<T> sight(p, at, memory);
  if (!sight.sees_any()) return false;
  const int group = p.group_of(at.h);
  const TileRows<T> q(p.q, at.b, at.h, at.i0, p.n_q), k(p.k, at.b, group, at.j0, p.n_k);
  const TileRows<T> grad_out(call.grad_out, at.b, at.h, at.i0, p.n_q),
      v(p.v, at.b, group, at.j0, p.n_k);
  load_query_numbers(map, p, at, memory);
  tile_products(q, k, p.d, memory, piece.weight);
  tile_products(grad_out, v, p.dv, memory, piece.grad_dot);
  __syncthreads();  // the operands have been read
  SharedPiece<T> weights(piece.weight, memory.weights), grads(piece.grad_dot, memory.operands);
#pragma unroll 1
  for (int r = 0; r < 4; ++r)
    row_through_weights<kSoftmax>(map, call, at, memory.query(piece_row<T>() + r), r, sight.row(r),
                                  weights.row(r), grads.row(r), add);
  weights.read(piece.weight);
  grads.read(piece.grad_dot);
  return true;
}

/// The gradients of the numbers of this thread's queries, or of its keys.
template <class T>
using NumberSums = AttentionOperands<Quad<T>>;

/// Adds to those at `at` what one pair has for the numbers that `Map` takes of queries, or of keys.
template <class Map, class T>
__device__ void add_numbers(NumberOf what, const AttentionOperands<T>& of_pair, int at,
                            NumberSums<T>& sums) {
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, const T& grad, Quad<T>& sum) {
        if (kind.of == what && use.is_taken) put(sum.x, at, pick(sum.x, at) + grad);
      },
      number_uses<Map>(), of_pair, sums);
}

/// The columns of an operand whose gradients a block sums.
struct ColumnRange {
  int first, width;  // width <= 0: none

  __device__ ColumnRange(int columns_of_block, int n)
      : first(static_cast<int>(blockIdx.y) * columns_of_block),
        width(min(n - first, columns_of_block)) {}
};

/// Writes the sums over a tile's queries of what its threads have for the keys of their columns.
template <class Map, class T>
__device__ void store_key_numbers(const BackwardCall<T>& call, const NumberSums<T>& sums, int b,
                                  int g, int j0, TileMemory<T>& memory) {
  using Tile = Tiling<T>;
  const AttentionProblem<T>& p = call.problem;
  T* const shared = memory.weights;  // [quads, side]
  const int at = piece_row<T>() / 4 * Tile::side + piece_column<T>();
  const int key = static_cast<int>(threadIdx.x);
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, T* grad, const Quad<T>& of_thread) {
        if (kind.of != NumberOf::key || !use.is_taken || !grad) return;
        __syncthreads();
        *reinterpret_cast<Quad<T>*>(shared + at) = of_thread;
        __syncthreads();
        if (key >= Tile::side || j0 + key >= p.n_k) return;
        T sum = 0;
        for (int r = 0; r < Tile::quads; ++r) sum += shared[r * Tile::side + key];
        grad[p.key_of(b, g, j0 + key)] = sum;
      },
      number_uses<Map>(), call.grads, sums);
}

/// Writes the sums over the keys of what adjacent threads have for the queries of their rows.
template <class Map, class T>
__device__ void store_query_numbers(const Map& map, const BackwardCall<T>& call,
                                    const NumberSums<T>& sums, int b, int h, int i0) {
  const AttentionProblem<T>& p = call.problem;
  scores::for_each_number(
      [&](const NumberKind& kind, const NumberUse& use, T* grad, const Quad<T>& of_thread) {
        if (kind.of != NumberOf::query || !use.is_taken || !grad) return;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int i = i0 + piece_row<T>() + r;
          T sum = warp_sum<Tiling<T>::quads>(of_thread.x[r]);
          if constexpr (Map::scales_queries)
            sum = use.multiplies_query ? map.query_factor_gradient(sum) : sum;
          if (piece_column<T>() == 0 && i < p.n_q) grad[p.row_of(b, h, i)] = sum;
        }
      },
      number_uses<Map>(), call.grads, sums);
}

/// Grid: tiles of keys of all key/value heads, ranges of columns of k and v.
template <class T, bool kSoftmax, class Map>
__global__ void __launch_bounds__(Tiling<T>::threads)
    backward_keys_kernel(const Map map, const BackwardCall<T> call) {
  using Tile = Tiling<T>;
  __shared__ TileMemory<T> memory;
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead key_tile(blockIdx.x, p.groups, ceil_div(p.n_k, Tile::side));
  const int b = key_tile.b, group = key_tile.h, j0 = key_tile.tile * Tile::side;
  const int n_keys = min(p.n_k - j0, Tile::side), per_group = p.heads / p.groups;
  const ColumnRange of_k(Tile::columns, p.d), of_v(Tile::columns, p.dv);
  const IndexRange queries = p.mask.pattern().queries_of(j0, j0 + n_keys);
  WeightedSums<T> grad_k, grad_v;
  NumberSums<T> sums;
  PairPiece<T> piece;
  for (int h = group * per_group; h < (group + 1) * per_group; ++h) {
    for (int i0 = static_cast<int>(queries.begin) / Tile::side * Tile::side; i0 < queries.end;
         i0 += Tile::side) {
      const auto add = [&](int, int s, const AttentionOperands<T>& grads) {
        add_numbers<Map>(NumberOf::key, grads, s, sums);
      };
      if (!through_weights<kSoftmax>(map, call, {b, h, i0, j0}, memory, piece, add)) continue;
      if (of_v.width > 0) {
        const TileRows<T> grad_out(call.grad_out, b, h, i0, p.n_q);
        store_for_keys(piece.weight, memory);
        grad_v.add(n_keys, grad_out, of_v.first, of_v.width, memory);
      }
      if (of_k.width > 0) {
        store_for_keys(piece.grad_dot, memory);
        grad_k.add(n_keys, TileRows<T>(p.q, b, h, i0, p.n_q), of_k.first, of_k.width, memory);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int j = piece_row<T>() + r;
    if (j >= n_keys) break;
    const std::int64_t key = p.key_of(b, group, j0 + j);
    grad_k.store_row(r, call.grad_k + key * p.d, of_k.first, of_k.width);
    grad_v.store_row(r, call.grad_v + key * p.dv, of_v.first, of_v.width);
  }
  if (blockIdx.y == 0) store_key_numbers<Map>(call, sums, b, group, j0, memory);
}

/// Grid: tiles of queries of all heads, ranges of columns of q.
template <class T, bool kSoftmax, class Map>
__global__ void __launch_bounds__(Tiling<T>::threads)
    backward_queries_kernel(const Map map, const BackwardCall<T> call) {
  using Tile = Tiling<T>;
  __shared__ TileMemory<T> memory;
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead query_tile(blockIdx.x, p.heads, ceil_div(p.n_q, Tile::side));
  const int b = query_tile.b, h = query_tile.h, i0 = query_tile.tile * Tile::side;
  const int n_queries = min(p.n_q - i0, Tile::side);
  const ColumnRange of_q(Tile::columns, p.d);
  const IndexRange keys = p.mask.pattern().keys_of(i0, i0 + n_queries);
  WeightedSums<T> grad_q;
  NumberSums<T> sums;
  PairPiece<T> piece;
  for (int j0 = static_cast<int>(keys.begin) / Tile::side * Tile::side; j0 < keys.end;
       j0 += Tile::side) {
    const auto add = [&](int r, int, const AttentionOperands<T>& grads) {
      add_numbers<Map>(NumberOf::query, grads, r, sums);
    };
    if (!through_weights<kSoftmax>(map, call, {b, h, i0, j0}, memory, piece, add)) continue;
    store_for_queries(piece.grad_dot, memory);
    grad_q.add(n_queries, TileRows<T>(p.k, b, p.group_of(h), j0, p.n_k), of_q.first, of_q.width,
               memory);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int i = i0 + piece_row<T>() + r;
    if (i >= p.n_q) break;
    grad_q.store_row(r, call.grad_q + p.row_of(b, h, i) * p.d, of_q.first, of_q.width);
  }
  if (blockIdx.y == 0) store_query_numbers(map, call, sums, b, h, i0);
}

/// Gradients of the biases of `side` distances t from t0 = blockIdx.y * side: pairs with
/// j - i = t - (Nq - 1). Grid: heads of all batch elements, ranges of distances.
template <class T, bool kSoftmax, class Map>
__global__ void __launch_bounds__(Tiling<T>::threads)
    backward_distances_kernel(const Map map, const BackwardCall<T> call) {
  using Tile = Tiling<T>;
  __shared__ TileMemory<T> memory;
  const AttentionProblem<T>& p = call.problem;
  const int b = static_cast<int>(blockIdx.x) / p.heads, h = static_cast<int>(blockIdx.x) % p.heads;
  const int t0 = static_cast<int>(blockIdx.y) * Tile::side, t = static_cast<int>(threadIdx.x);
  const int shift = t0 - (p.n_q - 1);  // j - i of the first distance
  T sum = 0;
  PairPiece<T> piece;
  for (int i0 = 0; i0 < p.n_q; i0 += Tile::side) {
    const int end = min(i0 + shift + 2 * Tile::side - 1, p.n_k);
    for (int j0 = max(i0 + shift, 0); j0 < end; j0 += Tile::side) {
      T of_keys[4][4] = {};  // [s][r]
      const auto add = [&](int r, int s, const AttentionOperands<T>& grads) {
        put(of_keys[s], r, grads.distance_bias);
      };
      if (!through_weights<kSoftmax>(map, call, {b, h, i0, j0}, memory, piece, add)) continue;
      T grads[4][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int s = 0; s < 4; ++s) grads[r][s] = of_keys[s][r];
      store_for_keys(grads, memory);
      __syncthreads();
      for (int i = 0; t < Tile::side && i < Tile::side; ++i) {
        const int j = i0 + i + shift + t - j0;
        if (j >= 0 && j < Tile::side) sum += memory.weight_at(i, j);
      }
    }
  }
  const int distances = p.n_q + p.n_k - 1;
  const std::int64_t head = static_cast<std::int64_t>(b) * p.heads + h;
  if (t < Tile::side && t0 + t < distances)
    call.grads.distance_bias[head * distances + t0 + t] = sum;
}

/// out[i] = the sum over the leading dimension of x[batch, n], in order.
template <class T>
__global__ void add_batch_kernel(const T* x, int batch, std::int64_t n, T* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  T sum = 0;
  for (int b = 0; b < batch; ++b) sum += x[b * n + i];
  out[i] = sum;
}

template <bool kSoftmax, class Map, class T>
void backward_distances(const Map& map, BackwardCall<T> call, const Tensor& grad) {
  using Tile = Tiling<T>;
  const AttentionProblem<T>& p = call.problem;
  const Tensor of_batch =
      Tensor::empty({p.batch, p.heads, grad.size(-1)}, grad.dtype(), grad.device());
  call.grads.distance_bias = of_batch.data<T>();
  const int ranges = ceil_div(p.n_q + p.n_k - 1, Tile::side);
  launch(backward_distances_kernel<T, kSoftmax, Map>,
         {.grid = dim3(p.batch * p.heads, ranges), .block = Tile::threads}, map, call);
  launch(add_batch_kernel<T>, for_elements(grad.numel()), of_batch.data<T>(), p.batch, grad.numel(),
         grad.data<T>());
}

template <bool kSoftmax, class Map, class T>
void backward(const Map& map, const AttentionProblem<T>& p, const Tensor& out, const Tensor& lse,
              const Tensor& grad_out, const AttentionGrads& grads) {
  using Tile = Tiling<T>;
  BackwardCall<T> call{.problem = p,
                       .out = HeadRows<const T>(out),
                       .grad_out = HeadRows<const T>(grad_out),
                       .lse = nullptr,
                       .mean = nullptr,
                       .largest_weight = 0,
                       .grad_q = grads.q.template data<T>(),
                       .grad_k = grads.k.template data<T>(),
                       .grad_v = grads.v.template data<T>(),
                       .grads = number_addresses<T>(grads)};
  const auto blocks = [](std::int64_t heads, int rows, int columns) {
    const std::int64_t tiles = heads * ceil_div(rows, Tile::side);
    return LaunchShape{.grid = dim3(static_cast<unsigned>(tiles), ceil_div(columns, Tile::columns)),
                       .block = Tile::threads};
  };
  const std::int64_t heads = static_cast<std::int64_t>(p.batch) * p.heads;
  const std::int64_t groups = static_cast<std::int64_t>(p.batch) * p.groups;
  Tensor mean;
  if constexpr (kSoftmax) {
    mean = lse.empty_like();
    call.lse = lse.data<T>();
    call.mean = mean.data<T>();
    LaunchShape of_rows = blocks(heads, p.n_q, 1);
    of_rows.block = Tile::side;
    launch(row_means_kernel<T>, of_rows, call);
  } else {
    call.largest_weight = static_cast<T>(std::exp(map.log_cap));
  }
  launch(backward_keys_kernel<T, kSoftmax, Map>, blocks(groups, p.n_k, std::max(p.d, p.dv)), map,
         call);
  launch(backward_queries_kernel<T, kSoftmax, Map>, blocks(heads, p.n_q, p.d), map, call);
  if constexpr (Map::uses.distance_bias.is_taken) {
    if (grads.distance_bias.defined()) backward_distances<kSoftmax>(map, call, grads.distance_bias);
  }
}

}  // namespace

void plain_attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                              const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                              const AttentionGrads& grads) {
  dispatch_real("attention_backward", inputs.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> problem(spec, inputs);
    scores::with_score(spec, [&](auto map, auto is_softmax) {
      if constexpr (is_softmax || map.has_weight)
        backward<is_softmax>(map, problem, out, lse, grad_out, grads);
    });
  });
}

}  // namespace mobius::cuda
