// The f64 tile of a matrix product, after Goto and van de Geijn ("Anatomy of high-performance
// matrix multiplication", 2008). Blocks of a and b are packed into panels in the order of use, and
// a block of c of 6 rows by 2 vectors stays in registers during the loop over k. Packing reads any
// strides, so transposed operands cost no more than plain ones.
// Contract: c is overwritten (=), or added to (+=) if `accumulate`; no alignment is assumed.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/gemm/gemm_f64.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "core/cpu/gemm/gemm.h"
#include "core/round.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

constexpr std::int64_t micro_rows = 6;
// A panel of b (block_k x 2 vectors) fits L1, a block of a fits L2, a block of b fits L3.
constexpr std::int64_t block_m = 96, block_k = 256, block_n = 512;

// Packs panels of `width` rows of a (columns of b). A panel holds `width` adjacent elements for
// each k; missing ones are 0. Element (i, k) of the source is at i * step + k * step_k.
void pack(const double* source, std::int64_t step, std::int64_t step_k, std::int64_t n,
          std::int64_t k, std::int64_t width, double* HWY_RESTRICT packed) {
  for (std::int64_t first = 0; first < n; first += width) {
    const std::int64_t used = std::min(width, n - first);
    const double* panel = source + first * step;
    for (std::int64_t p = 0; p < k; ++p, packed += width) {
      for (std::int64_t i = 0; i < used; ++i) packed[i] = panel[i * step + p * step_k];
      for (std::int64_t i = used; i < width; ++i) packed[i] = 0;
    }
  }
}

// c[rows, 2 vectors] = or += panel of a times panel of b; c has `width` columns.
HWY_INLINE void micro_kernel(std::int64_t k, const double* HWY_RESTRICT a,
                             const double* HWY_RESTRICT b, bool accumulate, double* HWY_RESTRICT c,
                             std::int64_t ldc, std::int64_t rows, std::int64_t width) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V c00 = hn::Zero(d), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  V c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  for (std::int64_t p = 0; p < k; ++p, a += micro_rows, b += 2 * lanes) {
    const V b0 = hn::Load(d, b), b1 = hn::Load(d, b + lanes);
    const auto row = [&](double scalar, V& left, V& right) HWY_ATTR {
      const V ai = hn::Set(d, scalar);
      left = hn::MulAdd(ai, b0, left);
      right = hn::MulAdd(ai, b1, right);
    };
    row(a[0], c00, c01);
    row(a[1], c10, c11);
    row(a[2], c20, c21);
    row(a[3], c30, c31);
    row(a[4], c40, c41);
    row(a[5], c50, c51);
  }
  HWY_ALIGN double block[micro_rows * 2 * hn::MaxLanes(D())];
  const auto put = [&](std::int64_t i, V left, V right) HWY_ATTR {
    hn::Store(left, d, block + i * 2 * lanes);
    hn::Store(right, d, block + i * 2 * lanes + lanes);
  };
  put(0, c00, c01);
  put(1, c10, c11);
  put(2, c20, c21);
  put(3, c30, c31);
  put(4, c40, c41);
  put(5, c50, c51);
  for (std::int64_t i = 0; i < rows; ++i, c += ldc) {
    const double* from = block + i * 2 * lanes;
    if (accumulate) {
      for (std::int64_t j = 0; j < width; ++j) c[j] += from[j];
    } else {
      for (std::int64_t j = 0; j < width; ++j) c[j] = from[j];
    }
  }
}

void multiply_block(std::int64_t m, std::int64_t n, std::int64_t k, const double* packed_a,
                    const double* packed_b, bool accumulate, double* c, std::int64_t ldc) {
  const std::int64_t micro_cols = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  for (std::int64_t j = 0; j < n; j += micro_cols) {
    for (std::int64_t i = 0; i < m; i += micro_rows) {
      micro_kernel(k, packed_a + i * k, packed_b + j * k, accumulate, c + i * ldc + j, ldc,
                   std::min(micro_rows, m - i), std::min(micro_cols, n - j));
    }
  }
}

void gemm_tile_f64(const GemmShape& s, const MatrixView<const double>& a,
                   const MatrixView<const double>& b, bool accumulate, double* c,
                   std::int64_t ldc) {
  const std::int64_t micro_cols = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t k_size = std::min(block_k, s.k);
  const std::int64_t a_size = round_up(std::min(block_m, s.m), micro_rows) * k_size;
  const std::int64_t b_size = round_up(std::min(block_n, s.n), micro_cols) * k_size;
  const auto packed_b = hwy::AllocateAligned<double>(static_cast<std::size_t>(b_size));
  const auto packed_a = hwy::AllocateAligned<double>(static_cast<std::size_t>(a_size));
  for (std::int64_t col = 0; col < s.n; col += block_n) {
    const std::int64_t n = std::min(block_n, s.n - col);
    for (std::int64_t k0 = 0; k0 < s.k; k0 += block_k) {
      const std::int64_t k = std::min(block_k, s.k - k0);
      const MatrixView<const double> b_block = b.from(k0, col);
      pack(b_block.data, b_block.col_stride, b_block.row_stride, n, k, micro_cols, packed_b.get());
      for (std::int64_t row = 0; row < s.m; row += block_m) {
        const std::int64_t m = std::min(block_m, s.m - row);
        const MatrixView<const double> a_block = a.from(row, k0);
        pack(a_block.data, a_block.row_stride, a_block.col_stride, m, k, micro_rows,
             packed_a.get());
        multiply_block(m, n, k, packed_a.get(), packed_b.get(), accumulate || k0 > 0,
                       c + row * ldc + col, ldc);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {
namespace {
HWY_EXPORT(gemm_tile_f64);
}  // namespace

void gemm_tile(const GemmShape& shape, MatrixView<const double> a, MatrixView<const double> b,
               bool accumulate, double* c, std::int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(gemm_tile_f64)(shape, a, b, accumulate, c, ldc);
}

}  // namespace mobius
#endif  // HWY_ONCE
