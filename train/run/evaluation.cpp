#include "train/run/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <sstream>
#include <string>

#include "core/cpu/simd/flush_to_zero.h"
#include "data/prepared_batch.h"

namespace mobius {

namespace {

// One test batch.
struct TestResult {
  Score score;
  int group = 0;
  std::int64_t n_sequences = 0;
  NamedNumbers summaries;
};

TestResult test_batch(const LanguageModel& model, const Batch& batch) {
  const auto [tokens, labels] = prepare(batch, model.vocab_size(), model.device());
  DiagnosticsSink sink;
  const LossResult result = model.loss(tokens, labels, {.sink = &sink});
  const std::vector<double> sums = result.sums.to_vector<double>();
  return {{sums[0], labels.count(), std::llround(sums[1]), labels.n_scored()},
          batch.group,
          batch.inputs.size(0),
          sink.summaries()};
}

// The names of the summaries, the same on every rank, also on one that has no batch at all: the
// root always has one.
std::vector<std::string> names_of(const std::optional<TestResult>& own,
                                  Communicator& communicator) {
  std::string lines;
  if (own) {
    for (const auto& [name, value] : own->summaries) lines += name + "\n";
  }
  std::istringstream all(communicator.broadcast(lines));
  std::vector<std::string> names;
  for (std::string name; std::getline(all, name);) names.push_back(name);
  return names;
}

constexpr std::size_t counted_numbers = 6;

void write(const TestResult& result, std::span<double> row) {
  const Score& score = result.score;
  const std::array<double, counted_numbers> numbers = {score.loss_sum,
                                                       static_cast<double>(score.n_labels),
                                                       static_cast<double>(score.n_correct),
                                                       static_cast<double>(score.n_scored),
                                                       static_cast<double>(result.group),
                                                       static_cast<double>(result.n_sequences)};
  std::copy(numbers.begin(), numbers.end(), row.begin());
  if (result.summaries.size() != row.size() - counted_numbers)
    throw Error("evaluation: the layers told {} summaries, and {} of the first batch",
                result.summaries.size(), row.size() - counted_numbers);
  std::transform(result.summaries.begin(), result.summaries.end(), row.begin() + counted_numbers,
                 [](const auto& summary) { return summary.second; });
}

TestResult read(std::span<const double> row, const std::vector<std::string>& names) {
  TestResult result;
  result.score = {row[0], std::llround(row[1]), std::llround(row[2]), std::llround(row[3])};
  result.group = static_cast<int>(row[4]);
  result.n_sequences = std::llround(row[5]);
  for (std::size_t i = 0; i < names.size(); ++i)
    result.summaries.emplace_back(names[i], row[counted_numbers + i]);
  return result;
}

// Every rank gets the results of all: those of rank r in place r, where it has one. Sums with
// zeros are exact.
std::vector<TestResult> exchange(const std::optional<TestResult>& own, std::int64_t count,
                                 const std::vector<std::string>& names,
                                 Communicator& communicator) {
  const std::size_t width = counted_numbers + names.size();
  std::vector<double> rows(static_cast<std::size_t>(communicator.size()) * width);
  const auto row_of = [&rows, width](std::int64_t rank) {
    return std::span(rows).subspan(static_cast<std::size_t>(rank) * width, width);
  };
  if (own) write(*own, row_of(communicator.rank()));
  communicator.sum(rows);
  std::vector<TestResult> results;
  for (std::int64_t rank = 0; rank < count; ++rank) results.push_back(read(row_of(rank), names));
  return results;
}

void add(const TestResult& result, Evaluation& evaluation) {
  evaluation.total += result.score;
  evaluation.groups.at(static_cast<std::size_t>(result.group)) += result.score;
  evaluation.summaries.resize(result.summaries.size());
  for (std::size_t i = 0; i < result.summaries.size(); ++i) {
    const auto& [name, value] = result.summaries[i];
    evaluation.summaries[i].first = name;
    evaluation.summaries[i].second += value * static_cast<double>(result.n_sequences);
  }
}

}  // namespace

std::vector<LayerDiagnostics> diagnose(const LanguageModel& model, const Tensor& tokens,
                                       Diagnosis diagnosis) {
  const NoGradGuard no_grad;
  DiagnosticsSink sink(diagnosis);
  model.hidden(tokens.to(model.device()), {.sink = &sink});
  return sink.layers();
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
  std::vector<std::string> names;
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
    if (first == 0) names = names_of(own, communicator);
    const std::int64_t count = std::min<std::int64_t>(communicator.size(), n_batches - first);
    for (const TestResult& result : exchange(own, count, names, communicator)) {
      add(result, evaluation);
      n_sequences += result.n_sequences;
    }
  }
  for (auto& [name, value] : evaluation.summaries) value /= static_cast<double>(n_sequences);
  return evaluation;
}

}  // namespace mobius
