#include "train/recording/attention_maps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/backend.h"
#include "tests/train/run_fixture.h"
#include "train/run/experiment.h"

namespace mobius::attention_maps_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

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

TEST(AttentionMaps, AreOfTheChosenHeads) {
  const TemporaryFolder folder;
  const Registries known;
  train_in(folder / "run", known,
           {"model.n_layers=3", "eval.attention_maps=true", "eval.map_layers=[3, 1]",
            "eval.map_heads=[2]"});
  const Json layers = Json::parse(read_text(folder / "run/attention_maps.json")).at("layers");
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_TRUE(layers[1].empty());
  for (const std::size_t layer : {0u, 2u}) {
    ASSERT_EQ(layers[layer].size(), 2u);
    EXPECT_TRUE(layers[layer][0].is_null());
    EXPECT_EQ(layers[layer][1].size(), 16u);
  }
}

TEST(AttentionMaps, OfHeadsThatThereAreNotAreRefused) {
  const auto refusal_of = [](const std::string& setting) {
    return error_of([&] { maps_of({"eval.attention_maps=true", setting}); });
  };
  EXPECT_THAT(refusal_of("eval.map_layers=[1, 2]"),
              HasSubstr("eval.map_layers: expected at most model.n_layers = 1, got 2"));
  EXPECT_THAT(refusal_of("eval.map_heads=[3]"), HasSubstr("model.n_heads = 2, got 3"));
  EXPECT_THAT(refusal_of("eval.map_heads=[0]"), HasSubstr("eval.map_heads: must be > 0, got 0"));
}

TEST(AttentionMaps, OfLongSequencesShowTheBeginning) {
  const Json maps = maps_of({"task.seq_len=128", "task.vocab=256"});
  EXPECT_EQ(maps.at("positions"), 96);
  EXPECT_EQ(maps.at("layers")[0][0].size(), 96u);
  EXPECT_EQ(maps.at("layers")[0][0][0].size(), 96u);
}

TEST(AttentionMaps, TakeNoMoreMemoryForALongSequence) {
  const Registries known;
  const auto memory_for = [&](const std::string& length) {
    const auto config = config_of(kTinyRun, {"task.vocab=8192", "task.seq_len=" + length}, known);
    const Experiment experiment = build_experiment(*config);
    const std::size_t before = allocator_for({}).stats().current;
    allocator_for({}).reset_peak();
    attention_maps_json(*experiment.model, *experiment.task);
    return allocator_for({}).stats().peak - before;
  };
  EXPECT_LT(memory_for("4096"), 2 * memory_for("128"));
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
}  // namespace mobius::attention_maps_test
