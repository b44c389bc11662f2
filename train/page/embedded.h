// Files that are part of the program; cmake/Embed.cmake puts them there.
#pragma once

#include <string_view>

namespace mobius::embedded {

extern const std::string_view frame_html;  ///< train/page/: what all pages share
extern const std::string_view page_css;
extern const std::string_view parts_js;
extern const std::string_view report_html;  ///< train/compare/report_page/
extern const std::string_view report_js;
extern const std::string_view results_html;  ///< train/results/results_page/
extern const std::string_view results_js;
extern const std::string_view chart_js;  ///< Chart.js 3, under the MIT licence

}  // namespace mobius::embedded
