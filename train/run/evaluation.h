// One pass over the test sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/comm/communicator.h"
#include "data/task.h"
#include "nn/language_model.h"
#include "train/recording/score.h"

namespace mobius {

struct Evaluation {
  Score total;
  NamedScores groups;      ///< in the order of Task::groups()
  NamedNumbers summaries;  ///< means of DiagnosticsSink::summaries() over the sequences
};

/// Scores all test sequences in batches of batch_size, without random numbers. Ranks take a batch
/// each; the result has the same bits for any number of them. Returns nothing once `is_stopped`,
/// asked before every batch, is true on one of them.
std::optional<Evaluation> evaluate(const LanguageModel& model, const Task& task,
                                   std::int64_t batch_size, Communicator& communicator,
                                   const std::function<bool()>& is_stopped);

}  // namespace mobius
