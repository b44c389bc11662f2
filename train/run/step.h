// One training step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/comm/communicator.h"
#include "core/error.h"
#include "data/prepared_batch.h"
#include "nn/language_model.h"
#include "train/optim/gradient_sum.h"
#include "train/optim/optimizer.h"
#include "train/recording/score.h"

namespace mobius {

/// A loss, a gradient or what an update made is not finite. Nothing of it is kept.
class TrainingDiverged : public Error {
 public:
  using Error::Error;
};

/// The sequences of one rank for a step, made ready in parts of about equal size that are worked on
/// one after another.
struct StepBatch {
  std::vector<PreparedBatch> parts;
  std::int64_t n_labels = 0;  ///< of all parts
  std::int64_t n_scored = 0;  ///< of all parts
  std::int64_t seq_len = 0;
};
/// For the vocabulary and the device of the model. Throws Error as prepare() does, with positions
/// within a part. May run beside a step, on another thread.
StepBatch prepare_step(const Batch& batch, std::int64_t micro_batches, const LanguageModel& model);

/// The score of a step whose sums are still in the memory of the device.
struct StepScore {
  Tensor sums;                ///< as LossResult::sums, of this rank's labels
  std::int64_t n_labels = 0;  ///< of all ranks
  std::int64_t n_scored = 0;  ///< of all ranks
};

/// Adds the gradient of the mean loss over all labelled positions of all ranks to the parameters:
/// the result is that of one whole batch up to rounding, however the labels are spread over parts
/// and ranks. Dropout depends on (seed, step, part). `step` counts from 1, the first. Nothing is
/// read back from the device: a loss that is not finite leaves such gradients. `sink` takes what
/// the layers say about the last part of this rank.
StepScore accumulate_gradients(LanguageModel& model, const StepBatch& batch, std::uint64_t seed,
                               std::int64_t step, GradientSum& ranks,
                               DiagnosticsSink* sink = nullptr);
/// Reads the score of the whole batch, the same on every rank, and waits for the device to have it.
/// Throws TrainingDiverged, naming the step, where the loss is not finite.
Score read_score(const StepScore& score, const LanguageModel& model, std::int64_t step,
                 Communicator& communicator);

/// Prepares, accumulates and reads at once.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step, GradientSum& ranks);
/// On one rank.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step);

/// Reads the norm of the last clipped step back. Throws TrainingDiverged, naming `step` and the
/// first parameter whose gradient was not finite, where the norm was not, then or in a step before:
/// `step` is the first that changed nothing.
double finite_gradient_norm(const Optimizer& optimizer, std::int64_t step);

/// Throws TrainingDiverged, naming the step and a parameter that is to blame, unless the score of
/// the test sequences is finite.
void require_finite_test(const LanguageModel& model, const Score& test, std::int64_t step);

/// Throws TrainingDiverged, on all ranks alike, naming the step and the first tensor, unless every
/// parameter and all of the optimiser's state is finite: an update may overflow though its gradient
/// did not.
void require_finite_state(const Optimizer& optimizer, std::int64_t step,
                          Communicator& communicator);

}  // namespace mobius
