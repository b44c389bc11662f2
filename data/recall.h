// The recall task: uniform random tokens, repeated once (docs/MATH.md, section 6).
#pragma once

#include "data/task.h"

namespace mobius {

/// A sequence is L = seq_len / 2 tokens, twice; inputs are all but the last token and labels all
/// but the first, [batch, seq_len - 1]. All are labelled. The accuracy covers only the L labels of
/// the repetition: the other L - 1 cannot be predicted, and hold the mean loss above
/// ln(vocab) (L - 1) / (2 L - 1).
struct RecallOptions final : TaskOptions {
  std::int32_t vocab = 1024;
  std::int64_t seq_len = 128;
  std::int64_t n_test = 1024;

  void describe(Schema& schema) override;
  TaskSize least_size() const override;
  /// Throws ConfigError for an odd seq_len, or a value out of range.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
};

}  // namespace mobius
