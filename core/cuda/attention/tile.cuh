// A tile of queries against a tile of keys, in one block: what the passes of the f32/f64 path
// share.
//
// A block has side^2 / 16 threads, each with a 4 x 4 piece of the tile. Operands come into shared
// memory in slices, of the head dimension for the products <q_i, k_j> and of the rows for the sums
// that the weights make of them, so that one kernel serves all head dimensions. A product is one
// chain of fused multiply-adds in the order of the head dimension: the same bits in every kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda/attention/score_math.cuh"
#include "core/cuda/reduce.cuh"
#include "core/round.h"

namespace mobius::cuda {

template <class T>
struct Tiling {
  static constexpr int side = sizeof(T) == 4 ? 64 : 32;  // queries, and keys, of a tile
  static constexpr int quads = side / 4;                 // adjacent lanes share four rows
  static constexpr int threads = quads * quads;
  static constexpr int slice = 32;
  static constexpr int columns = 2 * side;  // of the weighted sums of a block
  static constexpr int words = side / 32;   // of seen keys of a query
  // The pitch of a transposed slice: stores of lanes on adjacent rows and columns, and loads of
  // four adjacent rows, then touch every bank once.
  static constexpr int pitch = side + 4;
};

/// Four adjacent elements of shared memory.
template <class T>
struct alignas(16) Quad {
  T x[4];
};

/// The shared memory of a block.
template <class T>
struct TileMemory {
  using Tile = Tiling<T>;
  static constexpr int operands_size = 2 * Tile::slice * Tile::pitch > Tile::slice* Tile::columns
                                           ? 2 * Tile::slice* Tile::pitch
                                           : Tile::slice* Tile::columns;

  alignas(16) T operands[operands_size];
  alignas(16) T weights[Tile::side * Tile::side];
  alignas(
      16) unsigned char queries[Tile::side * sizeof(QueryNumbers<T>)];  // made by no constructor
  std::uint32_t seen[Tile::side * Tile::words];

  /// Weights (k, m) to (k, m + 3), m a multiple of 4: of operand row k in the sums of row m. The
  /// quads of a row are permuted, so that adjacent lanes that write rows 4 apart hit other banks.
  __device__ Quad<T>& weights_at(int k, int m) {
    const int quad = (m / 4) ^ (k / 4);
    return *reinterpret_cast<Quad<T>*>(weights + k * Tile::side + quad * 4);
  }
  __device__ QueryNumbers<T>& query(int row) {
    return reinterpret_cast<QueryNumbers<T>*>(queries)[row];
  }
  __device__ T weight_at(int k, int m) { return weights_at(k, m - m % 4).x[m % 4]; }
};

/// The first row and the first column of this thread's piece of a tile.
template <class T>
__device__ int piece_row() {
  return static_cast<int>(threadIdx.x) / Tiling<T>::quads * 4;
}
template <class T>
__device__ int piece_column() {
  return static_cast<int>(threadIdx.x) % Tiling<T>::quads * 4;
}

// Registers have no index at run time: what a loop over the rows of a piece reads or writes of its
// row is selected. The loops are not unrolled where their code is long, that of a score map.

/// x[r].
template <class X>
__device__ X pick(const X (&x)[4], int r) {
  const X low = r == 0 ? x[0] : x[1], high = r == 2 ? x[2] : x[3];
  return r < 2 ? low : high;
}
/// x[r] = value.
template <class X>
__device__ void put(X (&x)[4], int r, X value) {
#pragma unroll
  for (int at = 0; at < 4; ++at) x[at] = at == r ? value : x[at];
}

/// This thread's piece of a tile in shared memory, for such a loop: no other thread reads it.
template <class T>
class SharedPiece {
 public:
  /// `tile` is [side, side].
  __device__ SharedPiece(const T (&piece)[4][4], T* tile)
      : first_(tile + piece_row<T>() * Tiling<T>::side + piece_column<T>()) {
#pragma unroll
    for (int r = 0; r < 4; ++r) row(r) = {piece[r][0], piece[r][1], piece[r][2], piece[r][3]};
  }
  __device__ Quad<T>& row(int r) {
    return *reinterpret_cast<Quad<T>*>(first_ + r * Tiling<T>::side);
  }
  __device__ void read(T (&piece)[4][4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const Quad<T> quad = row(r);
#pragma unroll
      for (int s = 0; s < 4; ++s) piece[r][s] = quad.x[s];
    }
  }

