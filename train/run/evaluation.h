// One pass over the test sequences, and what the attention layers say about themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/comm/communicator.h"
#include "data/task.h"
#include "nn/language_model.h"
#include "train/recording/score.h"

namespace mobius {

struct Evaluation {
  Score total;
  std::vector<Score> groups;  ///< in the order of Task::groups()
  NamedNumbers summaries;     ///< means of DiagnosticsSink::summaries() over the sequences
};
/// The scores of the groups, by name.
NamedScores named_groups(const Evaluation& evaluation, const Task& task);

/// All test sequences, in batches of batch_size. Draws no random number.
Evaluation evaluate(const LanguageModel& model, const Task& task, std::int64_t batch_size);
/// The same by all ranks, a batch each at a time, and to the same bits however many there are; but
/// nothing once `is_stopped`, asked before every batch, says so on one of them.
std::optional<Evaluation> evaluate(const LanguageModel& model, const Task& task,
                                   std::int64_t batch_size, Communicator& communicator,
                                   const std::function<bool()>& is_stopped);

/// What every attention layer says about itself on sequences of tokens, [B, N].
std::vector<LayerDiagnostics> diagnose(const LanguageModel& model, const Tensor& tokens,
                                       Diagnosis diagnosis);

}  // namespace mobius
