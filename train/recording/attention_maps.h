// What attention layers say about themselves, and their weights for people to see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"
#include "nn/language_model.h"

namespace mobius {

/// Layers and heads, both counted from 1. An empty list chooses all.
struct ChosenHeads {
  std::vector<std::int64_t> layers{};
  std::vector<std::int64_t> heads{};  ///< of each of these layers
};

/// Asks every attention layer about itself on sequences of tokens, [B, N].
std::vector<LayerDiagnostics> diagnose(const LanguageModel& model, const Tensor& tokens,
                                       Diagnosis diagnosis);

/// Writes the attention weights on the first test sequence as one JSON object: `positions`, the
/// number of first positions that it shows, at most 96; `layers`, an array per layer with a matrix
/// per head (a row per query, a column per key; three decimals), null for a head that is not
/// chosen, and empty for such a layer; and `tokens`, these positions of the sequence.
std::string attention_maps_json(const LanguageModel& model, const Task& task,
                                const ChosenHeads& chosen = {});

}  // namespace mobius
