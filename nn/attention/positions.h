// Encodings of the positions of queries and keys (docs/MATH.md, section 3).
//
// alibi and relative add to each score a number that depends only on the distance p - j of a query
// at position p (core/ops/attention.h) and key j. The kernel takes one row per head: entry t of
// [H, n_q + n_k - 1] belongs to the distance n_k - 1 - t.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/ops.h"

namespace mobius {

enum class Positions {
  learned,   // a table, added to the embedding; attention does not see it
  rope,      // rotary queries and keys
  alibi,     // -slope_h |p - j|
  relative,  // a learned number b[clamp(p - j, -max, max)], shared by the heads
  none
};

/// Returns the geometric sequence 2^(-8 (h+1) / H) for a power of two H. For other H, returns the
/// sequence of the power of two below, then every second term of that of the power above (Press et
/// al. 2022, ALiBi).
std::vector<double> alibi_slopes(std::int64_t n_heads);

/// Returns -slope_h |p - j| for slopes[H, 1], [H, n_q + n_k - 1].
Tensor alibi_bias(const Tensor& slopes, std::int64_t n_q, std::int64_t n_k);

/// Returns b[clamp(p - j, -max, max)], [H, n_q + n_k - 1], from table[2 max + 1], whose entry 0 is
/// b[-max].
Variable relative_bias(const Variable& table, std::int64_t n_heads, std::int64_t n_q,
                       std::int64_t n_k);

}  // namespace mobius
