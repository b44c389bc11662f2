// Limits of numbers, as a user meets them: results that are not finite, integers near 2^63,
// and the instruction set, on which bits depend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/cpu/simd/isa.h"
#include "tests/e2e/run_test.h"

namespace mobius::numbers_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Changes a checkpoint in place.
void rewrite(const fs::path& path,
             const std::function<void(CheckpointHeader&, CheckpointTensors&)>& change) {
  CheckpointHeader header = read_checkpoint_header(path);
  const Registries known;
  const auto config = parse_config(header.config, path.string(), known);
  const Experiment experiment = build_experiment(*config);
  CheckpointTensors tensors = tensors_of(*experiment.model, *experiment.optimizer);
  load_checkpoint(path, tensors);
  change(header, tensors);
  save_checkpoint(path, header, tensors);
}

void set_instruction_set(const fs::path& path, const std::string& name) {
  rewrite(path,
          [&](CheckpointHeader& header, CheckpointTensors&) { header.instruction_set = name; });
}

class NumbersTest : public RunTest {};

TEST_F(NumbersTest, ARunThatGoesOnWithAnotherInstructionSetSaysSo) {
  train("run", {"train.max_steps=20"});
  const fs::path path = step_file(folder_ / "run", 20);
  EXPECT_THAT(mobius({"inspect", path}).out, HasSubstr("instruction set: avx"));
  EXPECT_THAT(train("run", {"train.max_steps=21", "--resume", "auto"}).out,
              Not(HasSubstr("was made with")));

  set_instruction_set(path, "of another machine");
  EXPECT_THAT(mobius({"inspect", path}).out, HasSubstr("instruction set: of another machine\n"));
  EXPECT_THAT(train("other", {"train.max_steps=21", "--resume", path.string()}).out,
              HasSubstr("resume: was made with of another machine, now avx"));

  set_instruction_set(path, "");  // like an earlier version
  EXPECT_THAT(mobius({"inspect", path}).out, Not(HasSubstr("instruction set")));
  EXPECT_THAT(train("older", {"train.max_steps=21", "--resume", path.string()}).out,
              Not(HasSubstr("was made with")));
}

TEST_F(NumbersTest, ATestLossThatIsNotFiniteIsDivergence) {
  const Outcome outcome = try_train("run", {"train.max_steps=1", "eval.every=1", "task.n_test=1",
                                            "schedule.warmup_steps=0", "optimizer.lr=1e30"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.out;
  EXPECT_THAT(outcome.err, StartsWith("mobius: error: step 1: the test loss is "));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  EXPECT_THAT(read_text(folder_ / "run" / "summary.json"), HasSubstr("\"diverged\""));
  EXPECT_FALSE(newest_checkpoint(folder_ / "run" / "checkpoints").path.has_value());
}

// An earlier version could leave such a checkpoint: every parameter is finite, but the loss is not.
TEST_F(NumbersTest, ScoringACheckpointThatIsNotFiniteIsDivergence) {
  train("run", {"train.max_steps=20"});
  const fs::path path = step_file(folder_ / "run", 20);
  rewrite(path, [](CheckpointHeader&, CheckpointTensors& tensors) {
    for (NamedTensor& parameter : tensors.parameters) parameter.value.fill(1e38);
  });
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> arguments = {"eval", path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = mobius(arguments);
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "mobius: error: " + path.string() +
                               ": step 20: the test loss is nan, though every parameter is "
                               "finite: the activations overflow\n");
  }
}

TEST_F(NumbersTest, AnyLargeWindowIsTheSame) {
  const auto losses = [&](const std::string& window) {
    train(window, {"train.max_steps=5", "schedule.warmup_steps=0",
                   "attention={kind: sparse, pattern: local, window: " + window + "}"});
    return metrics_in(folder_ / window);
  };
  EXPECT_EQ(losses("9223372036854775807"), losses("1000"));
}

TEST_F(NumbersTest, AnIntegerThatCannotBeIsRefused) {
  const Outcome outcome = try_train("run", {"model.positions=relative", "attention={kind: softmax}",
                                            "model.max_distance=4611686018427387904"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.max_distance: must be at most"),
                                 HasSubstr("got 4611686018427387904")));
}

}  // namespace
}  // namespace mobius::numbers_test
