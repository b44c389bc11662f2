// Gradients of a whole model, to compare.
#pragma once

#include <cmath>
#include <vector>

#include "nn/module.h"

namespace mobius {

/// Of all parameters, one after another.
inline std::vector<double> gradients_of(const Module& model) {
  std::vector<double> values;
  for (const auto& [name, value] : model.parameters()) {
    const std::vector<double> part = value.grad().to_vector<double>();
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

/// Their Euclidean norm, all together.
inline double gradient_norm(const Module& model) {
  double sum = 0;
  for (const double value : gradients_of(model)) sum += value * value;
  return std::sqrt(sum);
}

/// |a - b| / |b|.
inline double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace mobius
