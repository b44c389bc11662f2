// The selection of keys: for each query the keys of the largest products, of equal ones the
// earlier. The products of as many queries as a buffer of fixed size holds are ranked at a time: a
// launch of tiles writes them as whole numbers of the same order, another selects, by radix, a
// block a query. Counts are of whole numbers, so that the order of the threads does not matter.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/cuda/attention/plain_path.h"
#include "core/cuda/attention/tile.cuh"
#include "core/cuda/launch.cuh"

namespace mobius::cuda {
namespace {

/// A product as a whole number of the same order, 0 where the query does not see the key.
template <class T>
using Rank = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// No number but a NaN has the rank 0; zeros of both signs have one rank.
template <class T>
__device__ Rank<T> rank_of(T x) {
  constexpr Rank<T> sign = Rank<T>{1} << (8 * sizeof(T) - 1);
  const auto bits = std::bit_cast<Rank<T>>(x == 0 ? T{0} : x);
  return (bits & sign) != 0 ? ~bits : bits | sign;
}

template <class T>
struct TopkCall {
  AttentionProblem<T> problem;
  Rank<T>* ranks;           // [queries from the first tile on, Nk]
  std::int64_t first_tile;  // of the queries of all heads
  std::int32_t* keys;       // [B, H, Nq, K]
  int topk;

