#include "train/run/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>

#include "core/cpu/simd/flush_to_zero.h"
#include "train/run/step.h"

namespace mobius {

namespace {

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

}  // namespace

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

NamedScores named_groups(const Evaluation& evaluation, const Task& task) {
  NamedScores groups;
  for (std::size_t i = 0; i < evaluation.groups.size(); ++i) {
    groups.emplace_back(task.groups()[i], evaluation.groups[i]);
  }
  return groups;
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
