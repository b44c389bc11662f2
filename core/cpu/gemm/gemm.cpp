#include "core/cpu/gemm/gemm.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/cpu/simd/isa.h"
#include "core/error.h"
#include "core/round.h"

namespace mobius {
namespace {

// Returns the side of the fewest equal tiles that are at most `longest`: 768 rows make two tiles
// of 384, because 512 and 256 would leave one of two threads waiting.
std::int64_t even_tile(std::int64_t side, std::int64_t longest) {
  return side <= longest ? side : round_up(ceil_div(side, ceil_div(side, longest)), 16);
}

// Keeps oneDNN on one thread outside of parallel regions. The order of its additions is fixed only
// if it does not share a product among the threads of OpenMP.
class SingleThreaded {
 public:
  SingleThreaded() : threads_(omp_get_max_threads()) {
    if (threads_ != 1) omp_set_num_threads(1);
  }
  ~SingleThreaded() {
    if (threads_ != 1) omp_set_num_threads(threads_);
  }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int threads_;
};

// A matrix as BLAS describes it: the rows of a matrix that is not transposed are dense.
struct BlasOperand {
  char transposed;
  std::int64_t leading;
};

BlasOperand blas_operand(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                         std::int64_t col_stride) {
  if (cols == 1 || col_stride == 1) {
    if (rows == 1 || row_stride >= cols) return {'N', rows == 1 ? cols : row_stride};
  }
  if (rows == 1 || row_stride == 1) {
    if (cols == 1 || col_stride >= rows) return {'T', cols == 1 ? rows : col_stride};
  }
  return {'?', 0};
}

dnnl::memory::desc describe(std::int64_t rows, std::int64_t cols, MatrixView<const BFloat16> x) {
  using dnnl::memory;
  const BlasOperand operand = blas_operand(rows, cols, x.row_stride, x.col_stride);
  const memory::dims strides = operand.transposed == 'T' ? memory::dims{1, operand.leading}
                                                         : memory::dims{operand.leading, 1};
  return memory::desc({rows, cols}, memory::data_type::bf16, strides);
}

// Copies x[rows, cols] to the upper left of a dense all_rows x all_cols matrix of zeros.
std::vector<BFloat16> amid_zeros(MatrixView<const BFloat16> x, std::int64_t rows, std::int64_t cols,
                                 std::int64_t all_rows, std::int64_t all_cols) {
  std::vector<BFloat16> copy(static_cast<std::size_t>(all_rows * all_cols));
  for (std::int64_t i = 0; i < rows; ++i) {
    BFloat16* const row = copy.data() + i * all_cols;
    for (std::int64_t j = 0; j < cols; ++j) row[j] = *x.from(i, j).data;
  }
  return copy;
}

dnnl::post_ops add_to_result() {
  dnnl::post_ops steps;
  steps.append_sum();
  return steps;
}

}  // namespace

bool is_gemm_operand(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                     std::int64_t col_stride) {
  return blas_operand(rows, cols, row_stride, col_stride).transposed != '?';
}

void gemm_tile(const GemmShape& s, MatrixView<const float> a, MatrixView<const float> b,
               bool accumulate, float* c, std::int64_t ldc) {
  const BlasOperand oa = blas_operand(s.m, s.k, a.row_stride, a.col_stride);
  const BlasOperand ob = blas_operand(s.k, s.n, b.row_stride, b.col_stride);
  const SingleThreaded guard;
  const dnnl_status_t status =
      dnnl_sgemm(oa.transposed, ob.transposed, s.m, s.n, s.k, 1.0f, a.data, oa.leading, b.data,
                 ob.leading, accumulate ? 1.0f : 0.0f, c, std::max(ldc, s.n));
  if (status != dnnl_success) {
    throw Error("matmul: oneDNN refused a {} x {} x {} product (status {})", s.m, s.k, s.n,
                static_cast<int>(status));
  }
}

EvenProduct::EvenProduct(const GemmShape& s, MatrixView<const BFloat16> a,
                         MatrixView<const BFloat16> b)
    : shape{s.m, s.n, s.k + s.k % 2},
      left_(amid_zeros(a, s.m, s.k, s.m, shape.k)),
      right_(amid_zeros(b, s.k, s.n, shape.k, s.n)) {}

// AMX multiplies rows of the right operand in pairs. With an odd k, oneDNN's kernels execute an
// illegal instruction for some shapes (its issue 1661), such as k = 63, m > 64 with m mod 64 in
// 1 ... 16, n < 64 and not a multiple of 16. This function therefore never passes an odd k.
// Making the primitive at each call takes 2 us: oneDNN caches the code of the last thousand
// shapes. It packs operands as needed, so plain layouts are as fast as packed ones.
void gemm_tile(const GemmShape& s, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b,
               bool accumulate, float* c, std::int64_t ldc) {
  if (s.k % 2 != 0 && isa_has_amx()) {
    const EvenProduct even(s, a, b);
    return gemm_tile(even.shape, even.left(), even.right(), accumulate, c, ldc);
  }
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const SingleThreaded guard;
  try {
    const dnnl::memory::desc left = describe(s.m, s.k, a), right = describe(s.k, s.n, b);
    const dnnl::memory::desc result({s.m, s.n}, dnnl::memory::data_type::f32,
                                    {std::max(ldc, s.n), 1});
    dnnl::primitive_attr attributes;
    if (accumulate) attributes.set_post_ops(add_to_result());
    const dnnl::matmul product({{left, right, result}, attributes, engine});
    dnnl::stream stream(engine);
    product.execute(stream, {{DNNL_ARG_SRC, {left, engine, const_cast<BFloat16*>(a.data)}},
                             {DNNL_ARG_WEIGHTS, {right, engine, const_cast<BFloat16*>(b.data)}},
                             {DNNL_ARG_DST, {result, engine, c}}});
  } catch (const dnnl::error& error) {
    throw Error("matmul: oneDNN refused a {} x {} x {} product of bf16 ({})", s.m, s.k, s.n,
                error.message);
  }
}

// Tiles of 512 rows reach the speed of one large product: oneDNN packs both operands at every
// call, and smaller tiles pack too often. If there are too few tiles for the threads, the plan
// splits a long k first (weight gradients with a small result), then columns down to 512, then
// rows (tiles with all columns pack their rows only once), then a shorter k, then the longer side.
// It stops before a tile has too little work for a thread.
GemmPlan plan_gemm(std::int64_t batch, const GemmShape& s, DType operands, bool may_split_k) {
  // A bf16 product is twice as fast, so packing takes a larger share of it.
  const bool is_quick = operands == DType::bf16;
  const std::int64_t wanted_tiles = is_quick ? 8 : 16, few_rows = is_quick ? 256 : 128;
  constexpr std::int64_t wanted_k_tiles = 8, long_k = 2048, short_k = 1024, many_columns = 512;
  constexpr std::int64_t min_multiply_adds = std::int64_t{1} << 24;

  GemmPlan plan{even_tile(s.m, 512), even_tile(s.n, 2048), s.k, 0, 0, 1};
  const auto count_tiles = [&] {
    plan.tiles_m = ceil_div(s.m, plan.tile_m);
    plan.tiles_n = ceil_div(s.n, plan.tile_n);
    plan.k_chunks = s.k == 0 ? 1 : ceil_div(s.k, plan.chunk_k);
    return batch * plan.tiles() * plan.k_chunks;
  };
  const auto split_k = [&](std::int64_t wanted, std::int64_t least) {
    if (!may_split_k || count_tiles() >= wanted || s.k < 2 * least) return;
    const std::int64_t chunks = std::min(ceil_div(wanted, count_tiles()), s.k / least);
    plan.chunk_k = round_up(ceil_div(s.k, chunks), 64);
  };
  const auto may_halve = [&] {
    return count_tiles() < wanted_tiles &&
           plan.tile_m * plan.tile_n * plan.chunk_k >= 2 * min_multiply_adds;
  };
  const auto halve = [](std::int64_t side) { return round_up(ceil_div(side, 2), 16); };

  split_k(wanted_k_tiles, long_k);
  if (plan.chunk_k < s.k && count_tiles() >= wanted_k_tiles) return plan;
  while (plan.tile_n > many_columns && may_halve()) plan.tile_n = halve(plan.tile_n);
  while (plan.tile_m > few_rows && may_halve())
    plan.tile_m = std::max(few_rows, halve(plan.tile_m));
  if (plan.chunk_k == s.k && may_halve()) split_k(wanted_tiles, short_k);
  while (may_halve() && std::max(plan.tile_m, plan.tile_n) > 64) {
    std::int64_t& side = plan.tile_n >= plan.tile_m ? plan.tile_n : plan.tile_m;
    side = halve(side);
  }
  count_tiles();
  return plan;
}

}  // namespace mobius
