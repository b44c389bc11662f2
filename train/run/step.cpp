#include "train/run/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/ops.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

bool is_finite(const Tensor& tensor) { return std::isfinite(sum_of_squares(tensor)); }

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

// `what` is the loss that is not finite.
[[noreturn]] void throw_loss_diverged(const LanguageModel& model, std::string_view what,
                                      double loss, std::int64_t step) {
  for (const auto& [name, value] : model.parameters()) {
    if (is_finite(value.data())) continue;
    throw TrainingDiverged("step {}: the {} is {}, and parameter '{}' is not finite", step, what,
                           printable(loss), name);
  }
  throw TrainingDiverged(
      "step {}: the {} is {}, though every parameter is finite: the activations overflow", step,
      what, printable(loss));
}

// The first parameter or moment of this rank that is not finite, in words; empty where all are.
std::string find_not_finite(const Optimizer& optimizer) {
  for (const TrainedParameter& parameter : optimizer.parameters()) {
    if (!is_finite(parameter.value.data())) return fmt::format("parameter '{}'", parameter.name);
  }
  for (const NamedTensor& tensor : optimizer.state()) {
    if (!is_finite(tensor.value)) return fmt::format("the optimiser's '{}'", tensor.name);
  }
  return "";
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
  const ParameterArena none({});
  GradientSum nothing(alone, none);
  return accumulate_gradients(model, batch, micro_batches, seed, step, nothing);
}

// A loss that is not finite is first made known to all ranks, and then thrown by all of them.
Score accumulate_gradients(LanguageModel& model, const Batch& batch, std::int64_t micro_batches,
                           std::uint64_t seed, std::int64_t step, GradientSum& ranks,
                           DiagnosticsSink* sink) {
  Communicator& communicator = ranks.communicator();
  std::array<double, 1> n_labels = {static_cast<double>(count_labels(batch.labels))};
  communicator.sum(n_labels);
  Score score;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    const bool is_last = i == micro_batches - 1;
    if (is_last) ranks.start();
    const Batch part = part_of(batch, share_of(batch.inputs.size(0), i, micro_batches));
    const auto index = static_cast<std::uint64_t>(communicator.rank() * micro_batches + i);
    const RngKey rng{seed, stream_id("forward", static_cast<std::uint64_t>(step), index)};
    const ForwardContext context{.training = true, .rng = rng, .sink = is_last ? sink : nullptr};
    const LossResult result = model.loss(part.inputs, part.labels, context, n_labels[0]);
    score += score_of(result, part);
    if (!std::isfinite(result.loss_sum)) break;
    backward(result.loss);
  }
  ranks.finish();
  score = sum_over_ranks(score, communicator);
  if (!std::isfinite(score.loss_sum)) throw_loss_diverged(model, "loss", score.loss_sum, step);
  return score;
}

double finite_gradient_norm(const Optimizer& optimizer, std::int64_t step) {
  const GradientNorm norm = optimizer.gradient_norm();
  if (norm.is_finite) return norm.value;
  if (!norm.parameter) {
    throw TrainingDiverged("step {}: the gradient norm is {}", step, printable(norm.value));
  }
  throw TrainingDiverged("step {}: the gradient of '{}' is not finite", step,
                         optimizer.parameters()[*norm.parameter].name);
}

void require_finite_test(const LanguageModel& model, const Score& test, std::int64_t step) {
  if (!test.is_finite()) throw_loss_diverged(model, "test loss", test.loss(), step);
}

void require_finite_state(const Optimizer& optimizer, std::int64_t step,
                          Communicator& communicator) {
  const std::string found = find_not_finite(optimizer);
  if (!communicator.any(!found.empty())) return;
  throw TrainingDiverged("step {}: after the update, {} is not finite", step,
                         found.empty() ? "the optimiser's state of another rank" : found);
}

}  // namespace mobius
