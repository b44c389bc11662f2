// On a device, a training step waits for nothing: what it computes stays there until it is read.
#include "train/run/step.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <tuple>

#include "data/mqar.h"
#include "tests/guarded/guarded_device.h"
#include "tests/train/run_fixture.h"
#include "train/optim/sharding.h"

namespace mobius::guarded_step_test {
namespace {

using testing::guarded_counts;
using testing::guarded_device;

constexpr std::int64_t n_steps = 10, log_every = 5, micro_batches = 2;

struct Setting {
  std::string attention, optimizer;
  Positions positions = Positions::learned;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.attention << " with " << setting.optimizer;
}

std::unique_ptr<Task> small_task() {
  MqarOptions options;
  options.vocab = 32;
  options.seq_len = 16;
  options.n_pairs = 2;
  return options.build(/*seed=*/1);
}

// What is read at a line of metrics.
using Line = std::tuple<double, std::int64_t, double>;  // loss sum, right predictions, norm

// A model in training, with everything that a step of the trainer does.
class Training {
 public:
  Training(const Setting& setting, Device device)
      : model_(model_options(setting), *builtin_attentions().choose(setting.attention),
               task_->vocab_size(), task_->max_seq_len(), /*init_seed=*/1, DType::f32, device),
        optimizer_(
            builtin_optimizers().choose(setting.optimizer)->build(trained_parameters(model_))),
        rank_(device),
        sum_(rank_, optimizer_->arena()) {}

  StepBatch batch(std::int64_t step) const {
    return prepare_step(task_->batch(Split::train, static_cast<std::uint64_t>(step), 8),
                        micro_batches, model_);
  }

  void train(const StepBatch& batch, std::int64_t step) {
    model_.zero_grad();
    score_ = accumulate_gradients(model_, batch, /*seed=*/1, step, sum_);
    optimizer_->clipped_step(/*learning_rate=*/1e-2, /*max_norm=*/0.5, rank_);
    gather_parameters(*optimizer_, rank_);
  }

  Line read(std::int64_t step) {
    const Score score = read_score(score_, model_, step, rank_);
    return {score.loss_sum, score.n_correct, finite_gradient_norm(*optimizer_, step)};
  }

 private:
  static ModelOptions model_options(const Setting& setting) {
    ModelOptions options;
    options.d_model = 16;
    options.n_layers = 2;
    options.n_heads = 2;
    options.dropout = 0.1;
    options.positions = setting.positions;
    return options;
  }

  std::unique_ptr<Task> task_ = small_task();
  LanguageModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  OneRank rank_;
  GradientSum sum_;
  StepScore score_;
};

class GuardedStep : public ::testing::TestWithParam<Setting> {};

TEST_P(GuardedStep, WaitsForNothingAndCopiesNothingBetweenTwoLinesOfMetrics) {
  Training on_device(GetParam(), guarded_device), on_cpu(GetParam(), Device{});
  for (std::int64_t step = 1; step <= n_steps; ++step) {
    testing::reset_guarded_counts();
    const StepBatch batch = on_device.batch(step);
    EXPECT_EQ(guarded_counts().copies_to_host, 0) << "preparing batch " << step;
    EXPECT_GT(guarded_counts().copies_from_host, 0);

    testing::reset_guarded_counts();
    on_device.train(batch, step);
    EXPECT_EQ(guarded_counts().copies_to_host, 0) << "step " << step;
    EXPECT_EQ(guarded_counts().copies_from_host, 0) << "step " << step;
    EXPECT_GT(guarded_counts().kernels, 100);

    on_cpu.train(on_cpu.batch(step), step);
    if (step % log_every == 0) {
      EXPECT_EQ(on_device.read(step), on_cpu.read(step));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GuardedStep,
    ::testing::Values(Setting{"softmax", "adamw"}, Setting{"softmax", "sgd"},
                      Setting{"conformal", "adamw"}, Setting{"conformal", "sgd"},
                      Setting{"softmax", "adamw", Positions::rope}, Setting{"linear", "adamw"}),
    [](const auto& chosen) {
      const Setting& setting = chosen.param;
      const bool has_rope = setting.positions == Positions::rope;
      return setting.attention + "_" + setting.optimizer + (has_rope ? "_rope" : "");
    });

// ---- whole runs

class GuardedRun : public ::testing::Test {
 protected:
  // With one line of metrics, one test and one checkpoint, all at the end; as long as it goes well.
  void train(const std::string& device, std::int64_t steps,
             const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"train.max_steps=" + std::to_string(steps),
                                    "train.log_every=" + std::to_string(steps), "eval.every=1000",
                                    "checkpoint.every=1000", "train.clip_grad_norm=0.5"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const auto config = config_of(kTinyRun, all, known_);
    config->train.device = device;
    config->output.dir = (folder_ / std::to_string(n_runs_++)).string();
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> quiet(std::tmpfile(), std::fclose);
    Progress progress(quiet.get());
    run_training(*config, {}, known_, progress, StopSignal());
  }

  std::int64_t reads(std::int64_t steps, const std::vector<std::string>& overrides) {
    testing::reset_guarded_counts();
    train("test", steps, overrides);
    return guarded_counts().copies_to_host;
  }

  const Registries known_;
  TemporaryFolder folder_;
  int n_runs_ = 0;
};

TEST_F(GuardedRun, ReadsNothingMoreForMoreSteps) {
  for (const std::string attention : {"softmax", "conformal"}) {
    for (const std::string optimizer : {"adamw", "sgd"}) {
      const std::vector<std::string> overrides = {"attention.kind=" + attention,
                                                  "optimizer.name=" + optimizer};
      EXPECT_EQ(reads(20, overrides), reads(10, overrides)) << attention << " " << optimizer;
    }
  }
}

// Where nobody looks before step 10, the steps after the bad one change nothing.
TEST_F(GuardedRun, NamesTheStepThatDivergedLongBeforeItIsRead) {
  for (const std::string device : {"cpu", "test"}) {
    EXPECT_THAT(error_of<TrainingDiverged>([&] { train(device, 10, {"optimizer.lr=1e30"}); }),
                ::testing::StartsWith("step 2: the "))
        << device;
  }
}

}  // namespace
}  // namespace mobius::guarded_step_test
