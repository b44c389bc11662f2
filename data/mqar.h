// Multi-query associative recall (Arora et al. 2023, "Zoology"; docs/MATH.md, section 6).
#pragma once

#include <vector>

#include "data/task.h"

namespace mobius {

/// The tokens at positions that hold neither a pair nor a query.
enum class MqarFiller {
  zero,           ///< token 0, which is neither a key nor a value
  random,         ///< a uniform token (the published rule), which may equal a key in use
  random_unused,  ///< a uniform token that is not a key of the sequence
};

/// One component of a mixture.
struct MqarSize {
  std::int64_t seq_len = 256;
  std::int64_t n_pairs = 16;
  double weight = 1;  ///< share of the training steps, relative to the other components

  void describe(Schema& schema);
};

/// A sequence of n tokens starts with P pairs k v k v ... Each key p then occurs once more, at
/// position 2P + 2 g_p, where the label is its value; all other labels are ignored. Keys are drawn
/// from [1, vocab/2), values from [vocab/2, vocab), and gaps g_p from [0, (n - 2P) / 2) with
/// probability proportional to (g + 1)^(power_a - 1), each without replacement within a sequence.
///
/// The sequences of a size do not depend on the mixture that it is part of.
struct MqarOptions final : TaskOptions {
  std::int32_t vocab = 8192;
  std::int64_t seq_len = 256;
  std::int64_t n_pairs = 16;
  double power_a = 0.01;  ///< 1: queries are uniform; towards 0: they follow the pairs closely
  MqarFiller filler = MqarFiller::random;
  /// Sizes to train and test on, instead of seq_len and n_pairs. Each training step has one size.
  std::vector<MqarSize> mixture;
  std::int64_t n_test = 1024;  ///< test sequences of each size

  void describe(Schema& schema) override;
  void check(std::uint64_t seed) const override;
  TaskSize least_size() const override;
  /// Throws ConfigError if a value is out of range; if seq_len is odd, not below vocab, or less
  /// than 4 n_pairs (which makes room for all keys, values and queries); if a size is listed twice;
  /// or if seq_len or n_pairs is set together with a mixture.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
};

}  // namespace mobius
