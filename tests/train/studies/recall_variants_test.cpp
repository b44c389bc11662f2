#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "train/studies/recall/variants.h"
#include "train/studies/small_training.h"

namespace mobius::recall_variants_test {

TEST(RecallVariants, AllHaveAConfigurationThatBuilds) {
  const Registries known;
  const RecallSettings settings;
  const std::vector<RecallVariant> all = recall_variants(settings);
  EXPECT_EQ(all.size(), 12u);
  for (const RecallVariant& variant : all) {
    const auto config = config_of(recall_config(settings, variant, 32, 3), variant.name, known);
    EXPECT_EQ(config->train.seed, 3u);
    EXPECT_EQ(config->task->build(3)->max_seq_len(), 32);
    require_buildable(config->model, *config->attention);
  }
}

TEST(RecallVariants, StatesGrowAsTheirCachesDo) {
  const std::vector<RecallVariant> all = recall_variants({});
  const auto state = [&](std::string_view name, double n) {
    for (const RecallVariant& variant : all)
      if (variant.name == name) return variant.state(n);
    throw Error("no variant {}", name);
  };
  EXPECT_EQ(state("softmax", 100), 100 * 128);
  EXPECT_EQ(state("sparse_local", 100), 8 * 128);
  EXPECT_EQ(state("sparse_local", 5), 5 * 128);
  EXPECT_EQ(state("linear", 1e6), 64 * 65);
  EXPECT_EQ(state("hierarchical_degree_1", 1024), 8 * 128 + 65 * 64 * 10);
  EXPECT_EQ(state("w2", 10), 10 * 3 * 64);
}

TEST(RecallVariants, AreChosenByName) {
  RecallSettings settings;
  settings.asked_variants = {"w2", "softmax"};
  const std::vector<RecallVariant> some = recall_variants(settings);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].name, "softmax");
  settings.asked_variants = {"soft"};
  EXPECT_THAT(error_of([&] { recall_variants(settings); }), ::testing::HasSubstr("'soft'"));
}

}  // namespace mobius::recall_variants_test
