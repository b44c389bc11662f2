#include "train/step.h"

#include <cmath>

#include "core/ops.h"
#include "train/printable.h"

namespace mobius {

namespace {

bool is_finite(const Tensor& tensor) { return std::isfinite(sum_of_squares(tensor)); }

std::int64_t count_labels(const Tensor& labels) {
  std::int64_t count = 0;
  for (const std::int32_t label : labels.to_vector<std::int32_t>()) count += label != ignored_label;
  return count;
}

Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  Batch part = batch;
  part.inputs = batch.inputs.slice(0, begin, end).contiguous();
  part.labels = batch.labels.slice(0, begin, end).contiguous();
  if (batch.scored.defined()) part.scored = batch.scored.slice(0, begin, end).contiguous();
  return part;
}

[[noreturn]] void throw_loss_diverged(const LanguageModel& model, double loss, std::int64_t step) {
  for (const auto& [name, value] : model.parameters()) {
    if (is_finite(value.data())) continue;
    throw TrainingDiverged("step {}: the loss is {}, and parameter '{}' is not finite", step,
                           printable(loss), name);
  }
  throw TrainingDiverged(
      "step {}: the loss is {}, though every parameter is finite: the activations overflow", step,
      printable(loss));
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
  const auto n_labels = static_cast<double>(count_labels(batch.labels));
  const std::int64_t size = batch.inputs.size(0) / micro_batches;
  Score score;
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    const Batch part = part_of(batch, i * size, (i + 1) * size);
    const RngKey rng{seed, stream_id("forward", static_cast<std::uint64_t>(step),
                                     static_cast<std::uint64_t>(i))};
    const LossResult result =
        model.loss(part.inputs, part.labels, {.training = true, .rng = rng}, n_labels);
    if (!std::isfinite(result.loss_sum)) throw_loss_diverged(model, result.loss_sum, step);
    backward(result.loss);
    score += score_of(result, part);
  }
  return score;
}

double finite_gradient_norm(const std::vector<TrainedParameter>& parameters, std::int64_t step) {
  const double norm = gradient_norm(parameters);
  if (std::isfinite(norm)) return norm;
  for (const TrainedParameter& parameter : parameters) {
    if (!parameter.value.grad().defined() || is_finite(parameter.value.grad())) continue;
    throw TrainingDiverged("step {}: the gradient of '{}' is not finite", step, parameter.name);
  }
  throw TrainingDiverged("step {}: the gradient norm is {}", step, printable(norm));
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

std::vector<AttentionDiagnostics> diagnose(const LanguageModel& model, const Task& task,
                                           std::int64_t batch_size) {
  const NoGradGuard no_grad;
  ForwardContext context;
  context.diagnose = true;
  model.hidden(task.batch(Split::test, 0, batch_size).inputs, context);
  std::vector<AttentionDiagnostics> layers;
  for (const auto& attention : model.attentions()) layers.push_back(attention->diagnostics());
  return layers;
}

Evaluation evaluate(const LanguageModel& model, const Task& task, std::int64_t batch_size) {
  return *evaluate(model, task, batch_size, [] { return false; });
}

std::optional<Evaluation> evaluate(const LanguageModel& model, const Task& task,
                                   std::int64_t batch_size,
                                   const std::function<bool()>& is_stopped) {
  const NoGradGuard no_grad;
  Evaluation evaluation;
  evaluation.groups.resize(task.groups().size());
  double share_sum = 0;
  std::int64_t sequences = 0;
  const std::uint64_t n_batches = task.test_batches(batch_size);
  for (std::uint64_t i = 0; i < n_batches; ++i) {
    if (is_stopped()) return std::nullopt;
    const Batch batch = task.batch(Split::test, i, batch_size);
    const Score score = score_of(model.loss(batch.inputs, batch.labels, {}), batch);
    evaluation.total += score;
    evaluation.groups.at(static_cast<std::size_t>(batch.group)) += score;
    if (const std::optional<double> share = share_beyond_resolution(model)) {
      share_sum += *share * static_cast<double>(batch.inputs.size(0));
      sequences += batch.inputs.size(0);
    }
  }
  if (sequences > 0) {
    evaluation.share_beyond_resolution = share_sum / static_cast<double>(sequences);
  }
  return evaluation;
}

}  // namespace mobius
