// One training step.
#pragma once

#include <cstdint>

#include "core/comm/communicator.h"
#include "data/task.h"
#include "nn/language_model.h"
#include "train/optim/finite.h"
#include "train/optim/gradient_sum.h"
#include "train/recording/score.h"

namespace mobius {

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
/// Gradients, score and what is thrown are those of the whole, the same on every rank.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step, GradientSum& ranks);

}  // namespace mobius
