// Next-token prediction. Only this file shifts labels against inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace mobius {

/// Splits n + 1 tokens: inputs[t] = tokens[t] and labels[t] = tokens[t + 1] for t < n.
/// `inputs` and `labels` must hold tokens.size() - 1 elements each.
inline void split_next_token(std::span<const std::int32_t> tokens, std::span<std::int32_t> inputs,
                             std::span<std::int32_t> labels) {
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
}

}  // namespace mobius
