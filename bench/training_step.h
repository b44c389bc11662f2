// Times training steps with the components of the trainer.
#pragma once

#include <functional>
#include <vector>

#include "bench/timing.h"
#include "train/optim/optimizer.h"
#include "train/run/step.h"

namespace mobius {

/// Returns the times in ms, ascending, of `steps` steps after `warmup` untimed ones. A step
/// computes the gradients of the batch, updates with AdamW (default options) and reads the loss.
/// Making the batch is not timed.
inline std::vector<double> time_steps(LanguageModel& model,
                                      const std::function<Batch(std::int64_t step)>& batch_of,
                                      std::int64_t warmup, std::int64_t steps) {
  const auto optimizer = AdamWOptions().build(trained_parameters(model));
  OneRank rank;
  GradientSum alone(rank, optimizer->arena());
  std::vector<double> ms;
  for (std::int64_t step = 1; step <= warmup + steps; ++step) {
    const StepBatch batch = prepare_step(batch_of(step), /*micro_batches=*/1, model);
    const double took = ms_of([&] {
      model.zero_grad();
      const StepScore score = accumulate_gradients(model, batch, /*seed=*/1, step, alone);
      read_score(score, model, step, rank);
      optimizer->step(1e-3);
      wait_for(model.device());
    });
    if (step > warmup) ms.push_back(took);
  }
  std::sort(ms.begin(), ms.end());
  return ms;
}

}  // namespace mobius
