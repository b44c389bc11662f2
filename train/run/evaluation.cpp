#include "train/run/evaluation.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <sstream>
#include <string>

#include "core/cpu/simd/flush_to_zero.h"
#include "data/prepared_batch.h"

namespace mobius {

namespace {

constexpr std::size_t counted_numbers = 6;  // the others are summaries

// The numbers of a test batch that ranks exchange.
struct TestResult {
  std::vector<double> numbers;
  std::string names;  // of its summaries, a line each
};

TestResult test_batch(const LanguageModel& model, const Batch& batch) {
  const auto [tokens, labels] = prepare(batch, model.vocab_size(), model.device());
  DiagnosticsSink sink;
  const LossResult loss = model.loss(tokens, labels, {.sink = &sink});
  const std::vector<double> sums = loss.sums.to_vector<double>();
  TestResult result{{sums[0], static_cast<double>(labels.count()), sums[1],
                     static_cast<double>(labels.n_scored()), static_cast<double>(batch.group),
                     static_cast<double>(batch.inputs.size(0))},
                    {}};
  for (const auto& [name, value] : sink.summaries()) {
    result.names += name + "\n";
    result.numbers.push_back(value);
  }
  return result;
}

// Takes the names from the root, which has the first batch: other ranks may have no batch.
NamedNumbers named_zeros(const std::optional<TestResult>& own, Communicator& communicator) {
  std::istringstream lines(communicator.broadcast(own ? own->names : ""));
  NamedNumbers summaries;
  for (std::string name; std::getline(lines, name);) summaries.emplace_back(name, 0);
  return summaries;
}

// Gives every rank the numbers of all, one after the other. Sums with zeros are exact.
std::vector<double> exchange(const std::optional<TestResult>& own, std::size_t width,
                             Communicator& communicator) {
  std::vector<double> rows(static_cast<std::size_t>(communicator.size()) * width);
  if (own) {
    if (own->numbers.size() != width)
      throw Error("evaluation: a batch has {} summaries, and the first had {}",
                  own->numbers.size() - counted_numbers, width - counted_numbers);
    std::copy(own->numbers.begin(), own->numbers.end(),
              rows.begin() + communicator.rank() * static_cast<std::ptrdiff_t>(width));
  }
  communicator.sum(rows);
  return rows;
}

void add(std::span<const double> numbers, Evaluation& evaluation) {
  const Score score{numbers[0], std::llround(numbers[1]), std::llround(numbers[2]),
                    std::llround(numbers[3])};
  evaluation.total += score;
  evaluation.groups.at(static_cast<std::size_t>(numbers[4])).second += score;
  for (std::size_t i = 0; i < evaluation.summaries.size(); ++i)
    evaluation.summaries[i].second += numbers[counted_numbers + i] * numbers[5];
}

}  // namespace

// Works in rounds of one batch per rank. All ranks take part, also those without a batch in the
// last.
std::optional<Evaluation> evaluate(const LanguageModel& model, const Task& task,
                                   std::int64_t batch_size, Communicator& communicator,
                                   const std::function<bool()>& is_stopped) {
  const NoGradGuard no_grad;
  const FlushToZero flush;
  Evaluation evaluation;
  for (const std::string& group : task.groups()) evaluation.groups.emplace_back(group, Score{});
  double n_sequences = 0;
  const auto n_batches = static_cast<std::int64_t>(task.test_batches(batch_size));
  for (std::int64_t first = 0; first < n_batches; first += communicator.size()) {
    if (communicator.any(is_stopped())) return std::nullopt;
    const std::int64_t mine = first + communicator.rank();
    std::optional<TestResult> own;
    if (mine < n_batches) {
      own =
          test_batch(model, task.batch(Split::test, static_cast<std::uint64_t>(mine), batch_size));
    }
    if (first == 0) evaluation.summaries = named_zeros(own, communicator);
    const std::size_t width = counted_numbers + evaluation.summaries.size();
    const std::vector<double> rows = exchange(own, width, communicator);
    const auto n_results =
        static_cast<std::size_t>(std::min<std::int64_t>(communicator.size(), n_batches - first));
    for (std::size_t i = 0; i < n_results; ++i) {
      add(std::span(rows).subspan(i * width, width), evaluation);
      n_sequences += rows[i * width + 5];
    }
  }
  for (auto& [name, value] : evaluation.summaries) value /= n_sequences;
  return evaluation;
}

}  // namespace mobius
