// Compares the results of runs, read from their folders, whoever trained them.
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

/// A run, as read from its folder.
struct ComparedRun {
  std::string name;  ///< the folder's name, after its parent's if two folders are called alike
  std::string variant;
  std::filesystem::path folder;
  std::string config_text;                    ///< config.yaml
  std::map<std::string, std::string> config;  ///< its values as written, by dotted path
  std::optional<RunSummary> summary;          ///< nothing if it has not ended yet

  bool is_complete() const { return summary && summary->is_complete(); }
  bool is_diverged() const { return summary && summary->status == RunStatus::diverged; }
  /// The value of a key as written, or "" if the run has no such key.
  std::string value_of_key(const std::string& key) const;
};

/// The mean of some numbers, and their sample standard deviation if there are two or more and the
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

/// A variant that is compared, with one setting for each learning rate that was tried.
struct ComparedVariant {
  std::string name;
  std::vector<ComparedSetting> settings;
  std::size_t best = 0;  ///< index of the setting that is shown

  const ComparedSetting& shown() const { return settings[best]; }
};

/// A table of runs. It does not move: variants refer to its runs.
class Comparison {
 public:
  /// Each folder is that of a run or holds those of runs. Throws ConfigError if it has none.
  explicit Comparison(const std::vector<std::filesystem::path>& folders);
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  /// The runs in the order of their names.
  const std::vector<ComparedRun>& runs() const { return runs_; }
  /// The variants, the best first. The best learning rate of each has the best mean over its
  /// complete runs, or the smaller loss among equals. One with a missing or diverged run comes
  /// after all others.
  const std::vector<ComparedVariant>& variants() const { return variants_; }
  /// The metric that judges the runs: `checkpoint.metric` of the first.
  Metric metric() const { return metric_; }
  /// The keys whose values differ between runs, without those of the seed and of output.
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

/// Takes the numbers that `number` gives for the complete runs of a setting.
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
