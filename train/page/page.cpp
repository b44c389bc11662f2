#include "train/page/page.h"

#include <utility>
#include <vector>

#include "train/page/embedded.h"

namespace mobius {

namespace {

// Writes JSON that cannot end the script element around it.
std::string script_text(std::string_view json) {
  std::string text;
  for (const char c : json) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

// Replaces each {{name}} of the template by its text, which is not searched again.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string_view>>& texts) {
  std::string result;
  while (true) {
    const std::size_t open = page.find("{{");
    result += page.substr(0, open);
    if (open == std::string_view::npos) return result;
    const std::size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [key, text] : texts) {
      if (key == name) result += text;
    }
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string to_page(const PageParts& parts, std::string_view json) {
  const std::string data = script_text(json);
  return filled(embedded::frame_html, {{"title", parts.title},
                                       {"maker", parts.maker},
                                       {"content", parts.content},
                                       {"script", parts.script},
                                       {"page.css", embedded::page_css},
                                       {"parts.js", embedded::parts_js},
                                       {"chart.js", embedded::chart_js},
                                       {"data", data}});
}

}  // namespace mobius
