// Rows of a table by index: gather and its adjoint, scatter-add. Both are copies or additions of
// whole rows, which the compiler vectorises well; what matters is how they are shared out.
#include "core/cpu/rows.h"

#include <algorithm>
#include <cstring>

#include "core/cpu/kernels.h"
#include "core/ops/rows.h"
#include "core/parallel.h"
#include "core/round.h"

namespace mobius {
namespace {

template <class I>
void gather(const std::byte* table, std::size_t row_bytes, const I* index, std::int64_t begin,
            std::int64_t end, std::byte* out) {
  for (std::int64_t r = begin; r < end; ++r) {
    std::memcpy(out + static_cast<std::size_t>(r) * row_bytes,
                table + static_cast<std::size_t>(index[r]) * row_bytes, row_bytes);
  }
}

// A block of the table that one thread owns: rows [first, last), columns [left, right).
struct TableBlock {
  std::int64_t first, last, left, right;
};

// Adds what falls into the block, in the order of r.
template <class T, class I>
void scatter_into(const TableBlock& block, const T* rows, const I* index, std::int64_t n_rows,
                  std::int64_t d, T* table) {
  const std::int64_t width = block.right - block.left;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const std::int64_t i = static_cast<std::int64_t>(index[r]);
    if (i < block.first || i >= block.last) continue;
    const T* __restrict from = rows + r * d + block.left;
    T* __restrict to = table + i * d + block.left;
    for (std::int64_t j = 0; j < width; ++j) to[j] += from[j];
  }
}

class CpuRows final : public RowsKernels {
 public:
  void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) override {
    if (out.numel() == 0) return;
    const std::int64_t d = table.size(1);
    const std::size_t row_bytes = static_cast<std::size_t>(d) * size_of(table.dtype());
    dispatch_index("gather_rows", index.dtype(), [&](auto tag) {
      const auto* const indices = index.data<typename decltype(tag)::type>();
      parallel_for(index.numel(), row_grain(d), [&](std::int64_t begin, std::int64_t end) {
        gather(static_cast<const std::byte*>(table.raw()), row_bytes, indices, begin, end,
               static_cast<std::byte*>(out.raw()));
      });
    });
  }

  // The table is cut into blocks that one thread each fills, so that no addition depends on another
  // thread. Every block reads all indices: 16 blocks cost little beside the rows themselves.
  // Cutting columns too keeps threads busy when most rows go to one entry (a padding token).
  void scatter_add_rows(const Tensor& rows, const Tensor& index, const Tensor& table) override {
    if (rows.numel() == 0) return;
    const std::int64_t v = table.size(0), d = table.size(1), n_rows = index.numel();
    const std::int64_t row_step = ceil_div(v, 8),
                       col_step = std::max<std::int64_t>(64, ceil_div(d, 2));
    const std::int64_t row_blocks = ceil_div(v, row_step);
    const std::int64_t col_blocks = ceil_div(d, col_step);
    dispatch_real("scatter_add_rows", table.dtype(), [&](auto value) {
      using T = typename decltype(value)::type;
      dispatch_index("scatter_add_rows", index.dtype(), [&](auto tag) {
        const auto* const indices = index.data<typename decltype(tag)::type>();
        parallel_for(row_blocks * col_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t first = i / col_blocks * row_step, left = i % col_blocks * col_step;
            const TableBlock block{first, std::min(v, first + row_step), left,
                                   std::min(d, left + col_step)};
            scatter_into(block, rows.data<T>(), indices, n_rows, d, table.data<T>());
          }
        });
      });
    });
  }
};

}  // namespace

RowsKernels& cpu_rows_kernels() {
  static CpuRows kernels;
  return kernels;
}

}  // namespace mobius
