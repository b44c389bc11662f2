// Files that are part of the program; cmake/Embed.cmake puts them there.
#pragma once

#include <string_view>

namespace mobius::embedded {

extern const std::string_view page_html;  ///< train/compare/report_page/
extern const std::string_view page_css;
extern const std::string_view page_js;
extern const std::string_view chart_js;  ///< Chart.js 3, under the MIT licence

}  // namespace mobius::embedded