 private:
  T* first_;
};

/// The rows of a tile of an operand: `count` of them exist, the others count as 0.
template <class T>
struct TileRows {
  const T* data;
  std::int64_t stride;
  int count;

  /// The tile from row i of the n rows of a head.
  __device__ TileRows(const HeadRows<const T>& rows, int b, int h, int i, int n)
      : data(rows.row(b, h, i)), stride(rows.row_stride), count(min(n - i, Tiling<T>::side)) {}
};

/// to[c][r] = element c0 + c of row r, c < width, 0 where there is no row. A warp reads whole
/// sectors of several rows.
template <class T>
__device__ void load_transposed(const TileRows<T>& rows, int c0, int width, T* to) {
  using Tile = Tiling<T>;
  constexpr int sector = 32 / sizeof(T);
  const int size = round_up(width, sector) * Tile::side;
#pragma unroll 4
  for (int at = threadIdx.x; at < size; at += Tile::threads) {
    const int c = at / (sector * Tile::side) * sector + at % sector;
    const int r = at / sector % Tile::side;
    if (c < width)
      to[c * Tile::pitch + r] = r < rows.count ? rows.data[r * rows.stride + c0 + c] : T{0};
  }
}

/// to[r][c] = element c0 + c of row r0 + r, r < count, 0 where there is no column.
template <class T>
__device__ void load_rows(const TileRows<T>& rows, int r0, int count, int c0, int width, T* to) {
  using Tile = Tiling<T>;
#pragma unroll 4
  for (int at = threadIdx.x; at < count * Tile::columns; at += Tile::threads) {
    const int r = at / Tile::columns, c = at % Tile::columns;
    to[at] = c < width ? rows.data[(r0 + r) * rows.stride + c0 + c] : T{0};
  }
}

/// product[r][s] = <row r of a, row s of b> of this thread's piece, 0 where one does not exist.
template <class T>
__device__ void tile_products(const TileRows<T>& a, const TileRows<T>& b, int depth,
                              TileMemory<T>& memory, T (&product)[4][4]) {
  using Tile = Tiling<T>;
  T* const a_slice = memory.operands;
  T* const b_slice = memory.operands + Tile::slice * Tile::pitch;
  const int row = piece_row<T>(), column = piece_column<T>();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int s = 0; s < 4; ++s) product[r][s] = 0;
  for (int c0 = 0; c0 < depth; c0 += Tile::slice) {
    const int width = min(depth - c0, Tile::slice);
    __syncthreads();
    load_transposed(a, c0, width, a_slice);
    load_transposed(b, c0, width, b_slice);
    __syncthreads();
    if (row >= a.count || column >= b.count) continue;
#pragma unroll 4
    for (int c = 0; c < width; ++c) {
      const Quad<T> x = *reinterpret_cast<const Quad<T>*>(a_slice + c * Tile::pitch + row);
      const Quad<T> y = *reinterpret_cast<const Quad<T>*>(b_slice + c * Tile::pitch + column);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int s = 0; s < 4; ++s) product[r][s] = ::fma(x.x[r], y.x[s], product[r][s]);
    }
  }
}

/// A block's sums of `columns` columns of an operand, for a tile of rows: this thread's are at its
/// four rows, and in each half of the columns at its four columns.
template <class T>
struct WeightedSums {
  T of[4][2][4] = {};

  /// Adds, for `rows` rows m, sum_k weights (k, m) x_k, over the columns [c0, c0 + width) of x.
  __device__ void add(int rows, const TileRows<T>& x, int c0, int width, TileMemory<T>& memory) {
    using Tile = Tiling<T>;
    const int row = piece_row<T>(), column = piece_column<T>();
    for (int k0 = 0; k0 < x.count; k0 += Tile::slice) {
      const int count = min(x.count - k0, Tile::slice);
      __syncthreads();
      load_rows(x, k0, count, c0, width, memory.operands);
      __syncthreads();
      if (row >= rows || column >= width) continue;
#pragma unroll 2
      for (int k = 0; k < count; ++k) {
        const Quad<T> w = memory.weights_at(k0 + k, row);
        const T* const at = memory.operands + k * Tile::columns + column;
        add_row<0>(w, at);
        if (Tile::side + column < width) add_row<1>(w, at + Tile::side);
      }
    }
  }

