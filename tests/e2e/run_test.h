// A small run and functions to start it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/run_comparison.h"
#include "train/io/file.h"

namespace mobius {

// Dropout and accumulation are on; the schedule has a warm-up.
inline constexpr const char* kSmallRun = R"(
task: {name: mqar, vocab: 64, seq_len: 16, n_pairs: 4, n_test: 32}
model: {d_model: 16, n_layers: 2, n_heads: 2, dropout: 0.1}
attention: {kind: conformal}
schedule: {kind: constant, warmup_steps: 10}
train: {max_steps: 200, batch_size: 8, accumulation_steps: 2, threads: 1, log_every: 1}
eval: {every: 20}
checkpoint: {every: 25}
)";

/// Returns the temporary files below a folder; none if the folder does not exist.
inline std::vector<std::filesystem::path> temporary_files_below(
    const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::exists(folder)) return found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (is_temporary(entry.path())) found.push_back(entry.path());
  }
  return found;
}

class RunTest : public testing::Test {
 protected:
  void SetUp() override { write_text(config_, kSmallRun); }

  std::vector<std::string> train_arguments(const std::string& run,
                                           const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome try_train(const std::string& run, const std::vector<std::string>& more = {},
                    const Surroundings& around = {}) const {
    return mobius(train_arguments(run, more), around);
  }
  Outcome train(const std::string& run, const std::vector<std::string>& more = {}) const {
    Outcome outcome = try_train(run, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return outcome;
  }
  std::size_t lines_in(const std::string& run) const {
    return lines_of(read_text(folder_ / run / "metrics.jsonl")).size();
  }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
};

}  // namespace mobius
