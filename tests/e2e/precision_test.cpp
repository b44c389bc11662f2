// Runs in bf16, started like a user does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.h"
#include "tests/e2e/run_comparison.h"

namespace mobius::precision_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRecall = R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 256}
model: {d_model: 32, n_layers: 2, n_heads: 1, positions: rope, init_std: 0.2}
optimizer: {lr: 5.0e-03, betas: [0.9, 0.99], weight_decay: 0.01}
schedule: {kind: cosine, warmup_steps: 5}
train: {max_steps: 400, batch_size: 64, log_every: 100}
eval: {every: 200}
)";

class PrecisionTest : public ::testing::Test {
 protected:
  void SetUp() override { write_text(config_, kRecall); }

  Outcome train(const std::string& run, const std::vector<std::string>& more,
                const Surroundings& around = {}) const {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / run};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = mobius(arguments, around);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome;
  }
  nlohmann::json last_test(const std::string& run) const {
    return metrics_in(folder_ / run, "test").back();
  }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "recall.yaml";
};

TEST_F(PrecisionTest, RecallIsLearntInBf16AsInF32) {
  train("f32", {});
  train("bf16", {"train.precision=bf16"});
  for (const char* run : {"f32", "bf16"}) {
    EXPECT_GT(last_test(run).at("accuracy").get<double>(), 0.98) << run;
  }
  EXPECT_NE(last_test("f32").at("loss"), last_test("bf16").at("loss"));
}

TEST_F(PrecisionTest, SaysWhereTheProcessorHasNoneOfIts) {
  const std::string line = "precision bf16: this processor has no products of bf16";
  const std::vector<std::string> steps = {"train.max_steps=20", "eval.every=0"};
  std::vector<std::string> bf16 = steps;
  bf16.push_back("train.precision=bf16");
  const Surroundings without = {.environment = {{"MOBIUS_ISA", "avx2"}}};
  EXPECT_THAT(train("emulated", bf16, without).out, HasSubstr(line));
  EXPECT_THAT(train("f32", steps, without).out, Not(HasSubstr(line)));
  const std::string native = train("native", bf16).out;
  if (backend_for({}).has_bf16_products) {
    EXPECT_THAT(native, Not(HasSubstr(line)));
  } else {
    EXPECT_THAT(native, HasSubstr(line));
  }
  // The numbers are equal up to the order of sums.
  const double loss = last_test("native").at("loss");
  EXPECT_NEAR(last_test("emulated").at("loss"), loss, 1e-3 * loss);
}

TEST_F(PrecisionTest, NamesAnInstructionSetThatCannotBeHad) {
  const Outcome outcome = mobius({"config", "help"}, {.environment = {{"MOBIUS_ISA", "sse9"}}});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "mobius: error: MOBIUS_ISA: expected avx2 or avx512, got 'sse9'\n");
}

TEST_F(PrecisionTest, SaysThatItChangesWhenTheRunGoesOn) {
  train("run", {"train.max_steps=20", "eval.every=0"});
  const Outcome resumed = train(
      "run", {"train.max_steps=30", "eval.every=0", "train.precision=bf16", "--resume", "auto"});
  EXPECT_THAT(resumed.out, HasSubstr("resume: train.precision was f32, now bf16"));
}

}  // namespace
}  // namespace mobius::precision_test
