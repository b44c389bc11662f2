#include "train/recording/metrics_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "data/input_file.h"
#include "train/recording/json_counts.h"

namespace mobius {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

std::optional<double> number_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// The lists of numbers in an array of one object a layer.
NamedNumbers means_of(const Json& layers) {
  DiagnosticsSink sink;
  for (const Json& layer : layers) {
    sink.begin_layer();
    for (const auto& [name, heads] : layer.items()) {
      const bool is_list =
          heads.is_array() &&
          std::all_of(heads.begin(), heads.end(), [](const Json& x) { return x.is_number(); });
      if (is_list) sink.tell({name, heads.get<std::vector<double>>(), /*summary=*/name});
    }
  }
  return sink.summaries();
}

}  // namespace

std::optional<MetricsPoint> parse_metrics_line(const std::string& line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !holds_counts(object, {"step"}) || !object.contains("step") ||
      !object.contains("split") || !object["split"].is_string()) {
    return std::nullopt;
  }
  return MetricsPoint{object["step"].get<std::int64_t>(), object["split"].get<std::string>(),
                      number_in(object, "loss"), number_in(object, "accuracy"),
                      means_of(object.value("attention", Json::array()))};
}

std::vector<MetricsPoint> read_metrics(const fs::path& path, std::uintmax_t bytes) {
  std::vector<MetricsPoint> points;
  if (!fs::exists(path)) return points;
  const InputFile file(path);
  std::string text(std::min<std::uintmax_t>(file.size(), bytes), '\0');
  file.read(file.size() - text.size(), std::as_writable_bytes(std::span(text)));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    if (auto point = parse_metrics_line(line)) points.push_back(*std::move(point));
  }
  return points;
}

}  // namespace mobius
