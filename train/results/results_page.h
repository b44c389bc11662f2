// Writes what studies found as a page to look at.
#pragma once

#include <string>
#include <vector>

#include "train/results/study_run.h"

namespace mobius {

/// Returns one HTML file, as to_page() makes it. Each figure that shows something has `data-drawn`.
std::string to_html(const std::vector<StudyReport>& reports);

}  // namespace mobius
