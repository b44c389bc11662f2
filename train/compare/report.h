// Writes a comparison as a page to look at.
#pragma once

#include <string>

#include "train/compare/comparison.h"

namespace mobius {

/// Returns one HTML file with tables, plots and configurations that needs no other file and no
/// network. A figure without data is left out, and the page says why. For scripts and tests, the
/// root element has the attributes `data-errors` (a count) and `data-ready`, and each figure that
/// shows something has `data-drawn`.
std::string to_html(const Comparison& comparison);

}  // namespace mobius
