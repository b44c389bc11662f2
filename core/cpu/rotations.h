// The angles of rotary position embedding (docs/MATH.md, section 5), as a table made once per call.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "core/cpu/rows.h"
#include "core/parallel.h"
#include "core/round.h"

namespace mobius {

/// [n, half] cosines and sines of sign * position * base^(-t / half), position = offset + row. The
/// angles are in double, because they reach thousands of turns.
template <class T>
struct Rotations {
  std::vector<T> cosines, sines;

  Rotations(std::int64_t n, std::int64_t half, double base, std::int64_t offset, int sign)
      : cosines(static_cast<std::size_t>(n * half)), sines(cosines.size()) {
    std::vector<double> frequencies(static_cast<std::size_t>(half));
    for (std::size_t t = 0; t < frequencies.size(); ++t)
      frequencies[t] = std::pow(base, -static_cast<double>(t) / static_cast<double>(half));
    // A cosine costs as much as some tens of elements of an ordinary pass. So one row of `stride`
    // is computed, and the rows after it are rotated from it by the first few angles.
    constexpr std::int64_t stride = 16;
    const auto turn = [&](std::int64_t position, std::size_t t) {
      return std::polar(1.0, sign * static_cast<double>(position) * frequencies[t]);
    };
    std::vector<std::complex<double>> steps(static_cast<std::size_t>(stride * half));
    for (std::int64_t i = 0; i < stride; ++i) {
      for (std::size_t t = 0; t < frequencies.size(); ++t)
        steps[static_cast<std::size_t>(i * half) + t] = turn(i, t);
    }
    parallel_for_each(ceil_div(n, stride), row_grain(8 * stride * half), [&](std::int64_t block) {
      for (std::size_t t = 0; t < frequencies.size(); ++t) {
        const std::complex<double> first = turn(offset + block * stride, t);
        fill(first, steps.data() + t, block * stride, std::min(n, (block + 1) * stride), half,
             static_cast<std::int64_t>(t));
      }
    });
  }

 private:
  // Column t of rows [begin, end): the turn `first` of row begin, turned on.
  void fill(std::complex<double> first, const std::complex<double>* steps, std::int64_t begin,
            std::int64_t end, std::int64_t half, std::int64_t t) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::complex<double> step = steps[(i - begin) * half];
      const auto at = static_cast<std::size_t>(i * half + t);
      cosines[at] = static_cast<T>(first.real() * step.real() - first.imag() * step.imag());
      sines[at] = static_cast<T>(first.real() * step.imag() + first.imag() * step.real());
    }
  }
};

}  // namespace mobius
