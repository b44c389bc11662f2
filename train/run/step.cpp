#include "train/run/step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/ops.h"

namespace mobius {

namespace {

// Returns a view.
Batch part_of(const Batch& batch, const Share& share) {
  Batch part = batch;
  for (Tensor* rows : {&part.inputs, &part.labels, &part.scored}) {
    if (rows->defined()) *rows = rows->slice(0, share.begin, share.end);
  }
  return part;
}

}  // namespace

StepBatch prepare_step(const Batch& batch, std::int64_t micro_batches, const LanguageModel& model) {
  StepBatch prepared;
  prepared.seq_len = batch.inputs.size(1);
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    const Batch part = part_of(batch, share_of(batch.inputs.size(0), i, micro_batches));
    prepared.parts.push_back(prepare(part, model.vocab_size(), model.device()));
    prepared.n_labels += prepared.parts.back().labels.count();
    prepared.n_scored += prepared.parts.back().labels.n_scored();
  }
  return prepared;
}

StepScore accumulate_gradients(LanguageModel& model, const StepBatch& batch, std::uint64_t seed,
                               std::int64_t step, GradientSum& ranks, DiagnosticsSink* sink) {
  Communicator& communicator = ranks.communicator();
  std::array<double, 2> counts = {static_cast<double>(batch.n_labels),
                                  static_cast<double>(batch.n_scored)};
  communicator.sum(counts);  // on the host, without waiting for the device
  StepScore score{Tensor::zeros({2}, DType::f64, model.device()), std::llround(counts[0]),
                  std::llround(counts[1])};
  const auto n_parts = static_cast<std::uint64_t>(batch.parts.size());
  for (std::uint64_t i = 0; i < n_parts; ++i) {
    const bool is_last = i + 1 == n_parts;
    if (is_last) ranks.start();
    const auto part = static_cast<std::uint64_t>(communicator.rank()) * n_parts + i;
    const RngKey rng{seed, stream_id("forward", static_cast<std::uint64_t>(step), part)};
    const ForwardContext context{.training = true, .rng = rng, .sink = is_last ? sink : nullptr};
    const auto& [tokens, labels] = batch.parts[i];
    const LossResult result = model.loss(tokens, labels, context, counts[0]);
    score.sums.add_(result.sums);
    backward(result.loss);
  }
  ranks.finish();
  return score;
}

Score read_score(const StepScore& score, const LanguageModel& model, std::int64_t step,
                 Communicator& communicator) {
  std::vector<double> sums = score.sums.to_vector<double>();
  communicator.sum(sums);
  require_finite_loss(model, "loss", sums[0], step);
  return {sums[0], score.n_labels, std::llround(sums[1]), score.n_scored};
}

}  // namespace mobius
