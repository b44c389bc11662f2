// Makes a page to look at: one HTML file that needs no other file and no network.
#pragma once

#include <string>
#include <string_view>

namespace mobius {

/// What differs between pages. Their style, the functions in train/page/parts.js and Chart.js are
/// there for every script.
struct PageParts {
  std::string_view title;    // as the browser shows it
  std::string_view maker;    // the command: "mobius compare"
  std::string_view content;  // HTML of the body, which the script fills
  std::string_view script;   // JavaScript, which finds the data as `report`
};

/// Returns the page. `json` may contain any text: it cannot end the element that holds it. For
/// scripts and tests, the root element has the attributes `data-errors` (a count) and, once the
/// script has set it, `data-ready`.
std::string to_page(const PageParts& parts, std::string_view json);

}  // namespace mobius
