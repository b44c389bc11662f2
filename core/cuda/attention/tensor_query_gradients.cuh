// The gradients of queries and of what belongs to them on tensor cores: see tensor_backward.cuh. A
// block keeps a tile of queries; the tiles of keys that they see pass by.
//
// Gradients of distances, wanted rarely, are sums over diagonals: of each product tile through
// shared memory, over the tiles of a block in memory of the block's own, and over blocks by
// add_diagonals() in tensor_path.cu.
#pragma once

#include "core/cuda/attention/tensor_backward.cuh"

namespace mobius::cuda {

/// The tile of a block: what fits in 255 registers and 99 KiB of shared memory.
template <int kD, int kDv>
struct QueryGradientTile {
  static constexpr int blocks = kD <= 64 ? 2 : 1;   // of 16 queries a warp
  static constexpr int keys = kD <= 128 ? 32 : 16;  // of the products
  static constexpr int steps = kD <= 128 ? 2 : 1;   // of so many keys each in a stage
  static constexpr int staged = steps * keys;
  static constexpr bool holds_queries = kD <= 32 || kD == 128;
  static constexpr int queries = 16 * blocks * (tensor_threads / 32);
  static constexpr int query_bytes = tile_bytes<kD>(queries);
  static constexpr int grad_bytes = tile_bytes<kDv>(queries);
  static constexpr int key_bytes = tile_bytes<kD>(staged), value_bytes = tile_bytes<kDv>(staged);
  static constexpr int stage_bytes = key_bytes + value_bytes;
  static constexpr int shared_bytes = query_bytes + grad_bytes + 2 * stage_bytes;
  static constexpr int pair_bytes = queries * keys * 4;  // behind the rest, for diagonals
};

struct QueryGradientCall : BackwardCall {
  explicit QueryGradientCall(const BackwardCall& call) : BackwardCall(call) {}

  int first_tile = 0, tiles = 0;  // of queries
  /// [B, H, tiles, width], zeros before: entry j - (i - i0) + queries - 1 of a tile of `queries`
  /// from i0 on becomes the sum of the gradients of distance_bias of its pairs. Null if unwanted.
  float* diagonals = nullptr;
  int diagonal_width = 0;
};

/// The queries of one warp.
template <class Map, int kD, int kDv>
class QueryGradientWarp {
 public:
  using Tile = QueryGradientTile<kD, kDv>;
  static constexpr int kBlocks = Tile::blocks, kKeys = Tile::keys;

  __device__ QueryGradientWarp(const FastScore<Map>& score, const QueryGradientCall& call, int b,
                               int h, int i0)
      : score_(score),
        call_(call),
        p_(call.problem),
        b_(b),
        h_(h),
        i0_(i0),
        lane_(threadIdx.x % 32),
        sights_(TileSights::of_keys(p_.mask, i0, i0 + 16 * kBlocks)) {
    for_rows([&](int block, int half) {
      const int i = row(block, half);
      const std::int64_t at = (std::int64_t{b} * p_.heads + h) * call_.q.rows + i;
      row_[block][half] = {call_.rows.of(QueryRows::log2_sum)[at],
                           call_.rows.of(QueryRows::mean)[at]};
      numbers_[block][half] = fast_numbers(score_, p_, b, h, i);
    });
  }

  /// Adds the keys [j0, j0 + kKeys), given their tiles in shared memory. Unless `pairs` is null, it
  /// gets the gradients of the distances of the warp's pairs, [16 kBlocks, kKeys].
  template <class Queries, class Grads>
  __device__ void add_keys(const Queries& queries, const Grads& grad_out, std::uint32_t keys,
                           std::uint32_t values, int j0, float* pairs) {
    const Sight sight = sights_.at(j0, j0 + kKeys);
    if (sight == Sight::none) {
      for (int at = lane_; pairs && at < 16 * kBlocks * kKeys; at += 32) pairs[at] = 0;
      return;
    }
    Weights weights = {}, grads = {};
    add_product_transposed<kD, kBlocks, kKeys>(queries, keys, weights);
    add_product_transposed<kDv, kBlocks, kKeys>(grad_out, values, grads);
    with_elements<Map>(call_, sight != Sight::all || p_.dropout.is_on, [&](auto elements) {
      through_weights<decltype(elements)>(sight, j0, weights, grads, pairs);
    });
    add_product<kD, kBlocks, kKeys, kD>(grads, keys, 0, sums_);
  }

