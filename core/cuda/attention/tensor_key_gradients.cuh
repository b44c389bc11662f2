// The gradients of keys and values on tensor cores: see tensor_backward.cuh. A block keeps a tile
// of keys; the queries of all heads that share them pass by, head after head.
#pragma once

#include "core/cuda/attention/tensor_backward.cuh"

namespace mobius::cuda {

/// The tile of a block: what fits in 255 registers and 99 KiB of shared memory. With the widest
/// rows the columns of the gradients are dealt to `parts` blocks, each of which makes the weights.
template <int kD, int kDv>
struct KeyGradientTile {
  static constexpr int blocks = kD <= 64 ? 2 : 1;  // of 16 keys a warp
  static constexpr int keys = 16 * blocks * (tensor_threads / 32);
  static constexpr int parts = kD <= 128 ? 1 : 2;
  static constexpr int queries = kD == 64 || kD > 128 ? 16 : 32;  // of the products
  static constexpr int staged = kD <= 64    ? 64
                                : kD <= 128 ? 32
                                            : 16;  // of a stage, in steps of those
  static constexpr int steps = staged / queries;
  static constexpr int key_bytes = tile_bytes<kD>(keys), value_bytes = tile_bytes<kDv>(keys);
  static constexpr int query_bytes = tile_bytes<kD>(staged), grad_bytes = tile_bytes<kDv>(staged);
  template <class Map>
  static constexpr int row_bytes = query_kinds<Map>() * staged * 4;
  template <class Map>
  static constexpr int stage_bytes = query_bytes + grad_bytes + round_up(row_bytes<Map>, 1024);
  template <class Map>
  static constexpr int shared_bytes = key_bytes + value_bytes + 2 * stage_bytes<Map>;
};

/// The keys of one warp.
template <class Map, int kD, int kDv>
class KeyGradientWarp {
 public:
  using Tile = KeyGradientTile<kD, kDv>;
  static constexpr int kBlocks = Tile::blocks, kQueries = Tile::queries;
  static constexpr int kColumns = kD / Tile::parts, kValueColumns = kDv / Tile::parts;

  __device__ KeyGradientWarp(const FastScore<Map>& score, const BackwardCall& call, int b, int g,
                             int j0, int part)
      : score_(score),
        call_(call),
        p_(call.problem),
        b_(b),
        g_(g),
        j0_(j0),
        part_(part),
        lane_(threadIdx.x % 32),
        sights_(TileSights::of_queries(p_.mask, j0, j0 + 16 * kBlocks)) {}

  /// Adds the queries [i0, i0 + kQueries) of head h, given their tiles and rows in shared memory.
  __device__ void add_queries(const LeftRows<kD>& keys, const LeftRows<kDv>& values,
                              std::uint32_t queries, std::uint32_t grad_out, const float* rows,
                              int h, int i0) {
    const Sight sight = sights_.at(i0, i0 + kQueries);
    if (sight == Sight::none) return;
    Weights weights = {}, grads = {};
    add_product_transposed<kD, kBlocks, kQueries>(keys, queries, weights);
    add_product_transposed<kDv, kBlocks, kQueries>(values, grad_out, grads);
    with_elements<Map>(call_, sight != Sight::all || p_.dropout.is_on, [&](auto elements) {
      through_weights<decltype(elements)>(sight, rows, h, i0, weights, grads);
    });
    add_product<kDv, kBlocks, kQueries, kValueColumns>(weights, grad_out, part_ * kValueColumns,
                                                       grad_v_);
    add_product<kD, kBlocks, kQueries, kColumns>(grads, queries, part_ * kColumns, grad_k_);
  }

  __device__ void store() const {
    const float keep = p_.dropout.is_on ? static_cast<float>(p_.dropout.keep) : 1.0f;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int j = j0_ + 16 * block + 8 * half + lane_ / 4;
        const std::int64_t row = p_.key_of(b_, g_, j);
        store_number_sums<Map>(NumberOf::key, call_.grad_numbers, sums_[block][half], row,
                               part_ == 0 && j < p_.n_k);
        if (j >= p_.n_k) continue;
        store_row<kColumns>(grad_k_[block], half, 1, p_.d, call_.grad_k + row * p_.d);
        store_row<kValueColumns>(grad_v_[block], half, keep, p_.dv, call_.grad_v + row * p_.dv);
      }
  }

