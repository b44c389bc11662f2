// Reads which runs a comparison consists of.
//
// A comparison is an ordinary configuration, the base, with `variations`, a `grid`, or both:
//
//   base: mqar.yaml    # optional: the file, in this one's folder, that is changed
//   train: {max_steps: 2000}
//   variations:        # each a name and overrides, as nested maps or dotted keys
//     - name: softmax
//       attention.kind: softmax
//     - name: conformal
//       attention: {kind: conformal, alpha: 1.5}
//   grid:              # each a key and its values: every combination, of every variation
//     optimizer.lr: [1e-3, 3e-3]
//     train.seed: [1, 2, 3]
#pragma once

#include <string>
#include <vector>

#include "core/options/schema.h"
#include "train/config/document.h"

namespace mobius {

/// The keys whose values are repetitions or a search, not something to compare: runs that differ
/// only in the seed are averaged, and the best of several learning rates is shown.
constexpr const char* seed_key = "train.seed";
constexpr const char* learning_rate_key = "optimizer.lr";

/// One run of a comparison. Its name, which becomes its folder, has the variation's name, then the
/// grid's values, the learning rate and the seed last: softmax-lr=1e-3-seed=1. It depends only on
/// the file, not on other runs.
struct ComparisonJob {
  std::string name;
  ConfigDocument document;
};

/// The keys that a comparison has beside those of a run, for `mobius config help`. They hold keys
/// of the configuration, which expand_comparison() reads.
struct ComparisonKeys {
  struct Variation {
    std::string name;
    void describe(Schema& schema);
  };

  std::string base;
  std::vector<Variation> variations;
  void describe(Schema& schema);
};

/// Throws ConfigError with the place if `variations` or `grid` are not as above, a value of the
/// grid is given twice (1e-3 and 0.001 are equal), a run would have the name of a file that runs or
/// comparisons write or of another run (ignoring case), or an override changes no run because the
/// grid or every variation sets its key.
std::vector<ComparisonJob> expand_comparison(const ConfigDocument& comparison);

/// Returns the name without learning rate and seed ("softmax" above), which may be empty.
std::string variant_in(const std::string& job_name);

}  // namespace mobius
