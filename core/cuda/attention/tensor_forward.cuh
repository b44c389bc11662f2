// The forward pass on tensor cores, as in FlashAttention-2 (Dao 2023): a block of four warps keeps
// a tile of queries and visits the tiles of keys that they see. Each warp has 16 or 32 queries; its
// products stay in registers, where they become weights and, rounded, the operand of the sum over
// the values. While a tile of keys and values is worked on, the next is copied.
//
// Where there are few tiles of queries, `splits` blocks share the keys of each; see
// combine_splits() in tensor_path.cu.
#pragma once

#include "core/cuda/attention/pair_bits.cuh"
#include "core/cuda/attention/tensor_call.cuh"
#include "core/cuda/attention/tensor_tile.cuh"
#include "core/cuda/attention/tile_sights.cuh"

namespace mobius::cuda {

struct ForwardCall : TensorCall {
  explicit ForwardCall(const TensorCall& call) : TensorCall(call) {}

  HeadRows<float> out;         // of the first split
  float* lse = nullptr;        // of the first split
  int splits = 1;              // in which the keys are dealt
  std::int64_t out_split = 0;  // from a split's out to the next
  std::int64_t lse_split = 0;
  float lse_of_nothing = 0;  // where no key is seen
};

/// The tile of a block: what fits in 255 registers and 99 KiB of shared memory.
template <int kD, int kDv>
struct ForwardTile {
  static constexpr int blocks = kDv <= 128 ? 2 : 1;  // of 16 queries a warp
  static constexpr int keys = kD + kDv <= 192 ? 64 : 32;
  static constexpr bool holds_queries = kD <= 32;
  static constexpr int queries = 16 * blocks * (tensor_threads / 32);
  static constexpr int key_bytes = tile_bytes<kD>(keys), value_bytes = tile_bytes<kDv>(keys);
  static constexpr int shared_bytes = tile_bytes<kD>(queries) + 2 * (key_bytes + value_bytes);
};

/// The queries of one warp.
template <class Map, int kD, int kDv>
class ForwardWarp {
 public:
  using Tile = ForwardTile<kD, kDv>;
  static constexpr int kBlocks = Tile::blocks, kKeys = Tile::keys;

  __device__ ForwardWarp(const FastScore<Map>& score, const ForwardCall& call, int b, int h, int i0)
      : score_(score),
        call_(call),
        p_(call.problem),
        b_(b),
        h_(h),
        i0_(i0),
        lane_(threadIdx.x % 32),
        sights_(TileSights::of_keys(p_.mask, i0, i0 + 16 * kBlocks)) {
    for_rows([&](int block, int half) {
      query_[block][half] = score_.query(fast_numbers(score_, p_, b, h, row(block, half)));
      largest_[block][half] = -INFINITY;
      total_[block][half] = 0;
    });
  }

  /// Adds the keys [j0, j0 + kKeys), given their tiles in shared memory.
  template <class Queries>
  __device__ void add_keys(const Queries& queries, std::uint32_t keys, std::uint32_t values,
                           int j0) {
    const Sight sight = sights_.at(j0, j0 + kKeys);
    if (sight == Sight::none) return;
    Product<kBlocks, kKeys> weights = {};
    add_product_transposed<kD, kBlocks, kKeys>(queries, keys, weights);
    if (call_.is_softmax)
      softmax(sight, j0, weights);
    else if constexpr (Map::has_weight)
      plain(sight, j0, weights);
    if (p_.dropout.is_on) drop(j0, weights);
    add_product<kDv, kBlocks, kKeys, kDv>(weights, values, 0, sums_);
  }

  __device__ void store(int split) const {
    for_rows([&](int block, int half) {
      const int i = row(block, half);
      float factor = p_.dropout.is_on ? static_cast<float>(p_.dropout.keep) : 1.0f;
      if (call_.is_softmax) {
        const float total = warp_sum<4>(total_[block][half]);
        factor = total > 0 ? factor / total : 0;
        if (i < p_.n_q && lane_ % 4 == 0)
          call_.lse[split * call_.lse_split + p_.row_of(b_, h_, i)] =
              total > 0 ? (largest_[block][half] * score_.unit() + log2f(total)) * ln_2
                        : call_.lse_of_nothing;
      }
      if (i >= p_.n_q) return;
      float* const out = call_.out.row(b_, h_, i) + split * call_.out_split;
#pragma unroll
      for (int c = 0; c < kDv / 8; ++c)
        store_pair(out, 8 * c + 2 * (lane_ % 4), p_.dv, factor * sums_[block][c][2 * half],
                   factor * sums_[block][c][2 * half + 1]);
    });
  }

