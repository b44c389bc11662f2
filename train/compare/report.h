// A comparison as a page to look at.
#pragma once

#include <string>

#include "train/compare/comparison.h"

namespace mobius {

/// One HTML file that needs nothing else, no network either: tables, plots, configurations. A
/// figure without data is left out, and the page says why. For scripts and tests, the root element
/// has the attributes `data-errors` (how many occurred on the page) and `data-ready`, and each
/// figure that shows something `data-drawn`.
std::string to_html(const Comparison& comparison);

}  // namespace mobius
