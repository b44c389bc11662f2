// What the heads of a model look at, for people to see.
#pragma once

#include <string>

#include "data/task.h"
#include "nn/language_model.h"

namespace mobius {

/// The attention weights of every head on the first test sequence, as one JSON object: `positions`,
/// how many of the first are in it, at most 96, and `layers`, an array a layer of an array a head
/// of the rows of its matrix (a row a query, a column a key; three decimals), and `tokens`, the
/// sequence.
std::string attention_maps_json(const LanguageModel& model, const Task& task);

}  // namespace mobius