 private:
  using Weights = Product<kBlocks, kKeys>;

  /// Calls fn(block, half) for the rows of which this lane has elements.
  template <class Fn>
  __device__ static void for_rows(const Fn& fn) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half) fn(block, half);
  }
  /// Calls fn(weight, column) for the elements of a row, columns counted from the lane's first.
  template <class Fn>
  __device__ void for_elements(Weights& weights, int block, int half, const Fn& fn) const {
#pragma unroll
    for (int c = 0; c < kKeys / 8; ++c)
#pragma unroll
      for (int e = 0; e < 2; ++e) fn(weights[block][c][2 * half + e], 8 * c + e);
  }
  __device__ int row(int block, int half) const { return i0_ + 16 * block + 8 * half + lane_ / 4; }

  /// Replaces what is not seen.
  __device__ void hide(Sight sight, int j0, float by, Weights& weights) const {
    if (sight == Sight::all) return;
    const PairBits<16 * kBlocks, kKeys / 32> seen(
        [&](int query, int w) { return p_.mask.word(b_, h_, i0_ + query, j0 + 32 * w); });
    where_unset<kBlocks, kKeys / 32>(seen,
                                     [&](int block, int c, int e) { weights[block][c][e] = by; });
  }
  __device__ void drop(int j0, Weights& weights) const {
    const PairBits<16 * kBlocks, kKeys / 32> kept([&](int query, int w) {
      return kept_word(p_.dropout, p_.row_of(b_, h_, i0_ + query) * p_.n_k + j0 + 32 * w);
    });
    where_unset<kBlocks, kKeys / 32>(kept,
                                     [&](int block, int c, int e) { weights[block][c][e] = 0; });
  }

  /// Products -> logits.
  __device__ void take_logits(int j0, Weights& weights) const {
    if constexpr (takes_pair_numbers<Map>()) {
      if (has_pair_numbers<Map>(call_)) {
        const PairNumbers<Map> pairs(call_, b_, h_, row(0, 0), j0 + 2 * (lane_ % 4));
        for_rows([&](int block, int half) {
          const FastNumbers& numbers = score_.numbers(query_[block][half]);
          for_elements(weights, block, half, [&](float& x, int column) {
            x = score_.logit(pairs.with(numbers, 16 * block + 8 * half, column), x);
          });
        });
        return;
      }
    }
    for_rows([&](int block, int half) {
      const FastNumbers& numbers = score_.numbers(query_[block][half]);
      for_elements(weights, block, half, [&](float& x, int) { x = score_.logit(numbers, x); });
    });
  }

  /// Products -> weights relative to the largest so far; earlier sums are rescaled to it.
  __device__ void softmax(Sight sight, int j0, Weights& weights) {
    const float unit = score_.unit();
    take_logits(j0, weights);
    hide(sight, j0, -INFINITY, weights);
    for_rows([&](int block, int half) {
      float largest = largest_[block][half];
      for_elements(weights, block, half, [&](float& x, int) { largest = fmaxf(largest, x); });
      largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(all_lanes, largest, 2));
      const float shift = largest == -INFINITY ? 0 : largest * unit;
      const float correction = fast_exp2(fmaf(largest_[block][half], unit, -shift));
      largest_[block][half] = largest;
      float sum = 0;
      for_elements(weights, block, half, [&](float& x, int) {
        x = fast_exp2(fmaf(x, unit, -shift));
        sum += x;
      });
      total_[block][half] = fmaf(total_[block][half], correction, sum);
#pragma unroll
      for (int c = 0; c < kDv / 8; ++c)
#pragma unroll
        for (int e = 0; e < 2; ++e) sums_[block][c][2 * half + e] *= correction;
    });
  }

  /// Products -> weights without a softmax.
  __device__ void plain(Sight sight, int j0, Weights& weights) const {
    for_rows([&](int block, int half) {
      int element = 0;
      for_elements(weights, block, half, [&](float& x, int) {
        x = score_.template weight<(kDv <= 64)>(query_[block][half], x, element++);
      });
    });
    hide(sight, j0, 0, weights);
  }

  const FastScore<Map>& score_;
  const ForwardCall& call_;
  const AttentionProblem<float>& p_;
  int b_, h_, i0_, lane_;
  TileSights sights_;
  typename FastScore<Map>::Query query_[kBlocks][2];
  float largest_[kBlocks][2], total_[kBlocks][2];
  Product<kBlocks, kDv> sums_ = {};
};

