// The program accepts the configurations in configs/ and in the README.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/input_file.h"
#include "data/lm.h"
#include "tests/data/some_text.h"
#include "tests/train/run_fixture.h"
#include "train/compare/comparison_file.h"
#include "train/io/file.h"
#include "train/run/experiment.h"

namespace mobius::shipped_configs_test {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(MOBIUS_SOURCE_DIR) / "configs";

// Builds the model and compares its size with the prediction. A configuration that reads text gets
// one with enough test sequences for each.
void build(Config& config, const TemporaryFolder& folder) {
  if (auto* lm = dynamic_cast<LmOptions*>(config.task.options.get())) {
    lm->text = folder / "text.txt";
    write_text(lm->text, some_text(12000));
  }
  const Experiment experiment = build_experiment(config);
  const ModelSize size =
      size_of_model(config.model, *config.attention, experiment.task->vocab_size(),
                    experiment.task->max_seq_len());
  EXPECT_EQ(size.parameters(), static_cast<double>(experiment.model->parameter_count()));
  double buffers = 0;
  for (const auto& [name, value] : experiment.model->buffers()) {
    buffers += static_cast<double>(value.numel());
  }
  EXPECT_EQ(size.buffers, buffers);
}

TEST(ShippedConfigs, AreAccepted) {
  const Registries known;
  const TemporaryFolder folder;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    // Those of experiments are of another kind (tests/train/results/study_run_test.cpp).
    const bool is_run = entry.path().parent_path().filename() != "experiments";
    if (entry.path().extension() != ".yaml" || !is_run) continue;
    ++files;
    const ConfigDocument document = ConfigDocument::from_file(entry.path());
    if (document.root().find("variations") == nullptr && document.root().find("grid") == nullptr) {
      EXPECT_NO_THROW(build(*make_config(document, known), folder)) << entry.path();
      continue;
    }
    for (const ComparisonJob& job : expand_comparison(document)) {
      EXPECT_NO_THROW(build(*make_config(job.document, known), folder))
          << entry.path() << ": " << job.name;
    }
  }
  EXPECT_GE(files, 4);
}

TEST(ShippedConfigs, TheOneThatTheReadmeExplainsIsAccepted) {
  const std::string readme = content_of(fs::path(MOBIUS_SOURCE_DIR) / "README.md");
  const std::string fence = "```yaml\n";
  const std::size_t begin = readme.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t text = begin + fence.size();
  const std::string yaml = readme.substr(text, readme.find("```", text) - text);
  const Registries known;
  const auto config = parse_config(yaml, "README.md", known);
  EXPECT_EQ(config->attention.name, "conformal");
  EXPECT_NO_THROW(build_experiment(*config));
}

// nanoGPT's README counts 0.80M, without positions and with the 65 characters of its text.
TEST(ShippedConfigs, ShakespeareHasThePublishedSize) {
  const Registries known;
  const TemporaryFolder folder;
  const auto config = load_config(kConfigs / "lm" / "shakespeare_char.yaml", {}, known);
  std::string characters;
  for (char c = ' '; c < ' ' + 65; ++c) characters += c;
  std::string text;
  for (int i = 0; i < 50; ++i) text += characters;
  write_text(folder / "text.txt", text);
  dynamic_cast<LmOptions&>(*config->task).text = folder / "text.txt";
  const Experiment experiment = build_experiment(*config);
  EXPECT_EQ(experiment.task->vocab_size(), 65);
  EXPECT_EQ(experiment.model->parameter_count(), 4 * 12 * 128 * 128 + (65 + 64 + 9 * 2) * 128);
}

TEST(ShippedConfigs, RecallHasThePublishedSize) {
  const Registries known;
  const auto config = load_config(kConfigs / "recall" / "recall.yaml", {}, known);
  const Experiment experiment = build_experiment(*config);
  EXPECT_EQ(experiment.model->parameter_count(), 492096);
  EXPECT_NEAR(experiment.task->loss_floor().value(), 3.4384, 1e-4);
}

}  // namespace
}  // namespace mobius::shipped_configs_test
