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

// to[j] += rows[position][j] for the positions of one bucket, in their order.
template <class T>
void add_bucket(const T* rows, const std::int64_t* begin, const std::int64_t* end, std::int64_t d,
                std::int64_t width, T* __restrict to) {
  for (; begin != end; ++begin) {
    const T* __restrict from = rows + *begin * d;
    for (std::int64_t j = 0; j < width; ++j) to[j] += from[j];
  }
}

class CpuRows final : public RowsKernels {
 public:
  void gather_rows(const Tensor& table, const Tensor& index, const Tensor& out) override {
    if (out.numel() == 0) return;
    const std::int64_t d = table.size(1);
    const std::size_t row_bytes = static_cast<std::size_t>(d) * size_of(table.dtype());
    dispatch_index("gather_rows", index.dtype(), [&]<class T>(TypeTag<T>) {
      const auto* const indices = index.data<T>();
      parallel_for(index.numel(), row_grain(d), [&](std::int64_t begin, std::int64_t end) {
        gather(static_cast<const std::byte*>(table.raw()), row_bytes, indices, begin, end,
               static_cast<std::byte*>(out.raw()));
      });
    });
  }

  // Each bucket is one thread's, or two threads' that take half of the columns each, so that no
  // addition depends on another thread. Cutting columns keeps threads busy when most rows go to one
  // entry (a padding token).
  void scatter_add_rows(const Tensor& rows, const RowIndex& index, const Tensor& table) override {
    if (rows.numel() == 0) return;
    const std::int64_t d = table.size(1), step = std::max<std::int64_t>(64, ceil_div(d, 2));
    const std::int64_t n_parts = ceil_div(d, step), n_buckets = index.rows().numel();
    const std::int64_t mean_elements = step * index.numel() / n_buckets;
    const std::int64_t* const entries = index.rows().data<std::int64_t>();
    const std::int64_t* const offsets = index.offsets().data<std::int64_t>();
    const std::int64_t* const positions = index.positions().data<std::int64_t>();
    dispatch_real("scatter_add_rows", table.dtype(), [&]<class T>(TypeTag<T>) {
      const T* const from = rows.data<T>();
      T* const to = table.data<T>();
      parallel_for_each(n_buckets * n_parts, row_grain(mean_elements), [&](std::int64_t i) {
        const std::int64_t u = i / n_parts, left = i % n_parts * step;
        add_bucket(from + left, positions + offsets[u], positions + offsets[u + 1], d,
                   std::min(step, d - left), to + entries[u] * d + left);
      });
    });
  }
};

}  // namespace

RowsKernels& cpu_rows_kernels() { return only<CpuRows>(); }

}  // namespace mobius
