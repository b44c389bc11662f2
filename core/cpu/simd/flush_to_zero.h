// Arithmetic without subnormal numbers: those below 1.2e-38 in f32, 2.2e-308 in f64.
#pragma once

#include <immintrin.h>

namespace mobius {

/// While one lives, the calling thread takes subnormal operands for 0 (DAZ) and gives 0 in place of
/// subnormal results (FTZ). Intel's processors compute with them in microcode, a hundred times
/// slower, and small weights of attention or moments of AdamW that decay become such numbers by the
/// million. Nothing but arithmetic changes: a subnormal number that is copied stays what it is.
class FlushToZero {
 public:
  FlushToZero() : before_(_mm_getcsr()) {
    if ((before_ & both) != both) _mm_setcsr(before_ | both);
  }
  /// The thread is the caller's, whose arithmetic is as before. The flags of exceptions stay.
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
