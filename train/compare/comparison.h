// What came of runs, side by side: read from their folders, whoever trained them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/recording/metrics.h"
#include "train/recording/score.h"

namespace mobius {

/// A run as its folder tells it.
struct ComparedRun {
  std::string name;  ///< the folder's; with its parent's where two folders are called alike
  std::string variant;
  std::filesystem::path folder;
  std::string config_text;                    ///< config.yaml
  std::map<std::string, std::string> config;  ///< its values as written, by dotted path
  std::optional<RunSummary> summary;          ///< nothing where it has not ended yet

  bool is_complete() const { return summary && summary->is_complete(); }
  bool is_diverged() const { return summary && summary->status == RunStatus::diverged; }
  /// The value of a key as written; empty where the run has no such key.
  std::string value_of_key(const std::string& key) const;
};

/// Mean of some numbers, and their sample standard deviation where there are two or more and the
/// mean is finite.
struct Statistic {
  std::size_t count = 0;
  double mean = 0;
  std::optional<double> deviation;
};
Statistic statistic_of(const std::vector<double>& values);

/// Runs that differ in the seed alone.
struct ComparedSetting {
  std::string learning_rate;
  std::vector<const ComparedRun*> runs;

  std::size_t complete_runs() const;
  std::size_t diverged_runs() const;
};

/// What is compared: one setting for each learning rate that was tried.
struct ComparedVariant {
  std::string name;
  std::vector<ComparedSetting> settings;
  std::size_t best = 0;  ///< index of the setting that is shown

  const ComparedSetting& shown() const { return settings[best]; }
};

/// A table of runs. It does not move: variants refer to its runs.
class Comparison {
 public:
  /// Each folder is that of a run, or holds those of runs. Throws ConfigError where there is none.
  explicit Comparison(const std::vector<std::filesystem::path>& folders);
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  /// By name.
  const std::vector<ComparedRun>& runs() const { return runs_; }
  /// The best first. The best learning rate of each is the one whose complete runs have the best
  /// mean, of equal ones the smaller loss; one with a run that is missing or diverged comes after
  /// all without.
  const std::vector<ComparedVariant>& variants() const { return variants_; }
  /// What runs are judged by: `checkpoint.metric` of the first.
  Metric metric() const { return metric_; }
  /// The keys whose values differ between runs, but those of the seed and of output.
  const std::vector<std::string>& differing_keys() const { return differing_keys_; }

 private:
  void collect_variants();
  void choose_best(ComparedVariant& variant) const;
  bool is_better_setting(const ComparedSetting& a, const ComparedSetting& b) const;

  std::vector<ComparedRun> runs_;
  std::vector<ComparedVariant> variants_;
  std::vector<std::string> differing_keys_;
  Metric metric_ = Metric::loss;
};

/// Over the complete runs of a setting, those for which `number` gives one.
template <typename Number>
Statistic statistic_over(const ComparedSetting& setting, Number&& number) {
  std::vector<double> values;
  for (const ComparedRun* run : setting.runs) {
    if (!run->is_complete()) continue;
    if (const std::optional<double> value = number(*run->summary)) values.push_back(*value);
  }
  return statistic_of(values);
}

}  // namespace mobius
