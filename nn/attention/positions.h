// How an attention layer is told where its queries and keys stand (docs/MATH.md, section 3).
//
// alibi and relative add to each score a number that depends on the distance p - j alone, of a
// query at position p (core/ops/attention.h) and key j. They are handed to the kernel as one row a
// head: entry t of [H, n_q + n_k - 1] belongs to the distance n_k - 1 - t.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/ops.h"

namespace mobius {

enum class Positions {
  learned,   // a table, added to the embedding: nothing that attention sees
  rope,      // rotary queries and keys
  alibi,     // -slope_h |p - j|
  relative,  // a learned number b[clamp(p - j, -max, max)], shared by the heads
  none
};

/// The geometric sequence 2^(-8 (h+1) / H) for a power of two H; for another H, that of the power
/// of two below, then every second term of that of the power above (Press et al. 2022, ALiBi).
std::vector<double> alibi_slopes(std::int64_t n_heads);

/// -slope_h |p - j| for slopes[H, 1], [H, n_q + n_k - 1].
Tensor alibi_bias(const Tensor& slopes, std::int64_t n_q, std::int64_t n_k);

/// b[clamp(p - j, -max, max)] from table[2 max + 1], whose entry 0 is b[-max]:
/// [H, n_q + n_k - 1].
Variable relative_bias(const Variable& table, std::int64_t n_heads, std::int64_t n_q,
                       std::int64_t n_k);

}  // namespace mobius
