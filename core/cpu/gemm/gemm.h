// Matrix products as a grid of tiles that one thread each computes: the border of every tile, and
// with it every bit of the result, depends on the shape alone and never on the thread count.
// Legend: out[M, N] = a[M, K] b[K, N].
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/dtype.h"

namespace mobius {

/// A matrix somewhere in memory: element (i, j) is data[i * row_stride + j * col_stride].
template <class T>
struct MatrixView {
  T* data;
  std::int64_t row_stride;
  std::int64_t col_stride;

  MatrixView from(std::int64_t row, std::int64_t col) const {
    return {data + row * row_stride + col * col_stride, row_stride, col_stride};
  }
};

struct GemmShape {
  std::int64_t m, n, k;
};

/// In what products of T are summed.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

/// Calls `fn(TypeTag<T>{})` for the types of operands; throws Error naming `op` for any other type.
template <class Fn>
void dispatch_operand(std::string_view op, DType dtype, Fn&& fn) {
  if (dtype == DType::bf16) return fn(TypeTag<BFloat16>{});
  dispatch_real(op, dtype, fn);
}

/// c[m, n] = a b (+= when `accumulate`), on the calling thread alone; k > 0. Rows of c are `ldc`
/// apart. f32 and bf16 go to oneDNN and ask for operands dense along rows or along columns
/// (is_gemm_operand); f64 takes any strides. bf16 asks for isa_has_bf16_products().
void gemm_tile(const GemmShape& shape, MatrixView<const float> a, MatrixView<const float> b,
               bool accumulate, float* c, std::int64_t ldc);
void gemm_tile(const GemmShape& shape, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b,
               bool accumulate, float* c, std::int64_t ldc);
void gemm_tile(const GemmShape& shape, MatrixView<const double> a, MatrixView<const double> b,
               bool accumulate, double* c, std::int64_t ldc);

/// The product of a[m, k] and b[k, n] as one with an even k: copies of both, with a column and a
/// row of zeros behind where k is odd. Its sums are the same.
class EvenProduct {
 public:
  EvenProduct(const GemmShape& shape, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b);

  const GemmShape shape;
  MatrixView<const BFloat16> left() const { return {left_.data(), shape.k, 1}; }
  MatrixView<const BFloat16> right() const { return {right_.data(), shape.n, 1}; }

 private:
  std::vector<BFloat16> left_, right_;
};

/// Whether gemm_tile takes a [rows, cols] matrix with these strides.
bool is_gemm_operand(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                     std::int64_t col_stride);

/// How one product is cut. Tiles are tile_m x tile_n; the k range is cut into `k_chunks` pieces of
/// `chunk_k`, whose partial products are added in order.
struct GemmPlan {
  std::int64_t tile_m, tile_n, chunk_k;
  std::int64_t tiles_m, tiles_n, k_chunks;

  std::int64_t tiles() const { return tiles_m * tiles_n; }
};

/// `batch` products of this shape run side by side, of operands of this type. `may_split_k` allows
/// k_chunks > 1.
GemmPlan plan_gemm(std::int64_t batch, const GemmShape& shape, DType operands, bool may_split_k);

/// A piece of the [R, N] result of MatmulKernels::linear.
struct LinearTile {
  std::int64_t row, rows, col, cols;
};

}  // namespace mobius
