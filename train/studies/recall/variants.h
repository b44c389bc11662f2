// Small runs of associative recall, one for each variant of attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/options/schema.h"

namespace mobius {

struct RecallVariant {
  std::string name, attention;  // the section of a configuration
  /// The numbers that one head keeps to decode the token after n (docs/MATH.md, section 7).
  std::function<double(double n)> state;
};

struct RecallSettings {
  std::int64_t seq_len = 48;
  std::int64_t longer_seq_len = 62;
  std::int64_t n_pairs = 8;
  std::int64_t vocab = 64;
  std::int64_t d_model = 64;
  std::int64_t n_heads = 1;
  std::int64_t max_steps = 700;
  std::int64_t batch_size = 64;
  double lr = 5e-3;
  double alpha = 4;
  std::int64_t window = 8;
  std::int64_t n_landmarks = 48;
  std::vector<std::string> asked_variants = {};

  void describe(Schema& schema);
};

/// The variants that the settings ask for, in the order of results. Throws ConfigError if a name is
/// unknown.
std::vector<RecallVariant> recall_variants(const RecallSettings& settings);

/// The configuration of a run of a variant on sequences of n tokens, as YAML.
std::string recall_config(const RecallSettings& settings, const RecallVariant& variant,
                          std::int64_t n, std::uint64_t seed);

}  // namespace mobius