 private:
  using Weights = Product<kBlocks, kQueries>;

  template <int kWidth>
  __device__ void store_row(const float (&sums)[kWidth / 8][4], int half, float factor, int n,
                            float* to) const {
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c)
      store_pair(to, part_ * kWidth + 8 * c + 2 * (lane_ % 4), n, factor * sums[c][2 * half],
                 factor * sums[c][2 * half + 1]);
  }

  /// The numbers of the query in a column of the tile.
  __device__ static FastNumbers numbers_of(const float* rows, int column) {
    constexpr AttentionOperands<NumberUse> uses = Map::uses;
    FastNumbers numbers;
    int kind = QueryRows::numbers;
    scores::for_each_number(
        [&](const NumberKind& what, const NumberUse& use, Number<float>& x) {
          if (what.of == NumberOf::query && use.is_taken && !use.multiplies_query)
            x.value = rows[kind++ * Tile::staged + column];
        },
        uses, numbers);
    return numbers;
  }

  /// Products -> weights, d loss / d weights -> d loss / d products.
  template <class Elements>
  __device__ void through_weights(Sight sight, const float* rows, int h, int i0, Weights& weights,
                                  Weights& grads) {
    using Bits = PairBits<kQueries, 1>;
    const auto all = [](int, int) { return ~0u; };
    const auto seen_of = [&](int query, int) {
      return sight == Sight::all ? ~0u : p_.mask.word(b_, h, i0 + query, j0_);
    };
    const auto kept_of = [&](int query, int) {
      return p_.dropout.is_on ? kept_word(p_.dropout, p_.row_of(b_, h, i0 + query) * p_.n_k + j0_)
                              : ~0u;
    };
    const PairNumbers<Map> pairs(call_, b_, h, i0 + 2 * (lane_ % 4), j0_ + lane_ / 4);
    const Bits seen = Elements::is_masked ? Bits(seen_of) : Bits(all);
    const Bits kept = Elements::is_masked ? Bits(kept_of) : Bits(all);
#pragma unroll
    for (int c = 0; c < kQueries / 8; ++c)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = 8 * c + 2 * (lane_ % 4) + e;
        const FastRow row{rows[QueryRows::log2_sum * Tile::staged + column],
                          rows[QueryRows::mean * Tile::staged + column]};
        const FastNumbers of_query = numbers_of(rows, column);
        std::uint32_t seen_keys = ~0u, kept_keys = ~0u;
        if constexpr (Elements::is_masked) {
          seen_keys = seen.at(0, 8 * c, 2 * (lane_ % 4) + e) >> (lane_ / 4);
          kept_keys = kept.at(0, 8 * c, 2 * (lane_ % 4) + e) >> (lane_ / 4);
        }
#pragma unroll
        for (int s = 0; s < 2 * kBlocks; ++s) {  // rows
          float& weight = weights[s / 2][c][2 * (s % 2) + e];
          float& grad = grads[s / 2][c][2 * (s % 2) + e];
          FastNumbers numbers = of_query;
          if constexpr (Elements::has_pairs) numbers = pairs.with(numbers, 8 * c + e, 8 * s);
          AttentionOperands<float> of_numbers;
          const FastGradient pair = dropped_gradient<Elements>(
              score_, p_.dropout, numbers, row, weight, grad, (seen_keys >> (8 * s) & 1u) != 0,
              (kept_keys >> (8 * s) & 1u) != 0, of_numbers);
          weight = pair.weight;
          grad = pair.grad_product;
          if constexpr (Elements::has_pairs)
            add_number_sums<Map>(NumberOf::key, of_numbers, sums_[s / 2][s % 2]);
        }
      }
  }

  const FastScore<Map>& score_;
  const BackwardCall& call_;
  const AttentionProblem<float>& p_;
  int b_, g_, j0_, part_, lane_;
  TileSights sights_;
  Product<kBlocks, kColumns> grad_k_ = {};
  Product<kBlocks, kValueColumns> grad_v_ = {};
  AttentionOperands<float> sums_[kBlocks][2];  // over the queries
};

