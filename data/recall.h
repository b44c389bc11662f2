// The recall task: repeat a sequence of uniform random tokens (docs/MATH.md, section 6).
#pragma once

#include "data/task.h"

namespace mobius {

/// A sequence is L = seq_len / 2 tokens, twice. Inputs are all but the last token and labels all
/// but the first, [batch, seq_len - 1]; every position is labelled. The accuracy covers only the L
/// labels of the repetition: the other L - 1 cannot be predicted and keep the mean loss at or above
/// ln(vocab) (L - 1) / (2 L - 1).
struct RecallOptions final : TaskOptions {
  std::int32_t vocab = 1024;
  std::int64_t seq_len = 128;
  std::int64_t n_test = 1024;

  void describe(Schema& schema) override;
  TaskSize least_size() const override;
  /// Throws ConfigError if seq_len is odd or a value is out of range.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
};

}  // namespace mobius