  __device__ void scale_rows(const T (&factors)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int s = 0; s < 4; ++s) of[r][half][s] *= factors[r];
  }

  /// Writes row r of this thread to columns [c0, c0 + width) of a row of memory.
  __device__ void store_row(int r, T* to, int c0, int width) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const int c = half * Tiling<T>::side + piece_column<T>() + s;
        if (c < width) to[c0 + c] = of[r][half][s];
      }
  }

 private:
  template <int half>
  __device__ void add_row(const Quad<T>& weights, const T* at) {
    const Quad<T> x = *reinterpret_cast<const Quad<T>*>(at);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int s = 0; s < 4; ++s) of[r][half][s] = ::fma(weights.x[r], x.x[s], of[r][half][s]);
  }
};

/// Lays this thread's piece down as the weights of keys in sums of queries.
template <class T>
__device__ void store_for_queries(const T (&piece)[4][4], TileMemory<T>& memory) {
  const int row = piece_row<T>(), column = piece_column<T>();
  __syncthreads();
#pragma unroll
  for (int s = 0; s < 4; ++s)
    memory.weights_at(column + s, row) = {piece[0][s], piece[1][s], piece[2][s], piece[3][s]};
}
/// The same as the weights of queries in sums of keys.
template <class T>
__device__ void store_for_keys(const T (&piece)[4][4], TileMemory<T>& memory) {
  const int row = piece_row<T>(), column = piece_column<T>();
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 4; ++r)
    memory.weights_at(row + r, column) = {piece[r][0], piece[r][1], piece[r][2], piece[r][3]};
}

/// The tile of queries from i0 and keys from j0 of one head.
struct TilePosition {
  int b, h, i0, j0;
};

/// Puts the numbers of a tile's queries into shared memory, for all threads after a barrier.
template <class Map, class T>
__device__ void load_query_numbers(const Map& map, const AttentionProblem<T>& p,
                                   const TilePosition& at, TileMemory<T>& memory) {
  const int row = static_cast<int>(threadIdx.x);
  if (row < Tiling<T>::side) memory.query(row) = query_numbers(map, p, at.b, at.h, at.i0 + row);
}

/// Which pairs of a tile are seen.
template <class T>
class TileSight {
 public:
  using Tile = Tiling<T>;

  /// All threads of the block must come here, and get the same answer of sees_any().
  __device__ TileSight(const AttentionProblem<T>& p, const TilePosition& at, TileMemory<T>& memory)
      : words_(memory.seen),
        sight_(p.mask.tile(at.i0, at.i0 + Tile::side, at.j0, at.j0 + Tile::side)) {
    if (sight_ != Sight::some) return;
    __syncthreads();
    std::uint32_t any = 0;
    for (int w = threadIdx.x; w < Tile::side * Tile::words; w += Tile::threads) {
      const std::uint32_t word =
          p.mask.word(at.b, at.h, at.i0 + w / Tile::words, at.j0 + w % Tile::words * 32);
      words_[w] = word;
      any |= word;
    }
    if (!__syncthreads_or(any != 0)) sight_ = Sight::none;
  }

  __device__ bool sees_any() const { return sight_ != Sight::none; }
  /// Bit s: whether this thread's query r sees its key s.
  __device__ unsigned row(int r) const {
    if (sight_ == Sight::all) return 15u;
    const int column = piece_column<T>();
    const std::uint32_t word = words_[(piece_row<T>() + r) * Tile::words + column / 32];
    return (word >> (column % 32)) & 15u;
  }

 private:
  std::uint32_t* words_;
  Sight sight_;
};

/// A call's block number as a tile of a head, the tiles of a head being adjacent.
struct TileOfHead {
  int b, h, tile;

  __device__ TileOfHead(std::int64_t block, int heads, int tiles)
      : b(static_cast<int>(block / tiles / heads)),
        h(static_cast<int>(block / tiles % heads)),
        tile(static_cast<int>(block % tiles)) {}
};

/// The factors of dropout of this thread's four keys of query i.
template <class T>
__device__ void piece_dropout(const AttentionProblem<T>& p, const TilePosition& at, int i,
                              T (&factors)[4]) {
  const std::int64_t first = p.row_of(at.b, at.h, i) * p.n_k + at.j0 + piece_column<T>();
  dropout_factors(p.dropout, static_cast<std::uint64_t>(first), factors);
}

}  // namespace mobius::cuda
