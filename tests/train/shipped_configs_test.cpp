// The configurations in configs/ are ones this program accepts.

#include <gtest/gtest.h>

#include <filesystem>

#include "run_fixture.h"
#include "train/config_reader.h"
#include "train/experiment.h"

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

TEST(ShippedConfigs, RecallHasThePublishedSize) {
  const Registries known;
  const auto config = load_config(kConfigs / "recall" / "recall.yaml", {}, known);
  const Experiment experiment = build_experiment(*config);
  EXPECT_EQ(experiment.model->parameter_count(), 492096);
  EXPECT_NEAR(experiment.task->loss_floor().value(), 3.4384, 1e-4);
}

}  // namespace
}  // namespace mobius
