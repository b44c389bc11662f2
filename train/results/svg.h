// Draws a figure as SVG, for documents.
#pragma once

#include <string>

#include "train/studies/study.h"

namespace mobius {

/// Returns one SVG file: title, axes with ticks, curves or clouds, and a legend. Colours are told
/// apart by readers who do not see red and green. Points that a logarithmic axis cannot show are
/// left out, and a line below the figure counts them; a figure without any point says so.
std::string to_svg(const Figure& figure);

}  // namespace mobius
