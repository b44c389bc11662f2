// How much work one chunk of a parallel loop gets.
#pragma once

#include <cstdint>

namespace mobius {

/// Elements in a chunk of an elementwise pass: enough to hide what sharing it out costs, few enough
/// to stay in the second-level cache (64 KiB of f32).
constexpr std::int64_t elementwise_grain = 1 << 14;

}  // namespace mobius
