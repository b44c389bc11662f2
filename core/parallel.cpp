#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "core/cpu/simd/flush_to_zero.h"
#include "core/error.h"
#include "core/thread_limit.h"

namespace mobius {
namespace {

// A process-wide count: OpenMP keeps one per host thread, which the background loader would not
// share.
std::atomic<int>& thread_count() {
  static std::atomic<int> count{std::clamp(omp_get_max_threads(), 1, most_threads)};
  return count;
}

// Keeps the exception of the chunk with the smallest index: the reported error does not depend on
// the schedule.
class FirstException {
 public:
  void capture(std::int64_t chunk) {
    const std::lock_guard lock(mutex_);
    if (exception_ && chunk > chunk_) return;
    exception_ = std::current_exception();
    chunk_ = chunk;
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
  std::int64_t chunk_ = 0;
};

}  // namespace

int num_threads() { return thread_count(); }

void set_num_threads(int n) {
  if (n < 1 || n > most_threads) {
    throw Error("set_num_threads: expected 1 to {}, got {}", most_threads, n);
  }
  thread_count() = n;
}

namespace detail {

void parallel_chunks(std::int64_t n, std::int64_t grain, ChunkFn fn, void* context) {
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t chunks = n / grain + (n % grain != 0);
  const auto run = [&](std::int64_t chunk) {
    fn(context, chunk * grain, std::min(n, chunk * grain + grain));
  };
  const int threads = static_cast<int>(std::min<std::int64_t>(num_threads(), chunks));
  if (threads <= 1 || omp_in_parallel()) {
    const FlushToZero flush;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  FirstException failure;
#pragma omp parallel num_threads(threads)
  {
    const FlushToZero flush;  // the mode is per thread
#pragma omp for schedule(dynamic)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      try {
        run(chunk);
      } catch (...) {
        failure.capture(chunk);
      }
    }
  }
  failure.rethrow();
}

}  // namespace detail
}  // namespace mobius
