// Parallel loops whose results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mobius {

/// Number of threads of parallel_for. Defaults to OMP_NUM_THREADS or the cores of this process.
int num_threads();
/// Throws Error unless 1 <= n <= most_threads (core/thread_limit.h).
void set_num_threads(int n);

namespace detail {
using ChunkFn = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* context);
}  // namespace detail

/// Calls fn(begin, end) over [0, n) in chunks of `grain` indices (the last may be shorter), on
/// several threads. Chunk borders depend only on n and grain, so results per chunk do not depend on
/// the thread count; chunks must not interact. Every thread treats subnormal numbers as 0
/// (core/cpu/simd/flush_to_zero.h). Exceptions are rethrown on the calling thread; nested calls run
/// on it alone.
template <class Fn>
void parallel_for(std::int64_t n, std::int64_t grain, Fn&& fn) {
  using F = std::remove_reference_t<Fn>;
  detail::parallel_chunks(
      n, grain,
      [](void* context, std::int64_t begin, std::int64_t end) {
        (*static_cast<F*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

/// Calls fn(i) for each i in [0, n), in chunks as above.
template <class Fn>
void parallel_for_each(std::int64_t n, std::int64_t grain, Fn&& fn) {
  parallel_for(n, grain, [&fn](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) fn(i);
  });
}

}  // namespace mobius
