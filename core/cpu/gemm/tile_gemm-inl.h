// Small matrix products on one thread, for operands in cache: the inner products of the attention
// kernel. oneDNN copies its operands before it multiplies, which costs as much as the product on
// tiles of a few dozen rows.
//
// Included once per instruction set (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_TILE_GEMM_INL_H_
#undef MOBIUS_CORE_CPU_TILE_GEMM_INL_H_
#else
#define MOBIUS_CORE_CPU_TILE_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Rows of C held in registers. With two vectors of columns they fill 24 of the 32 registers of
// AVX-512, or 12 of the 16 of AVX2.
constexpr std::int64_t panel_rows = HWY_TARGET == HWY_AVX3 ? 12 : 6;

// C[panel_rows, kVectors] (+)= A B over k; see tile_gemm.
template <int kVectors, class T>
HWY_INLINE void gemm_panel(std::int64_t k, const T* HWY_RESTRICT a, std::int64_t a_row,
                           std::int64_t a_col, const T* HWY_RESTRICT b, std::int64_t ldb,
                           bool accumulate, T* HWY_RESTRICT c, std::int64_t ldc) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums[panel_rows][kVectors];
  for (int i = 0; i < panel_rows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = accumulate ? hn::LoadU(d, c + i * ldc + v * lanes) : hn::Zero(d);
    }
  }
  for (std::int64_t p = 0; p < k; ++p) {
    V columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, b + p * ldb + v * lanes);
    for (int i = 0; i < panel_rows; ++i) {
      const V row = hn::Set(d, a[i * a_row + p * a_col]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::MulAdd(row, columns[v], sums[i][v]);
    }
  }
  for (int i = 0; i < panel_rows; ++i) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, c + i * ldc + v * lanes);
  }
}

/// Returns the columns of B that a register panel covers: two vectors.
template <class T>
std::int64_t panel_columns() {
  return 2 * static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// The operand B as panels of panel_columns() columns: rows are `row` apart, panels `panel` apart.
/// Packed panels are contiguous and are read sequentially. The rows of an unpacked matrix may be so
/// far apart that the rows of one panel compete for a few cache sets.
template <class T>
struct Panels {
  const T* data;
  std::int64_t row, panel;
};

/// Describes an unpacked matrix with rows ldb apart.
template <class T>
Panels<T> unpacked(const T* b, std::int64_t ldb) {
  return {b, ldb, panel_columns<T>()};
}

/// C[m, n] = A[m, k] B[k, n], or += if `accumulate`. Element (i, p) of A is a[i a_row + p a_col];
/// rows of C are dense, ldc apart. m is rounded up to panel_rows and n to a whole vector: A must be
/// readable and C writable up to the rounded m, B readable and C writable up to the rounded n.
template <class T>
void tile_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t a_row,
               std::int64_t a_col, const Panels<T>& b, bool accumulate, T* c, std::int64_t ldc) {
  const std::int64_t columns = panel_columns<T>(), lanes = columns / 2;
  const T* panel = b.data;
  std::int64_t j = 0;
  for (; j + lanes < n; j += columns, panel += b.panel) {
    for (std::int64_t i = 0; i < m; i += panel_rows) {
      gemm_panel<2>(k, a + i * a_row, a_row, a_col, panel, b.row, accumulate, c + i * ldc + j, ldc);
    }
  }
  if (j >= n) return;
  for (std::int64_t i = 0; i < m; i += panel_rows) {
    gemm_panel<1>(k, a + i * a_row, a_row, a_col, panel, b.row, accumulate, c + i * ldc + j, ldc);
  }
}

// out[c, r] = x[r, c] for one block of 16 bytes by 16 bytes.
HWY_INLINE void transpose_block(const float* x, std::int64_t ldx, float* out, std::int64_t ldo) {
  const hn::Full128<float> d;
  const auto a = hn::LoadU(d, x), b = hn::LoadU(d, x + ldx);
  const auto e = hn::LoadU(d, x + 2 * ldx), f = hn::LoadU(d, x + 3 * ldx);
  const auto ab_lower = hn::InterleaveLower(d, a, b), ab_upper = hn::InterleaveUpper(d, a, b);
  const auto ef_lower = hn::InterleaveLower(d, e, f), ef_upper = hn::InterleaveUpper(d, e, f);
  hn::StoreU(hn::ConcatLowerLower(d, ef_lower, ab_lower), d, out);
  hn::StoreU(hn::ConcatUpperUpper(d, ef_lower, ab_lower), d, out + ldo);
  hn::StoreU(hn::ConcatLowerLower(d, ef_upper, ab_upper), d, out + 2 * ldo);
  hn::StoreU(hn::ConcatUpperUpper(d, ef_upper, ab_upper), d, out + 3 * ldo);
}
HWY_INLINE void transpose_block(const double* x, std::int64_t ldx, double* out, std::int64_t ldo) {
  const hn::Full128<double> d;
  const auto a = hn::LoadU(d, x), b = hn::LoadU(d, x + ldx);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + ldo);
}

/// out[cols, rows] = x[rows, cols]^T; rows of each are dense, ldx and ldo apart.
template <class T>
void transpose_tile(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t ldx, T* out,
                    std::int64_t ldo) {
  constexpr std::int64_t block = 16 / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t whole_rows = rows / block * block, whole_cols = cols / block * block;
  for (std::int64_t r = 0; r < whole_rows; r += block) {
    for (std::int64_t c = 0; c < whole_cols; c += block)
      transpose_block(x + r * ldx + c, ldx, out + c * ldo + r, ldo);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = r < whole_rows ? whole_cols : 0; c < cols; ++c)
      out[c * ldo + r] = x[r * ldx + c];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
