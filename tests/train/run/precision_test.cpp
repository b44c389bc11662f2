// Training in bf16 mixed precision: weights are f32 and keep every update, and a run may change its
// precision when it goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/ops.h"
#include "tests/train/run_fixture.h"
#include "train/run/experiment.h"

namespace mobius::precision_test {
namespace {

using ::testing::HasSubstr;

// ---- updates smaller than bf16 can tell: its numbers next to 1 are 2^-8 and 2^-7 away

struct Weights {
  TrainedParameter used, unused;  // unused: its gradient is 0, and it only decays
};

Weights ones_after(int steps, const OptimizerOptions& options, MatmulPrecision precision) {
  const Weights weights = {{"used", Variable(Tensor::ones({6, 5}), true), true},
                           {"unused", Variable(Tensor::ones({6, 5}), true), true}};
  const auto optimizer = options.build({weights.used, weights.unused});
  const Variable x(random_uniform({8, 5}, 0.5, 1.5, {4, 1}));
  for (int step = 0; step < steps; ++step) {
    for (const TrainedParameter& parameter : {weights.used, weights.unused}) {
      Variable value = parameter.value;
      value.zero_grad();
      const Variable y = linear(x, value, {}, precision);
      backward(mean(square(y * Variable(Tensor::full({}, parameter.name == "used" ? 1 : 0)))));
    }
    optimizer->step(1e-4);
  }
  return weights;
}

double movement(const TrainedParameter& parameter) {
  return 1 - mean(parameter.value.data()).item();
}

void expect_no_lost_update(const OptimizerOptions& options) {
  const Weights full = ones_after(100, options, MatmulPrecision::full);
  const Weights bf16 = ones_after(100, options, MatmulPrecision::bf16);
  EXPECT_GT(movement(full.used), 5e-3);
  EXPECT_NEAR(movement(bf16.used), movement(full.used), 0.01 * movement(full.used));
  EXPECT_NEAR(movement(full.unused), 1e-3, 1e-5);
  EXPECT_NEAR(movement(bf16.unused), movement(full.unused), 0.01 * movement(full.unused));
  EXPECT_EQ(bf16.used.value.dtype(), DType::f32);
}

TEST(Bf16Training, LosesNoUpdateAndNoDecayOfAdamW) {
  AdamWOptions options;
  options.weight_decay = 0.1;
  expect_no_lost_update(options);
}

TEST(Bf16Training, LosesNoUpdateAndNoDecayOfSgd) {
  SgdOptions options;
  options.weight_decay = 0.1;
  options.momentum = 0;
  expect_no_lost_update(options);
}

// ---- the key

TEST(Precision, IsF32OrBf16) {
  const Registries known;
  const auto config = config_of(kTinyRun, {}, known);
  EXPECT_EQ(config->train.precision, MatmulPrecision::full);
  EXPECT_THAT(resolved_yaml(*config), HasSubstr("  precision: f32\n"));
  const auto bf16 = config_of(kTinyRun, {"train.precision=bf16"}, known);
  EXPECT_EQ(bf16->train.precision, MatmulPrecision::bf16);
  EXPECT_THAT(resolved_yaml(*bf16), HasSubstr("  precision: bf16\n"));
  EXPECT_THAT(error_of([&] { config_of(kTinyRun, {"train.precision=f16"}, known); }),
              HasSubstr("train.precision: unknown choice 'f16'"));
  EXPECT_TRUE(may_change_on_resume(*config, "train.precision"));
}

// ---- runs

class PrecisionRuns : public ::testing::Test {
 protected:
  RunSummary train(const std::string& name, const std::vector<std::string>& overrides,
                   const std::string& resume = "") {
    std::vector<std::string> all = {"schedule.kind=constant"};  // whatever the number of steps
    all.insert(all.end(), overrides.begin(), overrides.end());
    return train_in(folder_ / name, known_, all, resume);
  }
  std::vector<double> losses(const std::string& name) {
    std::vector<double> found;
    for (const std::string& line : lines_of(read_text(folder_ / name / "metrics.jsonl"))) {
      const nlohmann::json object = nlohmann::json::parse(line);
      if (object.at("split") == "train") found.push_back(object.at("loss"));
    }
    return found;
  }

  const Registries known_;
  TemporaryFolder folder_;
};

TEST_F(PrecisionRuns, GoOnInTheOther) {
  const std::string f32 = "train.precision=f32", bf16 = "train.precision=bf16";
  train("f32", {f32});
  train("bf16", {bf16});
  const std::vector<double> in_f32 = losses("f32"), in_bf16 = losses("bf16");
  ASSERT_EQ(in_f32.size(), 6u);
  for (const auto& [first, second] : {std::pair(f32, bf16), std::pair(bf16, f32)}) {
    const std::string name = first + " to " + second;
    train(name, {first, "train.max_steps=4"});
    EXPECT_EQ(train(name, {second}, "auto").status, RunStatus::finished);
    const std::vector<double>& start = first == f32 ? in_f32 : in_bf16;
    const std::vector<double> both = losses(name);
    ASSERT_EQ(both.size(), 6u) << name;
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(both[i] == start[i], i < 4) << name << ", step " << i + 1;
      EXPECT_NEAR(both[i], start[i], 0.01 * start[i]) << name << ", step " << i + 1;
    }
  }
}

TEST_F(PrecisionRuns, InBf16AreTheSameForEveryThreadCountAndAfterAResume) {
  train("straight", {"train.precision=bf16"});
  train("threads", {"train.precision=bf16", "train.threads=2"});
  train("halves", {"train.precision=bf16", "train.max_steps=4"});
  train("halves", {"train.precision=bf16"}, "auto");
  EXPECT_EQ(losses("threads"), losses("straight"));
  EXPECT_EQ(losses("halves"), losses("straight"));
}

}  // namespace
}  // namespace mobius::precision_test
