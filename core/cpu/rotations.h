// The angles of rotary position embedding (docs/MATH.md, section 5), as a table made once per call.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/cpu/rows.h"
#include "core/parallel.h"

namespace mobius {

/// [n, half] cosines and sines of sign * position * base^(-t / half), position = offset + row; from
/// angles in double, as positions run into the thousands of turns.
template <class T>
struct Rotations {
  std::vector<T> cosines, sines;

  Rotations(std::int64_t n, std::int64_t half, double base, std::int64_t offset, int sign)
      : cosines(static_cast<std::size_t>(n * half)), sines(cosines.size()) {
    std::vector<double> frequencies(static_cast<std::size_t>(half));
    for (std::size_t t = 0; t < frequencies.size(); ++t)
      frequencies[t] = std::pow(base, -static_cast<double>(t) / static_cast<double>(half));
    // A cosine costs as much as some tens of elements of an ordinary pass.
    parallel_for(n, row_grain(32 * half), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::size_t t = 0; t < frequencies.size(); ++t) {
          const double angle = sign * static_cast<double>(offset + i) * frequencies[t];
          const std::size_t at = static_cast<std::size_t>(i * half) + t;
          cosines[at] = static_cast<T>(std::cos(angle));
          sines[at] = static_cast<T>(std::sin(angle));
        }
      }
    });
  }
};

}  // namespace mobius
