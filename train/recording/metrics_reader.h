// Reads metrics.jsonl back, also while a run writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nn/diagnostics.h"

namespace mobius {

/// What a line of metrics.jsonl says of the model; a number that was not finite is left out.
struct MetricsPoint {
  std::int64_t step = 0;
  std::string split;  ///< "train" or "test"
  std::optional<double> loss;
  std::optional<double> accuracy;
  /// What the attention said, whatever it is called: each number's mean over heads and layers.
  NamedNumbers attention = {};
};

/// Nothing where the line is none of metrics.jsonl.
std::optional<MetricsPoint> parse_metrics_line(const std::string& line);

constexpr std::uintmax_t all_of_the_file = std::numeric_limits<std::uintmax_t>::max();

/// The whole lines in the last `bytes` of the file, in order. A line that is cut short, or that is
/// no line of metrics, is passed over; where there is no file, there are none.
std::vector<MetricsPoint> read_metrics(const std::filesystem::path& path,
                                       std::uintmax_t bytes = all_of_the_file);

}  // namespace mobius