  __device__ void store() const {
    for_rows([&](int block, int half) {
      const int i = row(block, half);
      const std::int64_t at = p_.row_of(b_, h_, i);
      store_number_sums<Map>(NumberOf::query, call_.grad_numbers, number_sums_[block][half], at,
                             i < p_.n_q);
      store_factor_gradient(block, half);
      if (i >= p_.n_q) return;
      const float factor = query_numbers(score_.map, p_, b_, h_, i).factor;
      float* const to = call_.grad_q + at * p_.d;
#pragma unroll
      for (int c = 0; c < kD / 8; ++c)
        store_pair(to, 8 * c + 2 * (lane_ % 4), p_.d, factor * sums_[block][c][2 * half],
                   factor * sums_[block][c][2 * half + 1]);
    });
  }

  __device__ int row(int block, int half) const { return i0_ + 16 * block + 8 * half + lane_ / 4; }

 private:
  using Weights = Product<kBlocks, kKeys>;

  template <class Fn>
  __device__ static void for_rows(const Fn& fn) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half) fn(block, half);
  }

  /// The gradient of a number that is in the factor of the query: that of the factor is
  /// <q_i, d loss / d (factor q_i)>.
  __device__ void store_factor_gradient(int block, int half) const {
    if constexpr (Map::scales_queries) {
      constexpr AttentionOperands<NumberUse> uses = Map::uses;
      const int i = row(block, half);
      scores::for_each_number(
          [&](const NumberKind&, const NumberUse& use, float* grad) {
            if (!use.multiplies_query || !grad) return;
            float sum = 0;
            if (i < p_.n_q) {
              const float* const q = p_.q.row(b_, h_, i);
#pragma unroll
              for (int s = 0; s < kD / 4; ++s) {
                const int column = s / 2 * 8 + 2 * (lane_ % 4) + s % 2;
                if (column < p_.d)
                  sum = fmaf(q[column], sums_[block][s / 2][2 * half + s % 2], sum);
              }
            }
            sum = warp_sum<4>(sum);
            if (i < p_.n_q && lane_ % 4 == 0)
              grad[p_.row_of(b_, h_, i)] = score_.map.query_factor_gradient(sum);
          },
          uses, call_.grad_numbers);
    }
  }

  /// Products -> weights, d loss / d weights -> d loss / d products.
  template <class Elements>
  __device__ void through_weights(Sight sight, int j0, Weights& weights, Weights& grads,
                                  float* pairs) {
    constexpr int words = ceil_div(kKeys, 32);
    using Bits = PairBits<16 * kBlocks, words>;
    const auto all = [](int, int) { return ~0u; };
    const auto seen_of = [&](int query, int w) {
      return sight == Sight::all ? ~0u : p_.mask.word(b_, h_, i0_ + query, j0 + 32 * w);
    };
    const auto kept_of = [&](int query, int w) {
      return p_.dropout.is_on
                 ? kept_word(p_.dropout, p_.row_of(b_, h_, i0_ + query) * p_.n_k + j0 + 32 * w)
                 : ~0u;
    };
    const PairNumbers<Map> pair_numbers(call_, b_, h_, row(0, 0), j0 + 2 * (lane_ % 4));
    const Bits seen = Elements::is_masked ? Bits(seen_of) : Bits(all);
    const Bits kept = Elements::is_masked ? Bits(kept_of) : Bits(all);
    for_rows([&](int block, int half) {
      std::uint32_t seen_keys[words], kept_keys[words];
#pragma unroll
      for (int w = 0; w < words; ++w) {
        seen_keys[w] = kept_keys[w] = ~0u;
        if constexpr (Elements::is_masked) {
          seen_keys[w] = seen.at(w, 16 * block, 8 * half + lane_ / 4) >> (2 * (lane_ % 4));
          kept_keys[w] = kept.at(w, 16 * block, 8 * half + lane_ / 4) >> (2 * (lane_ % 4));
        }
      }
#pragma unroll
      for (int s = 0; s < kKeys / 4; ++s) {  // columns
        float& weight = weights[block][s / 2][2 * half + s % 2];
        float& grad = grads[block][s / 2][2 * half + s % 2];
        const int bit = s / 2 % 4 * 8 + s % 2;
        FastNumbers numbers = numbers_[block][half];
        if constexpr (Elements::has_pairs)
          numbers = pair_numbers.with(numbers, 16 * block + 8 * half, s / 2 * 8 + s % 2);
        AttentionOperands<float> of_numbers;
        const FastGradient pair = dropped_gradient<Elements>(
            score_, p_.dropout, numbers, row_[block][half], weight, grad,
            (seen_keys[s / 8] >> bit & 1u) != 0, (kept_keys[s / 8] >> bit & 1u) != 0, of_numbers);
        grad = pair.grad_product;
        add_number_sums<Map>(NumberOf::query, of_numbers, number_sums_[block][half]);
        if constexpr (Elements::has_pairs) {
          if (pairs)
            pairs[(16 * block + 8 * half + lane_ / 4) * kKeys + s / 2 * 8 + 2 * (lane_ % 4) +
                  s % 2] = of_numbers.distance_bias;
        }
      }
    });
  }

  const FastScore<Map>& score_;
  const QueryGradientCall& call_;
  const AttentionProblem<float>& p_;
  int b_, h_, i0_, lane_;
  TileSights sights_;
  FastRow row_[kBlocks][2];
  FastNumbers numbers_[kBlocks][2];
  Product<kBlocks, kD> sums_ = {};
  AttentionOperands<float> number_sums_[kBlocks][2];  // over the keys
};

