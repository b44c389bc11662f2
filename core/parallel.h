// Work sharing between threads, with results that do not depend on their number.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mobius {

/// Threads used by parallel_for: OMP_NUM_THREADS or the cores of this process, until set.
int num_threads();
void set_num_threads(int n);

namespace detail {
using ChunkFn = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* context);
}  // namespace detail

/// Calls fn(begin, end) over [0, n) in chunks of `grain` indices (the last may be shorter), on
/// several threads. Chunk borders depend on n and grain alone, so whatever fn computes per chunk is
/// the same for every thread count; fn must not let chunks interact. Subnormal numbers are 0 to it,
/// on each thread (core/cpu/simd/flush_to_zero.h). Exceptions are rethrown here; nested calls run
/// here.
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

}  // namespace mobius
