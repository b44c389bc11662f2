#include "train/results/result_files.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/input_file.h"
#include "train/io/file.h"
#include "train/results/results_json.h"
#include "train/results/results_markdown.h"
#include "train/results/svg.h"

namespace mobius {

namespace fs = std::filesystem;

void require_own_results(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::string_view mark = "mobius experiment";
  constexpr std::size_t head = 2048;
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) continue;
    const std::string content = content_of(path).substr(0, head);
    if (content.empty() || content.find(mark) != std::string::npos) continue;
    throw ConfigError("{}: was not written by an experiment; choose another folder by --out DIR",
                      path.string());
  }
}

void write_results(const fs::path& folder, const StudyReport& report) {
  std::vector<std::pair<std::string, std::string>> files = {
      {report.name + ".json", to_json(report)}};
  for (const Figure& figure : report.result.figures)
    files.emplace_back(svg_name(report.name, figure), to_svg(figure));
  std::vector<std::string> names;
  for (const auto& [name, text] : files) names.push_back(name);
  require_own_results(folder, names);
  make_folder(folder);
  for (const auto& [name, text] : files) {
    remove_abandoned(folder / name);
    write_whole_file(folder / name, text);
  }
}

}  // namespace mobius
