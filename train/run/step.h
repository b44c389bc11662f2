// One training step.
#pragma once

#include <cstdint>
#include <vector>

#include "core/comm/communicator.h"
#include "core/error.h"
#include "data/task.h"
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

/// Counts what a model predicted for the labelled positions of a batch.
Score score_of(const LossResult& result, const Batch& batch);

/// Adds the gradient of the batch's mean loss over all its labelled positions to the parameters, by
/// way of `micro_batches` parts of about equal size, one after another: the result is that of the
/// whole batch up to rounding, however the labels are spread over the parts. Dropout depends on
/// (seed, step, part). `step` counts from 1, the first. Throws TrainingDiverged, naming it, where
/// the loss is not finite.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step);
/// The same for a batch that is spread over ranks, `batch` being the sequences of this one.
/// Gradients, score and what is thrown are those of the whole, the same on every rank. `sink` takes
/// what the layers say about the last part of this rank.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step, GradientSum& ranks,
                           DiagnosticsSink* sink = nullptr);

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
