// What the heads of a model look at, for people to see.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/task.h"
#include "nn/language_model.h"

namespace mobius {

/// Layers and heads, both counted from 1; empty: all.
struct ChosenHeads {
  std::vector<std::int64_t> layers{};
  std::vector<std::int64_t> heads{};  ///< of each of these layers
};

/// The attention weights of heads on the first test sequence, as one JSON object: `positions`, how
/// many of the first are in it, at most 96, and `layers`, an array a layer of an array a head of
/// the rows of its matrix (a row a query, a column a key; three decimals), null for a head that is
/// not chosen (and none for such a layer), and `tokens`, these positions of the sequence.
std::string attention_maps_json(const LanguageModel& model, const Task& task,
                                const ChosenHeads& chosen = {});

}  // namespace mobius
