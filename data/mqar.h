// Multi-query associative recall (Arora et al. 2023, "Zoology"; docs/MATH.md, section 6).
#pragma once

#include <vector>

#include "data/task.h"

namespace mobius {

/// What stands where a sequence holds neither a pair nor a query.
enum class MqarFiller {
  zero,           ///< token 0, which is no key and no value
  random,         ///< a uniform token: the published rule. It can equal a key in use
  random_unused,  ///< a uniform token that is no key of the sequence
};

/// One component of a mixture.
struct MqarSize {
  std::int64_t seq_len = 256;
  std::int64_t n_pairs = 16;
  double weight = 1;  ///< share of the training steps, relative to the other components

  void describe(Schema& schema);
};

/// A sequence of n tokens starts with P pairs k v k v ...; then each key p comes once more, at
/// position 2P + 2 g_p, where the label is its value. Every other label is ignored. Keys are drawn
/// from [1, vocab/2), values from [vocab/2, vocab), and gaps g_p from [0, (n - 2P) / 2) with
/// probability proportional to (g + 1)^(power_a - 1), each without replacement within a sequence.
///
/// A sequence of a given size is the same alone and in any mixture.
struct MqarOptions final : TaskOptions {
  std::int32_t vocab = 8192;
  std::int64_t seq_len = 256;
  std::int64_t n_pairs = 16;
  double power_a = 0.01;  ///< 1: queries anywhere; towards 0: soon after the pairs
  MqarFiller filler = MqarFiller::random;
  /// Sizes to train and test on, in place of seq_len and n_pairs. One training step has one size.
  std::vector<MqarSize> mixture;
  std::int64_t n_test = 1024;  ///< test sequences of each size

  void describe(Schema& schema) override;
  void check(std::uint64_t seed) const override;
  TaskSize least_size() const override;
  /// Throws ConfigError when a value is out of range, unless seq_len is even, below vocab and at
  /// least 4 n_pairs (which makes room for all keys, values and queries), when a size is listed
  /// twice, and when seq_len or n_pairs is set beside a mixture.
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
};

}  // namespace mobius
