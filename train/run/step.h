// One training step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/comm/communicator.h"
#include "data/prepared_batch.h"
#include "nn/language_model.h"
#include "train/optim/finite.h"
#include "train/optim/gradient_sum.h"
#include "train/recording/score.h"

namespace mobius {

/// The sequences of one rank for a step, prepared in parts of about equal size.
struct StepBatch {
  std::vector<PreparedBatch> parts;
  std::int64_t n_labels = 0;  ///< of all parts
  std::int64_t n_scored = 0;  ///< of all parts
  std::int64_t seq_len = 0;
};
/// Prepares a batch for the vocabulary and the device of the model, also beside a step on another
/// thread. Throws Error as prepare() does, with positions within a part.
StepBatch prepare_step(const Batch& batch, std::int64_t micro_batches, const LanguageModel& model);

/// The score of a step whose sums are still in the memory of the device.
struct StepScore {
  Tensor sums;                ///< as LossResult::sums, of this rank's labels
  std::int64_t n_labels = 0;  ///< of all ranks
  std::int64_t n_scored = 0;  ///< of all ranks
};

/// Adds the gradient of the mean loss over all labelled positions of all ranks to the parameters,
/// equal up to rounding to that of one whole batch. Dropout depends on (seed, step, part); `step`
/// counts from 1. Reads nothing back from the device: a loss that is not finite leaves such
/// gradients. `sink` takes what the layers say about the last part of this rank.
StepScore accumulate_gradients(LanguageModel& model, const StepBatch& batch, std::uint64_t seed,
                               std::int64_t step, GradientSum& ranks,
                               DiagnosticsSink* sink = nullptr);
/// Reads the score of the whole batch, equal on all ranks, and waits for the device. Throws
/// TrainingDiverged, naming the step, if the loss is not finite.
Score read_score(const StepScore& score, const LanguageModel& model, std::int64_t step,
                 Communicator& communicator);

}  // namespace mobius
