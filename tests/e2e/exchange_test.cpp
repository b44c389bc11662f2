// Export of parameters to other tools, and import.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/some_text.h"
#include "tests/e2e/run_comparison.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors.h"

namespace mobius::exchange_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kRun = R"(
task: {name: recall, vocab: 16, seq_len: 16, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
train: {max_steps: 4, batch_size: 4, threads: 1}
eval: {every: 0}
)";

class ExchangeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(config_, kRun);
    ASSERT_EQ(mobius({"train", config_, "--out", folder_ / "run"}).exit_code, 0);
  }
  std::string checkpoint() const { return step_file(folder_ / "run", 4).string(); }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
  const std::string exported_ = folder_ / "model.safetensors";
};

TEST_F(ExchangeTest, AnImportedModelScoresAsTheExportedOne) {
  const Outcome written = mobius({"export", checkpoint(), exported_});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const Safetensors content = read_safetensors(exported_);
  EXPECT_EQ(content.metadata.at("step"), "4");
  EXPECT_THAT(content.metadata.at("config"), HasSubstr("d_model: 16"));
  std::vector<std::string> names;
  for (const NamedTensor& tensor : content.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, ::testing::Contains("embedding.weight"));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("head.weight")));  // tied: one tensor

  const std::string imported = folder_ / "start.h5";
  const Outcome read = mobius({"import", config_, exported_, imported});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  const auto score = [](const std::string& path) {
    std::string text = mobius({"eval", path}).out;
    return text.substr(text.find('\n'));  // drops the step
  };
  EXPECT_EQ(score(imported), score(checkpoint()));
  EXPECT_EQ(mobius({"train", config_, "--resume", imported, "--out", folder_ / "on"}).exit_code, 0);
}

TEST_F(ExchangeTest, AnImportedModelOfTextIsTrainedOn) {
  write_text(folder_ / "text.txt", some_text(80));
  write_text(config_, "task: {name: lm, seq_len: 16, tokenizer: char, text: " +
                          (folder_ / "text.txt").string() +
                          "}\nmodel: {d_model: 16, n_layers: 1, n_heads: 2}\n"
                          "train: {max_steps: 2, batch_size: 4, threads: 1}\n");
  ASSERT_EQ(mobius({"train", config_, "--out", folder_ / "text"}).exit_code, 0);
  const std::string imported = folder_ / "start.h5";
  ASSERT_EQ(mobius({"export", step_file(folder_ / "text", 2), exported_}).exit_code, 0);
  ASSERT_EQ(mobius({"import", config_, exported_, imported}).exit_code, 0);
  const Outcome on = mobius({"train", config_, "--resume", imported, "--out", folder_ / "on"});
  EXPECT_EQ(on.exit_code, 0) << on.err;
  EXPECT_EQ(mobius({"generate", imported, "--tokens", "5"}).exit_code, 0);
}

// An untied head is a separate tensor, unlike the tied one above, in the checkpoint as well.
TEST_F(ExchangeTest, AnUntiedHeadIsKeptBesideTheEmbedding) {
  const auto names_in = [](const std::string& path) {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : list_parameters(path)) names.push_back(tensor.name);
    return names;
  };
  EXPECT_THAT(names_in(checkpoint()), ::testing::Not(::testing::Contains("head.weight")));
  ASSERT_EQ(
      mobius({"train", config_, "--out", folder_ / "untied", "model.tied_head=false"}).exit_code,
      0);
  const std::string untied = step_file(folder_ / "untied", 4);
  EXPECT_THAT(names_in(untied), ::testing::IsSupersetOf({"embedding.weight", "head.weight"}));

  ASSERT_EQ(mobius({"export", untied, exported_}).exit_code, 0);
  const Safetensors content = read_safetensors(exported_);
  const auto tensor = [&content](const std::string& name) {
    const auto found = std::find_if(content.tensors.begin(), content.tensors.end(),
                                    [&](const NamedTensor& entry) { return entry.name == name; });
    return found->value.to_vector<float>();
  };
  EXPECT_EQ(tensor("head.weight").size(), tensor("embedding.weight").size());
  EXPECT_NE(tensor("head.weight"), tensor("embedding.weight"));

  const std::string imported = folder_ / "untied.h5";
  ASSERT_EQ(mobius({"import", folder_ / "untied" / "config.yaml", exported_, imported}).exit_code,
            0);
  ASSERT_EQ(mobius({"export", imported, folder_ / "again.safetensors"}).exit_code, 0);
  const Safetensors again = read_safetensors(folder_ / "again.safetensors");
  ASSERT_EQ(again.tensors.size(), content.tensors.size());
  for (std::size_t i = 0; i < again.tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].value.to_vector<float>(),
              content.tensors[i].value.to_vector<float>())
        << again.tensors[i].name;
  }
}

TEST_F(ExchangeTest, RemovesWhatAKilledExportLeft) {
  const std::string left = exported_ + ".mobius-0123abcd.tmp", other = exported_ + ".tmp";
  write_text(left, "half");
  write_text(other, "of others");
  ASSERT_EQ(mobius({"export", checkpoint(), exported_}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(ExchangeTest, RefusesAnotherModelsParameters) {
  ASSERT_EQ(mobius({"export", checkpoint(), exported_}).exit_code, 0);
  write_text(folder_ / "wide.yaml", std::string(kRun) + "attention: {kind: w2}\n");
  const std::string out = folder_ / "start.h5";
  const Outcome outcome = mobius({"import", folder_ / "wide.yaml", exported_, out});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, StartsWith("mobius: error: "));
  EXPECT_THAT(outcome.err, HasSubstr("does not fit this configuration"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace mobius::exchange_test
