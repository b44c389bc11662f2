#include "train/run/step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "core/cpu/simd/flush_to_zero.h"
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

// One test batch.
struct TestResult {
  Score score;
  int group = 0;
  std::int64_t n_sequences = 0;
  std::optional<double> share_beyond_resolution;
};

TestResult test_batch(const LanguageModel& model, const Batch& batch) {
  return {score_of(model.loss(batch.inputs, batch.labels, {}), batch), batch.group,
          batch.inputs.size(0), share_beyond_resolution(model)};
}

constexpr std::size_t test_numbers = 8;

void write(const TestResult& result, std::span<double> row) {
  const Score& score = result.score;
  const std::array<double, test_numbers> numbers = {score.loss_sum,
                                                    static_cast<double>(score.n_labels),
                                                    static_cast<double>(score.n_correct),
                                                    static_cast<double>(score.n_scored),
                                                    static_cast<double>(result.group),
                                                    static_cast<double>(result.n_sequences),
                                                    result.share_beyond_resolution ? 1.0 : 0.0,
                                                    result.share_beyond_resolution.value_or(0)};
  std::copy(numbers.begin(), numbers.end(), row.begin());
}

TestResult read(std::span<const double> row) {
  TestResult result;
  result.score = {row[0], std::llround(row[1]), std::llround(row[2]), std::llround(row[3])};
  result.group = static_cast<int>(row[4]);
  result.n_sequences = std::llround(row[5]);
  if (row[6] > 0) result.share_beyond_resolution = row[7];
  return result;
}

// Every rank gets the results of all: those of rank r in place r, where it has one. Sums with
// zeros are exact.
std::vector<TestResult> exchange(const std::optional<TestResult>& own, std::int64_t count,
                                 Communicator& communicator) {
  std::vector<double> rows(static_cast<std::size_t>(communicator.size()) * test_numbers);
  const auto row_of = [&rows](std::int64_t rank) {
    return std::span(rows).subspan(static_cast<std::size_t>(rank) * test_numbers, test_numbers);
  };
  if (own) write(*own, row_of(communicator.rank()));
  communicator.sum(rows);
  std::vector<TestResult> results;
  for (std::int64_t rank = 0; rank < count; ++rank) results.push_back(read(row_of(rank)));
  return results;
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

std::optional<double> share_beyond_resolution(const LanguageModel& model) {
  double sum = 0;
  int layers = 0;
  for (const std::shared_ptr<Attention>& attention : model.attentions()) {
    const double share = attention->share_beyond_resolution();
    if (share < 0) continue;
    sum += share;
    ++layers;
  }
  if (layers == 0) return std::nullopt;
  return sum / layers;
}

std::vector<AttentionDiagnostics> diagnose(const LanguageModel& model, const Tensor& tokens,
                                           Diagnosis diagnosis) {
  const NoGradGuard no_grad;
  ForwardContext context;
  context.diagnosis = diagnosis;
  model.hidden(tokens, context);
  std::vector<AttentionDiagnostics> layers;
  for (const auto& attention : model.attentions()) layers.push_back(attention->diagnostics());
  return layers;
}

Evaluation evaluate(const LanguageModel& model, const Task& task, std::int64_t batch_size) {
  OneRank alone;
  return *evaluate(model, task, batch_size, alone, [] { return false; });
}

// In rounds of a batch a rank, in which all take part: also those for which the last has no batch.
std::optional<Evaluation> evaluate(const LanguageModel& model, const Task& task,
                                   std::int64_t batch_size, Communicator& communicator,
                                   const std::function<bool()>& is_stopped) {
  const NoGradGuard no_grad;
  const FlushToZero flush;
  Evaluation evaluation;
  evaluation.groups.resize(task.groups().size());
  double share_sum = 0;
  std::int64_t n_sequences = 0;
  const auto n_batches = static_cast<std::int64_t>(task.test_batches(batch_size));
  for (std::int64_t first = 0; first < n_batches; first += communicator.size()) {
    if (communicator.any(is_stopped())) return std::nullopt;
    const std::int64_t mine = first + communicator.rank();
    std::optional<TestResult> own;
    if (mine < n_batches) {
      own =
          test_batch(model, task.batch(Split::test, static_cast<std::uint64_t>(mine), batch_size));
    }
    const std::int64_t count = std::min<std::int64_t>(communicator.size(), n_batches - first);
    for (const TestResult& result : exchange(own, count, communicator)) {
      evaluation.total += result.score;
      evaluation.groups.at(static_cast<std::size_t>(result.group)) += result.score;
      if (!result.share_beyond_resolution) continue;
      share_sum += *result.share_beyond_resolution * static_cast<double>(result.n_sequences);
      n_sequences += result.n_sequences;
    }
  }
  if (n_sequences > 0) {
    evaluation.share_beyond_resolution = share_sum / static_cast<double>(n_sequences);
  }
  return evaluation;
}

}  // namespace mobius
