// A comparison as a table to read and as files for other programs.
#pragma once

#include <string>
#include <string_view>

#include "train/compare/comparison.h"

namespace mobius {

/// The files that `mobius compare` writes into its folder.
inline constexpr std::string_view comparison_csv = "comparison.csv";
inline constexpr std::string_view comparison_json = "comparison.json";
inline constexpr std::string_view comparison_page = "report.html";

/// One line a variant, the best first: mean +- deviation over the seeds of its best learning rate.
std::string to_text(const Comparison& comparison);

/// One line a variant, then one a run, told apart by the column `level`. Means and deviations of a
/// variant are over the complete runs of its best learning rate; a run has no deviations.
std::string to_csv(const Comparison& comparison);

/// Everything: `metric`, `variants` (with each learning rate tried) and `runs`, each with the
/// values of the keys that differ. docs/comparisons.md lists the fields.
std::string to_json(const Comparison& comparison);

}  // namespace mobius
