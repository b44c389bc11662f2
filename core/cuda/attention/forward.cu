// The forward pass of attention in f32 and f64. A block owns a tile of queries and a range of the
// columns of the output; it visits the tiles of keys that the queries see, and keeps the weighted
// sums of values in registers. Where there are too few queries for the device, as in decoding, the
// tiles of keys are dealt to several blocks, and a second launch adds what they found.
// Buffers: outputs are overwritten (=).
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cuda/attention/plain_path.h"
#include "core/cuda/attention/tile.cuh"
#include "core/cuda/launch.cuh"

namespace mobius::cuda {
namespace {

/// What the blocks leave of a share of the keys, dense: sums of values [shares, B, H, Nq, Dv]
/// under weights relative to e^largest, the largest logit, and the sum of the weights
/// [shares, B, H, Nq]. Null where one block sees all keys.
template <class T>
struct KeyShares {
  int count = 1;
  T *sums = nullptr, *largest = nullptr, *total = nullptr;
};

template <class T>
struct ForwardCall {
  AttentionProblem<T> problem;
  HeadRows<T> out;
  T* lse;
  T largest_weight;  // without a softmax
  KeyShares<T> shares;
};

template <class T, bool kSoftmax, class Map>
struct ForwardTile {
  using Tile = Tiling<T>;
  static constexpr T infinity = std::numeric_limits<T>::infinity();

  const Map& map;
  const ForwardCall<T>& call;
  TileMemory<T>& memory;
  WeightedSums<T> sums;
  T largest[4] = {-infinity, -infinity, -infinity, -infinity}, total[4] = {};

  /// Adds columns [c0, c0 + width) of the values of a tile of keys, by their weights.
  __device__ void add_keys(const TilePosition& at, int c0, int width) {
    const AttentionProblem<T>& p = call.problem;
    const TileSight<T> sight(p, at, memory);
    if (!sight.sees_any()) return;
    const int group = p.group_of(at.h);
    const TileRows<T> q(p.q, at.b, at.h, at.i0, p.n_q), k(p.k, at.b, group, at.j0, p.n_k),
        v(p.v, at.b, group, at.j0, p.n_k);
    T weights[4][4];
    tile_products(q, k, p.d, memory, weights);
    SharedPiece<T> piece(weights, memory.weights);
    T corrections[4] = {1, 1, 1, 1};
#pragma unroll 1
    for (int r = 0; r < 4; ++r) {
      Quad<T> row = piece.row(r);
      const unsigned seen = sight.row(r);
      weigh_row(at, r, seen, row);
      if constexpr (kSoftmax) put(corrections, r, softmax_row(r, row));
      if (p.dropout.is_on && seen) {
        T factors[4];
        piece_dropout(p, at, at.i0 + piece_row<T>() + r, factors);
#pragma unroll
        for (int s = 0; s < 4; ++s) row.x[s] *= factors[s];
      }
      piece.row(r) = row;
    }
    piece.read(weights);
    if constexpr (kSoftmax) sums.scale_rows(corrections);
    store_for_queries(weights, memory);
    sums.add(q.count, v, c0, width, memory);
  }

  /// Products of query r of this thread -> logits (-infinity where unseen), or without a softmax
  /// weights.
  __device__ void weigh_row(const TilePosition& at, int r, unsigned seen, Quad<T>& row) const {
    const QueryNumbers<T> query = memory.query(piece_row<T>() + r);
    const int i = at.i0 + piece_row<T>() + r;
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const T product = row.x[s];
      row.x[s] = kSoftmax ? -infinity : T{0};
      if (((seen >> s) & 1u) == 0) continue;
      const int j = at.j0 + piece_column<T>() + s;
      const auto numbers = pair_numbers<Map>(call.problem, query, at.b, at.h, i, j);
      if constexpr (kSoftmax)
        row.x[s] = pair_logit(map, query, numbers, product);
      else
        row.x[s] = pair_weight(map, query, numbers, call.largest_weight, product);
    }
  }