  __device__ TileOfHead tile(std::int64_t in_buffer) const {
    return {first_tile + in_buffer, problem.heads, ceil_div(problem.n_q, Tiling<T>::side)};
  }
};

/// Grid: tiles of keys, tiles of queries in the buffer.
template <class T, class Map>
__global__ void __launch_bounds__(Tiling<T>::threads)
    rank_kernel(const Map map, const TopkCall<T> call) {
  using Tile = Tiling<T>;
  __shared__ TileMemory<T> memory;
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead query_tile = call.tile(blockIdx.y);
  const TilePosition at{query_tile.b, query_tile.h, query_tile.tile * Tile::side,
                        static_cast<int>(blockIdx.x) * Tile::side};
  const TileSight<T> sight(p, at, memory);
  T products[4][4] = {};
  if (sight.sees_any()) {
    const TileRows<T> q(p.q, at.b, at.h, at.i0, p.n_q),
        k(p.k, at.b, p.group_of(at.h), at.j0, p.n_k);
    load_query_numbers(map, p, at, memory);
    tile_products(q, k, p.d, memory, products);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = piece_row<T>() + r;
    if (at.i0 + row >= p.n_q) break;
    const unsigned seen = sight.sees_any() ? sight.row(r) : 0u;
    const T factor = seen ? memory.query(row).factor : T{0};
    Rank<T>* const ranks =
        call.ranks + (static_cast<std::int64_t>(blockIdx.y) * Tile::side + row) * p.n_k;
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const int j = at.j0 + piece_column<T>() + s;
      if (j < p.n_k) ranks[j] = (seen >> s) & 1u ? rank_of(factor * products[r][s]) : Rank<T>{0};
    }
  }
}

constexpr int select_block = 256;
constexpr int digits = select_block;  // of a rank, 8 bits each: a thread counts one

/// What is known of the rank that parts the selected keys from the others: its upper digits, and
/// how many keys with those it takes.
template <class T>
struct Threshold {
  Rank<T> prefix;
  int wanted;
};

/// Exclusive sums of x over the threads of the block, and the sum of all.
struct BlockScan {
  int before, total;
};
__device__ BlockScan scan_block(int x, int (&of_warps)[select_block / warp_size]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  int sum = x;
  for (int offset = 1; offset < warp_size; offset *= 2) {
    const int lower = __shfl_up_sync(all_lanes, sum, offset);
    if (lane >= offset) sum += lower;
  }
  __syncthreads();
  if (lane == warp_size - 1) of_warps[threadIdx.x / warp_size] = sum;
  __syncthreads();
  BlockScan result{sum - x, 0};
  for (int w = 0; w < select_block / warp_size; ++w) {
    if (w < static_cast<int>(threadIdx.x) / warp_size) result.before += of_warps[w];
    result.total += of_warps[w];
  }
  return result;
}

/// The next digit of the threshold, from the number of keys that have each one.
template <class T>
__device__ Threshold<T> next_digit(const Rank<T>* ranks, int n, int shift,
                                   const Threshold<T>& known) {
  __shared__ int counts[digits], of_warps[select_block / warp_size];
  __shared__ Threshold<T> found;
  const int digit = static_cast<int>(threadIdx.x);
  counts[digit] = 0;
  __syncthreads();
  const bool is_first = shift + 8 == 8 * sizeof(T);
  for (int j = digit; j < n; j += select_block) {
    const Rank<T> rank = ranks[j];
    if (rank != 0 && (is_first || rank >> (shift + 8) == known.prefix))
      atomicAdd(&counts[(rank >> shift) & (digits - 1)], 1);
  }
  __syncthreads();
  const int count = counts[digit];
  const BlockScan scan = scan_block(count, of_warps);
  const int above = scan.total - scan.before - count;
  if (above < known.wanted && known.wanted <= above + count)
    found = {known.prefix << 8 | static_cast<Rank<T>>(digit), known.wanted - above};
  __syncthreads();
  return found;
}

/// Writes the keys above the threshold, and the first of those at it, in ascending order.
template <class T>
__device__ void write_selected(const Rank<T>* ranks, int n, const Threshold<T>& threshold,
                               std::int32_t* keys) {
  __shared__ int of_warps[select_block / warp_size];
  int written = 0, at_threshold = 0;
  for (int j0 = 0; j0 < n; j0 += select_block) {
    const int j = j0 + static_cast<int>(threadIdx.x);
    const Rank<T> rank = j < n ? ranks[j] : Rank<T>{0};
    const bool is_equal = rank == threshold.prefix;
    const BlockScan equal = scan_block(is_equal, of_warps);
    const bool is_selected =
        rank > threshold.prefix || (is_equal && at_threshold + equal.before < threshold.wanted);
    const BlockScan selected = scan_block(is_selected, of_warps);
    if (is_selected) keys[written + selected.before] = j;
    written += selected.total;
    at_threshold += equal.total;
  }
}

/// Grid: queries of the buffer.
template <class T>
__global__ void __launch_bounds__(select_block) select_kernel(const TopkCall<T> call) {
  using Tile = Tiling<T>;
  const AttentionProblem<T>& p = call.problem;
  const TileOfHead query_tile = call.tile(blockIdx.x / Tile::side);
  const int i = query_tile.tile * Tile::side + static_cast<int>(blockIdx.x % Tile::side);
  if (i >= p.n_q) return;
  const Rank<T>* const ranks = call.ranks + static_cast<std::int64_t>(blockIdx.x) * p.n_k;
  std::int32_t* const keys = call.keys + p.row_of(query_tile.b, query_tile.h, i) * call.topk;
  int n_seen = 0;
  for (int j = threadIdx.x; j < p.n_k; j += select_block) n_seen += ranks[j] != 0;
  const int n_selected = min(block_sum(n_seen), call.topk);
  if (n_selected > 0) {
    Threshold<T> threshold{0, n_selected};
    for (int shift = 8 * sizeof(T) - 8; shift >= 0; shift -= 8)
      threshold = next_digit<T>(ranks, p.n_k, shift, threshold);
    write_selected<T>(ranks, p.n_k, threshold, keys);
  }
  for (int r = n_selected + static_cast<int>(threadIdx.x); r < call.topk; r += select_block)
    keys[r] = p.n_k;
}

template <class Map, class T>
void select_keys(const Map& map, const AttentionProblem<T>& p, const Tensor& keys) {
  using Tile = Tiling<T>;
  constexpr std::int64_t buffer_size = 1 << 21;  // elements: 32k keys of a tile in f32
  const std::int64_t tiles =
      static_cast<std::int64_t>(p.batch) * p.heads * ceil_div(p.n_q, Tile::side);
  const std::int64_t tile_size = static_cast<std::int64_t>(p.n_k) * Tile::side;
  if (tiles == 0 || tile_size == 0) return;
  const std::int64_t at_once =
      std::clamp<std::int64_t>(buffer_size / tile_size, 1, std::min<std::int64_t>(tiles, 65535));
  const Tensor buffer = Tensor::empty({at_once * tile_size}, dtype_of<T>(), keys.device());
  for (std::int64_t first = 0; first < tiles; first += at_once) {
    const auto n = static_cast<unsigned>(std::min(at_once, tiles - first));
    const TopkCall<T> call{.problem = p,
                           .ranks = static_cast<Rank<T>*>(buffer.raw()),
                           .first_tile = first,
                           .keys = keys.data<std::int32_t>(),
                           .topk = static_cast<int>(keys.size(-1))};
    const auto key_tiles = static_cast<unsigned>(ceil_div(p.n_k, Tile::side));
    launch(rank_kernel<T, Map>, {.grid = dim3(key_tiles, n), .block = Tile::threads}, map, call);
    launch(select_kernel<T>, {.grid = n * Tile::side, .block = select_block}, call);
  }
}

}  // namespace

void attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& keys) {
  dispatch_real("attention_topk", inputs.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> problem(spec, inputs);
    scores::with_score(spec, [&](auto map, auto) { select_keys(map, problem, keys); });
  });
}

}  // namespace mobius::cuda
