// Tiles of bf16 in shared memory, and products of theirs on tensor cores.
//
// A tile is rows of kWidth elements whose 16-byte chunks are permuted within the row, so that eight
// rows of an 8 x 8 matrix lie in different banks: an ldmatrix of four matrices takes the four
// passes that its 512 bytes need. Tiles start at multiples of their row's size.
//
// A warp's product tile is kBlocks x 16 rows: float[kBlocks][columns / 8][4], laid out in the warp
// as multiply_add() says.
#pragma once

#include "core/cuda/attention/mma.cuh"

namespace mobius::cuda {

/// What a row's chunk numbers are permuted by. Rows of 64 bytes share the banks by twos.
template <int kWidth>
__device__ __forceinline__ std::uint32_t chunk_swap(std::uint32_t row) {
  return kWidth == 32 ? row / 2 % 4 : row % 8;
}

template <int kWidth>
constexpr int tile_bytes(int rows) {
  return rows * kWidth * 2;
}

/// Starts to copy `kRows` dense rows into a tile, by all threads of the block.
template <int kWidth, int kRows, int kThreads>
__device__ __forceinline__ void copy_tile(const __nv_bfloat16* from, std::uint32_t tile) {
  constexpr unsigned chunks = kWidth / 8, total = kRows * chunks;
#pragma unroll
  for (unsigned first = 0; first < total; first += kThreads) {
    const unsigned i = first + threadIdx.x;
    if (total % kThreads != 0 && i >= total) break;
    const unsigned row = i / chunks, chunk = i % chunks;
    copy_async_16(tile + row * (kWidth * 2) + ((chunk ^ chunk_swap<kWidth>(row)) << 4),
                  from + i * 8);
  }
}

/// Where a lane reads a tile from: four adjacent 8 x 8 matrices, two rows of matrices high. Lanes
/// 8..15 point to the lower left matrix (`down_first`) or to the upper right one.
template <int kWidth>
class TileReader {
 public:
  __device__ __forceinline__ TileReader(std::uint32_t tile, bool down_first) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t a = lane / 8 % 2, b = lane / 16;
    const std::uint32_t row = lane % 8 + 8 * (down_first ? a : b);
    const std::uint32_t chunk = down_first ? b : a;
    address_ = tile + row * (kWidth * 2) + ((chunk ^ chunk_swap<kWidth>(row)) << 4);
  }
  /// The address for the 16 x 16 elements from row `row` and column `column`, multiples of 16.
  __device__ __forceinline__ std::uint32_t at(int row, int column) const {
    return (address_ ^ static_cast<std::uint32_t>(column * 2)) +
           static_cast<std::uint32_t>(row * kWidth * 2);
  }

 private:
  std::uint32_t address_;
};

/// Rows of a tile as the left operand of a product: a[16 kBlocks, kWidth], from row `first` on.
template <int kWidth>
struct LeftRows {
  TileReader<kWidth> reader;

  __device__ __forceinline__ LeftRows(std::uint32_t tile, int first)
      : reader(tile + first * (kWidth * 2), true) {}
  __device__ __forceinline__ Matrices operator()(int block, int k) const {
    return load_matrices(reader.at(16 * block, 16 * k));
  }
};

/// The same, kept in registers.
template <int kWidth, int kBlocks>
struct HeldRows {
  Matrices part[kBlocks][kWidth / 16];

  __device__ __forceinline__ void load(const LeftRows<kWidth>& rows) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int k = 0; k < kWidth / 16; ++k) part[block][k] = rows(block, k);
  }
  __device__ __forceinline__ const Matrices& operator()(int block, int k) const {
    return part[block][k];
  }
};

template <int kBlocks, int kColumns>
using Product = float[kBlocks][kColumns / 8][4];

/// sum[16 kBlocks, kColumns] += a[16 kBlocks, kWidth] tile[kColumns, kWidth]^T.
template <int kWidth, int kBlocks, int kColumns, class Left>
__device__ __forceinline__ void add_product_transposed(const Left& a, std::uint32_t tile,
                                                       Product<kBlocks, kColumns>& sum) {
  const TileReader<kWidth> b(tile, false);
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    Matrices left[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) left[block] = a(block, k);
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      const Matrices right = load_matrices(b.at(column, 16 * k));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_add(sum[block][column / 8], left[block], right.part[0], right.part[1]);
        multiply_add(sum[block][column / 8 + 1], left[block], right.part[2], right.part[3]);
      }
    }
  }
}

/// 16 columns of a product tile, rounded, as the left operand of the next product.
__device__ __forceinline__ Matrices rounded(const float (&left)[4], const float (&right)[4]) {
  return {{pack_bf16(left[0], left[1]), pack_bf16(left[2], left[3]), pack_bf16(right[0], right[1]),
           pack_bf16(right[2], right[3])}};
}

/// sum[16 kBlocks, kColumns] += weights[16 kBlocks, kInner] tile[kInner, from `first` kColumns of
/// kWidth columns]; the weights are rounded.
template <int kWidth, int kBlocks, int kInner, int kColumns>
__device__ __forceinline__ void add_product(const Product<kBlocks, kInner>& weights,
                                            std::uint32_t tile, int first,
                                            Product<kBlocks, kColumns>& sum) {
  const TileReader<kWidth> b(tile, true);
#pragma unroll
  for (int k = 0; k < kInner / 16; ++k) {
    Matrices left[kBlocks];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
      left[block] = rounded(weights[block][2 * k], weights[block][2 * k + 1]);
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      const Matrices right = load_matrices_transposed(b.at(16 * k, first + column));
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_add(sum[block][column / 8], left[block], right.part[0], right.part[1]);
        multiply_add(sum[block][column / 8 + 1], left[block], right.part[2], right.part[3]);
      }
    }
  }
}

}  // namespace mobius::cuda