/// to[j0 + t] += the sum over diagonal t of pairs[kQueries, kKeys], by all threads of the block.
template <int kQueries, int kKeys>
__device__ void add_diagonals_of_tile(const float* pairs, float* to) {
  __syncthreads();
  for (int t = static_cast<int>(threadIdx.x); t < kQueries + kKeys - 1; t += tensor_threads) {
    const int begin = max(kQueries - 1 - t, 0), end = min(kQueries + kKeys - 1 - t, kQueries);
    float sum = 0;
    for (int row = begin; row < end; ++row) sum += pairs[row * kKeys + t - (kQueries - 1) + row];
    to[t] += sum;
  }
  __syncthreads();
}

extern __shared__ __align__(1024) unsigned char tensor_shared[];

/// One block for each tile of queries of a head.
template <class Map, int kD, int kDv>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_query_gradients(const FastScore<Map> score, const QueryGradientCall call) {
  using Tile = QueryGradientTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const int block = static_cast<int>(blockIdx.x), matrix = block / call.tiles;
  const int b = matrix / p.heads, h = matrix % p.heads;
  const int i0 = (call.first_tile + block % call.tiles) * Tile::queries;
  const std::int64_t shared_head = std::int64_t{b} * p.groups + p.group_of(h);
  const int first = static_cast<int>(threadIdx.x / 32) * 16 * Tile::blocks;  // of the warp
  const IndexRange seen = p.mask.pattern().keys_of(i0, min(i0 + Tile::queries, p.n_q));
  const int begin = static_cast<int>(seen.begin) / Tile::staged;
  const int end = ceil_div(static_cast<int>(seen.end), Tile::staged);

  const std::uint32_t queries = shared_address(tensor_shared);
  const std::uint32_t grad_out = queries + Tile::query_bytes;
  const std::uint32_t stages = grad_out + Tile::grad_bytes;
  float* const pairs =
      call.diagonals ? reinterpret_cast<float*>(tensor_shared + Tile::shared_bytes) : nullptr;
  const auto copy_keys = [&](int tile, std::uint32_t to) {
    copy_tile<kD, Tile::staged, tensor_threads>(call.k.row(shared_head, tile * Tile::staged), to);
    copy_tile<kDv, Tile::staged, tensor_threads>(call.v.row(shared_head, tile * Tile::staged),
                                                 to + Tile::key_bytes);
    commit_copies();
  };

  QueryGradientWarp<Map, kD, kDv> warp(score, call, b, h, i0 + first);
  const LeftRows<kD> query_rows(queries, first);
  const LeftRows<kDv> grad_rows(grad_out, first);
  HeldRows<kD, Tile::holds_queries ? Tile::blocks : 1> held_queries;
  std::uint32_t stage = 0;
  if (begin < end) {
    copy_tile<kD, Tile::queries, tensor_threads>(call.q.row(matrix, i0), queries);
    copy_tile<kDv, Tile::queries, tensor_threads>(call.grad_out.row(matrix, i0), grad_out);
    copy_keys(begin, stages);
  }
  for (int tile = begin; tile < end; ++tile) {
    wait_for_copies<0>();
    __syncthreads();
    if constexpr (Tile::holds_queries) {
      if (tile == begin) held_queries.load(query_rows);
    }
    const std::uint32_t keys = stages + stage * Tile::stage_bytes;
    stage ^= 1;
    if (tile + 1 < end) copy_keys(tile + 1, stages + stage * Tile::stage_bytes);
#pragma unroll 1
    for (int step = 0; step < Tile::steps; ++step) {
      const std::uint32_t step_keys = keys + step * tile_bytes<kD>(Tile::keys);
      const std::uint32_t step_values = keys + Tile::key_bytes + step * tile_bytes<kDv>(Tile::keys);
      const int j0 = tile * Tile::staged + step * Tile::keys;
      float* const warp_pairs = pairs ? pairs + first * Tile::keys : nullptr;
      if constexpr (Tile::holds_queries)
        warp.add_keys(held_queries, grad_rows, step_keys, step_values, j0, warp_pairs);
      else
        warp.add_keys(query_rows, grad_rows, step_keys, step_values, j0, warp_pairs);
      if (pairs)
        add_diagonals_of_tile<Tile::queries, Tile::keys>(
            pairs, call.diagonals + std::int64_t{block} * call.diagonal_width + j0);
    }
  }
  warp.store();
}

}  // namespace mobius::cuda