  /// Logits -> weights relative to the running maximum; returns the factor of what was summed
  /// before. The lanes that share a row agree on its maximum and its sum.
  __device__ T softmax_row(int r, Quad<T>& row) {
    const Larger larger;
    const T before = pick(largest, r);
    T highest = larger(larger(row.x[0], row.x[1]), larger(row.x[2], row.x[3]));
    highest = larger(before, warp_max<Tile::quads>(highest));
    const bool sees_any = highest != -infinity;
    const T correction = highest > before ? ::exp(before - highest) : T{1};
#pragma unroll
    for (int s = 0; s < 4; ++s) row.x[s] = sees_any ? ::exp(row.x[s] - highest) : T{0};
    const T sum = warp_sum<Tile::quads>((row.x[0] + row.x[1]) + (row.x[2] + row.x[3]));
    put(largest, r, highest);
    put(total, r, ::fma(pick(total, r), correction, sum));
    return correction;
  }

  __device__ void store(const TilePosition& at, int c0, int width) {
    if (kSoftmax && !call.shares.sums) {
      T factors[4];
#pragma unroll
      for (int r = 0; r < 4; ++r) factors[r] = total[r] > 0 ? 1 / total[r] : T{0};
      sums.scale_rows(factors);
    }
    const bool writes_totals = kSoftmax && c0 == 0 && piece_column<T>() == 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = at.i0 + piece_row<T>() + r;
      if (i >= call.problem.n_q) return;
      const std::int64_t query = call.problem.row_of(at.b, at.h, i);
      if (call.shares.sums) {
        store_share(r, query, c0, width, writes_totals);
        continue;
      }
      if (writes_totals) call.lse[query] = total[r] > 0 ? largest[r] + ::log(total[r]) : infinity;
      sums.store_row(r, call.out.row(at.b, at.h, i), c0, width);
    }
  }

  __device__ void store_share(int r, std::int64_t query, int c0, int width, bool writes_totals) {
    const AttentionProblem<T>& p = call.problem;
    const std::int64_t at =
        static_cast<std::int64_t>(blockIdx.z) * p.batch * p.heads * p.n_q + query;
    sums.store_row(r, call.shares.sums + at * p.dv, c0, width);
    if (!writes_totals) return;
    call.shares.largest[at] = largest[r];
    call.shares.total[at] = total[r];
  }
};

/// Grid: tiles of queries of all heads, ranges of columns of v, shares of the keys.
template <class T, bool kSoftmax, class Map>
__global__ void __launch_bounds__(Tiling<T>::threads)
    forward_kernel(const Map map, const ForwardCall<T> call) {
  using Tile = Tiling<T>;
  __shared__ TileMemory<T> memory;
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead query_tile(blockIdx.x, p.heads, ceil_div(p.n_q, Tile::side));
  TilePosition at{query_tile.b, query_tile.h, query_tile.tile * Tile::side, 0};
  const int c0 = static_cast<int>(blockIdx.y) * Tile::columns;
  const int width = min(p.dv - c0, Tile::columns);
  ForwardTile<T, kSoftmax, Map> tile{map, call, memory};
  load_query_numbers(map, p, at, memory);
  const IndexRange keys = p.mask.pattern().keys_of(at.i0, min(at.i0 + Tile::side, p.n_q));
  const int first = static_cast<int>(keys.begin) / Tile::side;
  const int end = ceil_div(static_cast<int>(keys.end), Tile::side);
  for (int j = first + static_cast<int>(blockIdx.z); j < end; j += call.shares.count) {
    at.j0 = j * Tile::side;
    tile.add_keys(at, c0, width);
  }
  tile.store(at, c0, width);
}