extern __shared__ __align__(1024) unsigned char tensor_shared[];

/// One block for each tile of keys of a key/value head, and each part of the columns.
template <class Map, int kD, int kDv>
__global__ void __launch_bounds__(tensor_threads, 2)
    tensor_key_gradients(const FastScore<Map> score, const BackwardCall call) {
  using Tile = KeyGradientTile<kD, kDv>;
  const AttentionProblem<float>& p = call.problem;
  const int tiles = ceil_div(p.n_k, Tile::keys);
  int index = static_cast<int>(blockIdx.x);
  const int part = index % Tile::parts;
  index /= Tile::parts;
  const int j0 = index % tiles * Tile::keys;
  const int shared_head = index / tiles, g = shared_head % p.groups, b = shared_head / p.groups;
  const int first = static_cast<int>(threadIdx.x / 32) * 16 * Tile::blocks;  // of the warp

  // The stages of queries that see the keys, of one head after the other.
  const IndexRange seen_by = p.mask.pattern().queries_of(j0, min(j0 + Tile::keys, p.n_k));
  const int first_stage = static_cast<int>(seen_by.begin) / Tile::staged;
  const int per_head = max(ceil_div(static_cast<int>(seen_by.end), Tile::staged) - first_stage, 0);
  const int per_group = p.heads / p.groups;

  const std::uint32_t keys = shared_address(tensor_shared), values = keys + Tile::key_bytes;
  constexpr int stages = Tile::key_bytes + Tile::value_bytes;
  constexpr int stage_bytes = Tile::template stage_bytes<Map>;
  const auto copy_queries = [&](int visit) {
    const int h = g * per_group + visit / per_head;
    const int i0 = (first_stage + visit % per_head) * Tile::staged;
    const std::int64_t head = std::int64_t{b} * p.heads + h;
    const std::uint32_t to = keys + stages + visit % 2 * stage_bytes;
    copy_tile<kD, Tile::staged, tensor_threads>(call.q.row(head, i0), to);
    copy_tile<kDv, Tile::staged, tensor_threads>(call.grad_out.row(head, i0),
                                                 to + Tile::query_bytes);
    constexpr int quads = Tile::staged / 4;  // of four numbers
    const int quad = static_cast<int>(threadIdx.x);
    if (quad < query_kinds<Map>() * quads)
      copy_async_16(to + Tile::query_bytes + Tile::grad_bytes + quad * 16,
                    call.rows.of(quad / quads) + head * call.q.rows + i0 + quad % quads * 4);
    commit_copies();
  };

  KeyGradientWarp<Map, kD, kDv> warp(score, call, b, g, j0 + first, part);
  const LeftRows<kD> key_rows(keys, first);
  const LeftRows<kDv> value_rows(values, first);
  if (per_head > 0) {
    copy_tile<kD, Tile::keys, tensor_threads>(call.k.row(shared_head, j0), keys);
    copy_tile<kDv, Tile::keys, tensor_threads>(call.v.row(shared_head, j0), values);
    copy_queries(0);
  }
  for (int visit = 0; visit < per_head * per_group; ++visit) {
    wait_for_copies<0>();
    __syncthreads();
    if (visit + 1 < per_head * per_group) copy_queries(visit + 1);
    const int h = g * per_group + visit / per_head;
    const int i0 = (first_stage + visit % per_head) * Tile::staged;
    const int stage = stages + visit % 2 * stage_bytes;
    const auto* const rows = reinterpret_cast<const float*>(tensor_shared + stage +
                                                            Tile::query_bytes + Tile::grad_bytes);
#pragma unroll 1
    for (int step = 0; step < Tile::steps; ++step) {
      const std::uint32_t queries = keys + stage + step * tile_bytes<kD>(Tile::queries);
      const std::uint32_t grad_out =
          keys + stage + Tile::query_bytes + step * tile_bytes<kDv>(Tile::queries);
      warp.add_queries(key_rows, value_rows, queries, grad_out, rows + step * Tile::queries, h,
                       i0 + step * Tile::queries);
    }
  }
  warp.store();
}

}  // namespace mobius::cuda
