// Writes a comparison as a table to read and as files for other programs.
#pragma once

#include <string>
#include <string_view>

#include "train/compare/comparison.h"

namespace mobius {

/// The files that `mobius compare` writes into its folder.
inline constexpr std::string_view comparison_csv = "comparison.csv";
inline constexpr std::string_view comparison_json = "comparison.json";
inline constexpr std::string_view comparison_page = "report.html";

/// Writes one line per variant, the best first: mean +- deviation over the seeds of its best
/// learning rate.
std::string to_text(const Comparison& comparison);

/// Writes one line per variant, then one per run, told apart by the column `level`. Means and
/// deviations of a variant are over the complete runs of its best learning rate; a run has no
/// deviations.
std::string to_csv(const Comparison& comparison);

/// Writes everything: `metric`, `variants` (with each learning rate tried) and `runs`, each with
/// the values of the keys that differ. docs/comparisons.md lists the fields.
std::string to_json(const Comparison& comparison);

}  // namespace mobius