/// One thread for each element of the output: adds the shares of the keys in their order.
template <class T, bool kSoftmax>
__global__ void add_shares_kernel(const ForwardCall<T> call) {
  const AttentionProblem<T>& p = call.problem;
  const std::int64_t rows = static_cast<std::int64_t>(p.batch) * p.heads * p.n_q;
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= rows * p.dv) return;
  const std::int64_t query = element / p.dv, head = query / p.n_q;
  const int c = static_cast<int>(element % p.dv), i = static_cast<int>(query % p.n_q);
  const KeyShares<T>& shares = call.shares;
  T largest = -std::numeric_limits<T>::infinity(), total = 0, sum = 0;
  if constexpr (kSoftmax) {
    for (int s = 0; s < shares.count; ++s)
      largest = Larger()(largest, shares.largest[s * rows + query]);
  }
  for (int s = 0; s < shares.count; ++s) {
    const T part = shares.sums[(s * rows + query) * p.dv + c];
    if constexpr (kSoftmax) {
      if (shares.largest[s * rows + query] == -std::numeric_limits<T>::infinity()) continue;
      const T factor = ::exp(shares.largest[s * rows + query] - largest);
      total = ::fma(factor, shares.total[s * rows + query], total);
      sum = ::fma(factor, part, sum);
    } else {
      sum += part;
    }
  }
  if constexpr (kSoftmax) {
    const bool sees_any = total > 0;
    sum *= sees_any ? 1 / total : T{0};
    if (c == 0)
      call.lse[query] = sees_any ? largest + ::log(total) : std::numeric_limits<T>::infinity();
  }
  call.out.row(head / p.heads, head % p.heads, i)[c] = sum;
}

/// Into how many shares the keys of a tile of queries are dealt: so many that a large device has
/// work, each of several tiles. A function of the shape alone, so that results are.
template <class T>
int shares_of_keys(const AttentionProblem<T>& p, std::int64_t blocks) {
  constexpr std::int64_t wanted_blocks = 256, least_tiles = 4;
  const std::int64_t key_tiles = ceil_div(p.n_k, Tiling<T>::side);
  const std::int64_t most = std::max<std::int64_t>(key_tiles / least_tiles, 1);
  return static_cast<int>(
      std::clamp<std::int64_t>(wanted_blocks / std::max<std::int64_t>(blocks, 1), 1, most));
}

template <bool kSoftmax, class Map, class T>
void forward(const Map& map, const AttentionProblem<T>& p, const Tensor& out, const Tensor& lse) {
  using Tile = Tiling<T>;
  ForwardCall<T> call{
      .problem = p, .out = HeadRows<T>(out), .lse = nullptr, .largest_weight = 0, .shares = {}};
  if constexpr (kSoftmax)
    call.lse = lse.data<T>();
  else
    call.largest_weight = static_cast<T>(std::exp(map.log_cap));
  const std::int64_t tiles =
      static_cast<std::int64_t>(p.batch) * p.heads * ceil_div(p.n_q, Tile::side);
  const int ranges = std::max(ceil_div(p.dv, Tile::columns), 1);
  const int shares = shares_of_keys(p, tiles * ranges);
  Tensor sums, largest, total;
  if (shares > 1) {
    const auto scratch = [&](std::int64_t width) {
      return Tensor::empty({shares, p.batch, p.heads, p.n_q, width}, out.dtype(), out.device());
    };
    sums = scratch(p.dv);
    largest = scratch(1);
    total = scratch(1);
    call.shares = {shares, sums.data<T>(), largest.data<T>(), total.data<T>()};
  }
  launch(forward_kernel<T, kSoftmax, Map>,
         {.grid = dim3(static_cast<unsigned>(tiles), ranges, shares), .block = Tile::threads}, map,
         call);
  if (shares > 1) launch(add_shares_kernel<T, kSoftmax>, for_elements(out.numel()), call);
}

}  // namespace

void plain_attention(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                     const Tensor& lse) {
  dispatch_real("attention", inputs.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> problem(spec, inputs);
    scores::with_score(spec, [&](auto map, auto is_softmax) {
      if constexpr (is_softmax || map.has_weight) forward<is_softmax>(map, problem, out, lse);
    });
  });
}

}  // namespace mobius::cuda
