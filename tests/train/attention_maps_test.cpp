#include "train/attention_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/train/run_fixture.h"
#include "train/experiment.h"

namespace mobius {
namespace {

using Json = nlohmann::json;

Json maps_of(const std::vector<std::string>& settings) {
  const Registries known;
  const auto config = config_of(kTinyRun, settings, known);
  const Experiment experiment = build_experiment(*config);
  return Json::parse(attention_maps_json(*experiment.model, *experiment.task));
}

TEST(AttentionMaps, AreTheCausalWeightsOfEveryHead) {
  // Of conformal the empirical normalisation, for the analytic one is exact in the mean alone.
  for (const std::string kind :
       {"softmax", "conformal, normalize: empirical", "linear", "performer", "sparse", "w2"}) {
    const Json maps = maps_of({"model.n_layers=2", "attention={kind: " + kind + "}"});
    EXPECT_EQ(maps.at("positions"), 16) << kind;
    EXPECT_EQ(maps.at("tokens").size(), 16u);
    ASSERT_EQ(maps.at("layers").size(), 2u);
    for (const Json& heads : maps.at("layers")) {
      ASSERT_EQ(heads.size(), 2u);
      for (const Json& rows : heads) {
        ASSERT_EQ(rows.size(), 16u);
        for (std::size_t i = 0; i < 16; ++i) {
          double sum = 0;
          for (std::size_t j = 0; j < 16; ++j) {
            if (j > i) {
              EXPECT_EQ(rows[i][j], 0) << kind;
            }
            sum += rows[i][j].get<double>();
          }
          EXPECT_NEAR(sum, 1, 0.01) << kind << ", query " << i;
        }
      }
    }
  }
}

TEST(AttentionMaps, OfLongSequencesShowTheBeginning) {
  const Json maps = maps_of({"task.seq_len=128", "task.vocab=256"});
  EXPECT_EQ(maps.at("positions"), 96);
  EXPECT_EQ(maps.at("layers")[0][0].size(), 96u);
  EXPECT_EQ(maps.at("layers")[0][0][0].size(), 96u);
}

TEST(AttentionMaps, AreWrittenWhereAskedFor) {
  const TemporaryFolder folder;
  const Registries known;
  train_in(folder / "with", known, {"eval.attention_maps=true"});
  train_in(folder / "without", known);
  EXPECT_TRUE(Json::parse(read_text(folder / "with/attention_maps.json")).contains("layers"));
  EXPECT_FALSE(std::filesystem::exists(folder / "without/attention_maps.json"));
}

}  // namespace
}  // namespace mobius
