// Arithmetic without subnormal numbers: those below 1.2e-38 in f32, 2.2e-308 in f64.
#pragma once

#include <immintrin.h>

namespace mobius {

/// During its lifetime the calling thread treats subnormal operands as 0 (DAZ) and flushes
/// subnormal results to 0 (FTZ). Intel processors compute with subnormals in microcode, a hundred
/// times slower, and small attention weights or decaying AdamW moments produce them by the million.
/// Only arithmetic changes: copying preserves subnormal numbers.
class FlushToZero {
 public:
  FlushToZero() : before_(_mm_getcsr()) {
    if ((before_ & both) != both) _mm_setcsr(before_ | both);
  }
  /// Restores the previous mode of the thread and keeps the exception flags.
  ~FlushToZero() {
    if ((before_ & both) != both) _mm_setcsr((_mm_getcsr() & ~both) | (before_ & both));
  }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  static constexpr unsigned both = _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON;

  unsigned before_;
};

}  // namespace mobius
