#include "train/results/study_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <variant>

#include "core/error.h"
#include "core/path.h"
#include "train/config/reader.h"
#include "train/config/writer.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

constexpr std::string_view experiment_key = "experiment";

// Appends the values of all fields below a schema; `is_changed` keeps those that differ from their
// defaults.
void flatten(const Schema& schema, const std::string& path, bool is_changed,
             StudyOptions& options) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string key = join_path(path, key_of(*entry));
    if (const auto* field = std::get_if<OptionField>(entry)) {
      if (!is_changed || field->value() != field->initial())
        options.emplace_back(key, field->value());
    } else if (const auto* section = std::get_if<OptionSection>(entry)) {
      flatten(section->schema(), key, is_changed, options);
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      for (std::size_t i = 0; i < list->size(); ++i)
        flatten(*list->element(i), join_path(key, std::to_string(i)), is_changed, options);
    } else if (const auto* variant = std::get_if<OptionVariant>(entry);
               variant != nullptr && key != experiment_key) {
      if (!is_changed || variant->current() != variant->initial())
        options.emplace_back(key, variant->current());
    }
  }
}

// Quotes what a shell would not take for one word.
std::string assignment(const std::string& key, const OptionValue& value) {
  const std::string text = key + "=" + to_yaml(value);
  return text.find_first_of(" []{}\"'$&;|<>*?#~\\`!()") == std::string::npos ? text
                                                                             : "'" + text + "'";
}

std::string command_of(const std::string& name, const Schema& schema) {
  StudyOptions changed;
  flatten(schema, "", /*is_changed=*/true, changed);
  std::string command = "mobius experiment " + name;
  for (const auto& [key, value] : changed) command += " " + assignment(key, value);
  return command;
}

bool is_file_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

void require_complete(const Figure& figure, const std::string& study) {
  if (!is_file_name(figure.name))
    throw Error("{}: figure '{}': its name is no file name of small letters, digits, - and _",
                study, figure.name);
  for (const Series& series : figure.series) {
    if (series.x.size() == series.y.size()) continue;
    throw Error("{}: figure {}: series '{}' has {} x and {} y", study, figure.name, series.name,
                series.x.size(), series.y.size());
  }
}

void require_complete(const StudyResult& result, const std::string& study) {
  std::set<std::string> names;
  for (const Figure& figure : result.figures) {
    require_complete(figure, study);
    if (!names.insert(figure.name).second)
      throw Error("{}: two figures are called '{}'", study, figure.name);
  }
  for (const StudyTable& table : result.tables) {
    for (const std::vector<Cell>& row : table.rows) {
      if (row.size() != table.columns.size())
        throw Error("{}: table '{}': a row has {} cells, expected {}", study, table.title,
                    row.size(), table.columns.size());
    }
  }
}

}  // namespace

void StudyConfig::describe(Schema& schema) {
  schema.variant(std::string(experiment_key), study, studies_, "which study to run");
  schema.field("seed", seed, "of everything that is drawn at random").non_negative().unbounded();
}

ConfigDocument study_document(const std::string& experiment, const Registry<Study>& studies) {
  if (studies.contains(experiment))
    return ConfigDocument::from_text(fmt::format("{}: {}\n", experiment_key, experiment),
                                     experiment);
  const std::filesystem::path path = expand_home(experiment);
  std::error_code ignored;
  const std::string extension = path.extension();
  if (std::filesystem::exists(path, ignored) || extension == ".yaml" || extension == ".yml" ||
      path.has_parent_path()) {
    return ConfigDocument::from_file(path);
  }
  throw printable_error("unknown experiment '{}'; {}", experiment,
                        suggest_name(experiment, studies.names()));
}

StudyRun::StudyRun(const ConfigDocument& document, const Registry<Study>& studies)
    : config_(studies) {
  config_.describe(schema_);
  read_config(document, schema_);
}

StudyOptions StudyRun::options() const {
  StudyOptions options;
  flatten(schema_, "", /*is_changed=*/false, options);
  std::erase_if(options, [](const auto& option) { return option.first == "seed"; });
  return options;
}

StudyReport StudyRun::run(const StudyProgress& progress) const {
  const Study& study = *config_.study;
  StudyReport report{.name = config_.study.name,
                     .question = study.question(),
                     .command = command_of(config_.study.name, schema_),
                     .seed = config_.seed,
                     .options = options()};
  report.result = study.run({.seed = config_.seed, .progress = progress});
  require_complete(report.result, report.name);
  return report;
}

}  // namespace mobius
