#include "train/studies/small_training.h"

#include <chrono>
#include <limits>

#include "core/cpu/simd/flush_to_zero.h"
#include "train/run/evaluation.h"
#include "train/run/step.h"

namespace mobius {

namespace {

Score test_score(const Config& config, const Experiment& experiment, OneRank& rank) {
  return evaluate(*experiment.model, *experiment.task, config.train.micro_batch_size(), rank,
                  [] { return false; })
      ->total;
}

// One step, the one after `step` others.
void train_step(const Config& config, const Experiment& experiment, std::int64_t step,
                GradientSum& alone) {
  const StepBatch batch =
      prepare_step(experiment.task->batch(Split::train, static_cast<std::uint64_t>(step),
                                          config.train.batch_size),
                   config.train.accumulation_steps, *experiment.model);
  experiment.model->zero_grad();
  const StepScore score =
      accumulate_gradients(*experiment.model, batch, config.train.seed, step + 1, alone);
  read_score(score, *experiment.model, step + 1, alone.communicator());
  experiment.optimizer->clipped_step(
      learning_rate(config.schedule, config.optimizer->lr, step, config.train.max_steps),
      config.train.clip_grad_norm.value_or(std::numeric_limits<double>::infinity()),
      alone.communicator());
}

}  // namespace

std::unique_ptr<Config> config_of(const std::string& yaml, const std::string& name,
                                  const Registries& known) {
  return make_config(ConfigDocument::from_text(yaml, name), known);
}

SmallTraining train_in_memory(const Config& config,
                              const std::function<void(std::int64_t step)>& before_step) {
  using Clock = std::chrono::steady_clock;
  const FlushToZero flush;
  SmallTraining training{.experiment = build_experiment(config), .tests = {}};
  const Experiment& experiment = training.experiment;
  OneRank rank;
  GradientSum alone(rank, experiment.optimizer->arena());
  double seconds = 0;
  for (std::int64_t step = 0; step < config.train.max_steps;) {
    before_step(step);
    const auto begin = Clock::now();
    train_step(config, experiment, step, alone);
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++step;
    training.seconds_per_step = seconds / static_cast<double>(step);
    const bool is_tested =
        step == config.train.max_steps || (config.eval.every > 0 && step % config.eval.every == 0);
    if (!is_tested) continue;
    training.tests.push_back({step, test_score(config, experiment, rank)});
    if (config.train.early_stop.is_reached(training.tests.back().score)) break;
  }
  return training;
}

}  // namespace mobius
