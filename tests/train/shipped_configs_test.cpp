// The configurations in configs/ and in the README are ones this program accepts.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/train/run_fixture.h"
#include "train/config_reader.h"
#include "train/experiment.h"
#include "train/file.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(MOBIUS_SOURCE_DIR) / "configs";

TEST(ShippedConfigs, AreAccepted) {
  const Registries known;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const ConfigDocument document = ConfigDocument::from_file(entry.path());
    if (document.root().find("variations") == nullptr) {
      EXPECT_NO_THROW(build_experiment(*make_config(document, known))) << entry.path();
      continue;
    }
    for (const ConfigVariation& variation : expand_variations(document)) {
      EXPECT_NO_THROW(build_experiment(*make_config(variation.document, known)))
          << entry.path() << ": " << variation.name;
    }
  }
  EXPECT_GE(files, 4);
}

TEST(ShippedConfigs, TheOneThatTheReadmeExplainsIsAccepted) {
  const std::string readme = read_whole_file(fs::path(MOBIUS_SOURCE_DIR) / "README.md");
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

TEST(ShippedConfigs, RecallHasThePublishedSize) {
  const Registries known;
  const auto config = load_config(kConfigs / "recall" / "recall.yaml", {}, known);
  const Experiment experiment = build_experiment(*config);
  EXPECT_EQ(experiment.model->parameter_count(), 492096);
  EXPECT_NEAR(experiment.task->loss_floor().value(), 3.4384, 1e-4);
}

}  // namespace
}  // namespace mobius
