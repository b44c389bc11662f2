// Numbers as readers of results want them.
#pragma once

#include <string>

#include "train/studies/study.h"

namespace mobius {

/// "64", "0.0643", "1.234e-5", "inf", "nan": a whole number in full, up to a million; others with
/// four digits.
std::string short_number(double value);

/// A text as it is, a number as above.
std::string cell_text(const Cell& cell);

}  // namespace mobius