/// The tiles of keys [begin, end) that are of a split.
__device__ inline int2 tiles_of_split(const IndexRange& keys, int tile, int splits, int split) {
  const int begin = static_cast<int>(keys.begin) / tile;
  const int end = ceil_div(static_cast<int>(keys.end), tile);
  const int each = ceil_div(max(end - begin, 0), splits);
  return {begin + split * each, min(begin + (split + 1) * each, end)};
}

/// Where a block is: tiles of queries are innermost, those with the most keys under a causal mask
/// first.
struct QueryTilePosition {
  int b, h, split, i0;

  template <class Problem>
  __device__ QueryTilePosition(const Problem& p, int splits, int queries) {
    const int tiles = ceil_div(p.n_q, queries);
    int index = static_cast<int>(blockIdx.x);
    i0 = (tiles - 1 - index % tiles) * queries;
    index /= tiles;
    split = index % splits;
    index /= splits;
    h = index % p.heads;
    b = index / p.heads;
  }
};

extern __shared__ __align__(1024) unsigned char tensor_shared[];

/// One block for each tile of queries of a head and each split.
template <class Map, int kD, int kDv>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_forward(const FastScore<Map> score, const ForwardCall call) {
  using Tile = ForwardTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const QueryTilePosition at(p, call.splits, Tile::queries);
  const std::int64_t matrix = std::int64_t{at.b} * p.heads + at.h;
  const std::int64_t shared = std::int64_t{at.b} * p.groups + p.group_of(at.h);
  const int first = static_cast<int>(threadIdx.x / 32) * 16 * Tile::blocks;  // of the warp
  const int2 tiles =
      tiles_of_split(p.mask.pattern().keys_of(at.i0, min(at.i0 + Tile::queries, p.n_q)), Tile::keys,
                     call.splits, at.split);

  const std::uint32_t queries = shared_address(tensor_shared);
  const std::uint32_t stages = queries + tile_bytes<kD>(Tile::queries);
  constexpr std::uint32_t stage_bytes = Tile::key_bytes + Tile::value_bytes;
  const auto copy_keys = [&](int tile, std::uint32_t to) {
    copy_tile<kD, Tile::keys, tensor_threads>(call.k.row(shared, tile * Tile::keys), to);
    copy_tile<kDv, Tile::keys, tensor_threads>(call.v.row(shared, tile * Tile::keys),
                                               to + Tile::key_bytes);
    commit_copies();
  };

  ForwardWarp<Map, kD, kDv> warp(score, call, at.b, at.h, at.i0 + first);
  const LeftRows<kD> rows(queries, first);
  HeldRows<kD, Tile::holds_queries ? Tile::blocks : 1> held;
  std::uint32_t stage = 0;
  if (tiles.x < tiles.y) {
    copy_tile<kD, Tile::queries, tensor_threads>(call.q.row(matrix, at.i0), queries);
    copy_keys(tiles.x, stages);
  }
  for (int tile = tiles.x; tile < tiles.y; ++tile) {
    wait_for_copies<0>();
    __syncthreads();
    const std::uint32_t keys = stages + stage * stage_bytes;
    stage ^= 1;
    if (tile + 1 < tiles.y) copy_keys(tile + 1, stages + stage * stage_bytes);
    if constexpr (Tile::holds_queries) {
      if (tile == tiles.x) held.load(rows);
      warp.add_keys(held, keys, keys + Tile::key_bytes, tile * Tile::keys);
    } else {
      warp.add_keys(rows, keys, keys + Tile::key_bytes, tile * Tile::keys);
    }
  }
  warp.store(at.split);
}

}  // namespace mobius::cuda
