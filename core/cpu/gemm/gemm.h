// Matrix products as a grid of tiles, each computed by one thread. The tile borders, and with them
// every bit of the result, depend on the shape and not on the thread count.
// Legend: out[M, N] = a[M, K] b[K, N].
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/dtype.h"

namespace mobius {

/// A strided matrix: element (i, j) is data[i * row_stride + j * col_stride].
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

/// The type in which products of T are summed.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

/// Calls `fn(TypeTag<T>{})` for f32, f64 or bf16; throws Error naming `op` for any other type.
template <class Fn>
void dispatch_operand(std::string_view op, DType dtype, Fn&& fn) {
  if (dtype == DType::bf16) return fn(TypeTag<BFloat16>{});
  dispatch_real(op, dtype, fn);
}

/// c[m, n] = a b (+= if `accumulate`), on the calling thread; k > 0. Rows of c are `ldc` apart. f32
/// and bf16 use oneDNN and require operands that are dense along rows or along columns
/// (is_gemm_operand); f64 takes any strides. bf16 requires isa_has_bf16_products().
void gemm_tile(const GemmShape& shape, MatrixView<const float> a, MatrixView<const float> b,
               bool accumulate, float* c, std::int64_t ldc);
void gemm_tile(const GemmShape& shape, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b,
               bool accumulate, float* c, std::int64_t ldc);
void gemm_tile(const GemmShape& shape, MatrixView<const double> a, MatrixView<const double> b,
               bool accumulate, double* c, std::int64_t ldc);

/// Pads the product of a[m, k] and b[k, n] to an even k: holds copies of both and, if k is odd,
/// appends a column of zeros to a and a row of zeros to b. The sums are unchanged.
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

/// The partition of one product. Tiles are tile_m x tile_n; the k range is split into `k_chunks`
/// pieces of `chunk_k`, whose partial products are added in order.
struct GemmPlan {
  std::int64_t tile_m, tile_n, chunk_k;
  std::int64_t tiles_m, tiles_n, k_chunks;

  std::int64_t tiles() const { return tiles_m * tiles_n; }
};

/// Plans `batch` concurrent products of this shape and operand type. `may_split_k` allows
/// k_chunks > 1.
GemmPlan plan_gemm(std::int64_t batch, const GemmShape& shape, DType operands, bool may_split_k);

/// A tile of the [R, N] result of MatmulKernels::linear.
struct LinearTile {
  std::int64_t row, rows, col, cols;
};

}  // namespace mobius
