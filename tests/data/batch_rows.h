// Batches as plain rows, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "data/task.h"

namespace mobius {

struct Sequence {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> labels;
  bool operator==(const Sequence&) const = default;
  auto operator<=>(const Sequence&) const = default;
};

inline std::vector<Sequence> rows_of(const Batch& batch) {
  const std::int64_t n = batch.inputs.size(1);
  const std::int32_t* inputs = batch.inputs.data<std::int32_t>();
  const std::int32_t* labels = batch.labels.data<std::int32_t>();
  std::vector<Sequence> rows;
  for (std::int64_t row = 0; row < batch.inputs.size(0); ++row)
    rows.push_back(
        {{inputs + row * n, inputs + (row + 1) * n}, {labels + row * n, labels + (row + 1) * n}});
  return rows;
}

/// Returns the share of the scored positions for which predict(sequence, position) is the label.
template <typename Predict>
double accuracy(const Batch& batch, Predict predict) {
  const std::vector<Sequence> rows = rows_of(batch);
  const std::size_t n = rows.front().inputs.size();
  const std::uint8_t* scored = batch.scored.defined() ? batch.scored.data<std::uint8_t>() : nullptr;
  double right = 0, counted = 0;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t t = 0; t < n; ++t) {
      const std::int32_t label = rows[row].labels[t];
      if (label == ignored_label || (scored && scored[row * n + t] == 0)) continue;
      ++counted;
      right += predict(rows[row], t) == label;
    }
  return right / counted;
}

}  // namespace mobius
