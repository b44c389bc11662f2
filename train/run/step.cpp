#include "train/run/step.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mobius {

namespace {

std::int64_t count_labels(const Tensor& labels) {
  std::int64_t count = 0;
  for (const std::int32_t label : labels.to_vector<std::int32_t>()) count += label != ignored_label;
  return count;
}

Batch part_of(const Batch& batch, const Share& share) {
  const auto rows = [&share](const Tensor& whole) {
    return whole.slice(0, share.begin, share.end).contiguous();
  };
  Batch part = batch;
  part.inputs = rows(batch.inputs);
  part.labels = rows(batch.labels);
  if (batch.scored.defined()) part.scored = rows(batch.scored);
  return part;
}

Score sum_over_ranks(const Score& score, Communicator& communicator) {
  std::array<double, 4> sums = {score.loss_sum, static_cast<double>(score.n_labels),
                                static_cast<double>(score.n_correct),
                                static_cast<double>(score.n_scored)};
  communicator.sum(sums);
  return {sums[0], std::llround(sums[1]), std::llround(sums[2]), std::llround(sums[3])};
}

}  // namespace

Score score_of(const LossResult& result, const Batch& batch) {
  Score score;
  score.loss_sum = result.loss_sum;
  score.n_labels = result.n_labels();
  const std::vector<std::int64_t> positions = result.positions.to_vector<std::int64_t>();
  const std::vector<std::int64_t> predictions = result.predictions.to_vector<std::int64_t>();
  const std::vector<std::int32_t> labels = batch.labels.to_vector<std::int32_t>();
  std::vector<std::uint8_t> scored;
  if (batch.scored.defined()) scored = batch.scored.to_vector<std::uint8_t>();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto position = static_cast<std::size_t>(positions[i]);
    if (!scored.empty() && scored[position] == 0) continue;
    ++score.n_scored;
    score.n_correct += predictions[i] == labels[position];
  }
  return score;
}

Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step) {
  OneRank alone;
  GradientSum nothing(alone, {}, 0);
  return accumulate_gradients(model, batch, micro_batches, seed, step, nothing);
}

// A loss that is not finite is first made known to all ranks, and then thrown by all of them.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step, GradientSum& ranks) {
  Communicator& communicator = ranks.communicator();
  std::array<double, 1> n_labels = {static_cast<double>(count_labels(batch.labels))};
  communicator.sum(n_labels);
  Score score;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    if (i == micro_batches - 1) ranks.start();
    const Batch part = part_of(batch, share_of(batch.inputs.size(0), i, micro_batches));
    const auto index = static_cast<std::uint64_t>(communicator.rank() * micro_batches + i);
    const RngKey rng{seed, stream_id("forward", static_cast<std::uint64_t>(step), index)};
    const LossResult result =
        model.loss(part.inputs, part.labels, {.training = true, .rng = rng}, n_labels[0]);
    score += score_of(result, part);
    if (!std::isfinite(result.loss_sum)) break;
    backward(result.loss);
  }
  ranks.finish();
  score = sum_over_ranks(score, communicator);
  require_finite_loss(model, "loss", score.loss_sum, step);
  return score;
}

}  // namespace mobius
