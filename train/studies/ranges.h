// Lists of values at which studies evaluate something.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/options/schema.h"

namespace mobius {

/// Makes the schema refuse an empty list for this key; `values` are what its field reads into.
template <typename T>
void require_some(Schema& schema, std::string key, const std::vector<T>& values) {
  schema.check(std::move(key), [&values] {
    if (values.empty()) throw ConfigError("expected at least one number, got none");
  });
}

/// n >= 2 values from first to last, at equal distances.
inline std::vector<double> evenly(double first, double last, std::int64_t n) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(first + (last - first) * static_cast<double>(i) / static_cast<double>(n - 1));
  return values;
}

/// n >= 2 positive values from first to last, at equal ratios.
inline std::vector<double> geometric(double first, double last, std::int64_t n) {
  std::vector<double> values = evenly(std::log(first), std::log(last), n);
  for (double& value : values) value = std::exp(value);
  values.front() = first;
  values.back() = last;
  return values;
}

/// fn of each value.
template <typename Fn>
std::vector<double> each(const std::vector<double>& values, const Fn& fn) {
  std::vector<double> results;
  for (const double value : values) results.push_back(fn(value));
  return results;
}

/// The place between low and high where `holds` becomes true, to a relative 1e-6; `high` if it is
/// not true there.
template <typename Condition>
double first_where(double low, double high, const Condition& holds) {
  if (!holds(high)) return high;
  while (high - low > 1e-6 * high) {
    const double middle = (low + high) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace mobius
