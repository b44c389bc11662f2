#include "train/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "data/input_file.h"
#include "train/compare/comparison_file.h"
#include "train/config/document.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

std::string text_of(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::null) return "null";
  if (node.kind == ConfigNode::Kind::scalar) return node.text;
  std::string text;
  for (const ConfigEntry& element : node.entries) {
    text += (text.empty() ? "" : ", ") + text_of(element.value);
  }
  return "[" + text + "]";
}

void flatten(const ConfigNode& node, const std::string& path,
             std::map<std::string, std::string>& values) {
  const auto is_map = [](const ConfigEntry& element) {
    return element.value.kind == ConfigNode::Kind::map;
  };
  if (node.kind == ConfigNode::Kind::map || std::ranges::any_of(node.entries, is_map)) {
    for (const ConfigEntry& entry : node.entries) {
      flatten(entry.value, join_path(path, entry.key), values);
    }
  } else {
    values[path] = text_of(node);
  }
}

ComparedRun read_run(const fs::path& folder) {
  ComparedRun run;
  run.folder = folder;
  const fs::path path = fs::absolute(folder / "").lexically_normal();  // ends with a slash
  run.name = path.parent_path().filename().string();
  const RunFolder files(folder);
  run.config_text = content_of(files.config());
  flatten(ConfigDocument::from_text(run.config_text, files.config().string()).root(), "",
          run.config);
  run.summary = read_summary(files.summary());
  return run;
}

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(RunFolder(folder).config(), ignored) && holds_run(folder);
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw ConfigError("{}: is not a folder", folder.string());
  if (is_run(folder)) return {folder};
  std::vector<fs::path> found = entries_of(folder);
  std::erase_if(found, [](const fs::path& entry) { return !is_run(entry); });
  if (found.empty()) throw ConfigError("{}: no run lies in this folder", folder.string());
  return found;
}

// Reads each run once, even if two of the folders hold it.
std::vector<ComparedRun> read_runs(const std::vector<fs::path>& folders) {
  std::vector<ComparedRun> runs;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    for (const fs::path& path : run_folders(folder)) {
      if (seen.insert(fs::canonical(path)).second) runs.push_back(read_run(path));
    }
  }
  return runs;
}

void tell_apart(std::vector<ComparedRun>& runs) {
  std::map<std::string, int> count;
  for (const ComparedRun& run : runs) ++count[run.name];
  for (ComparedRun& run : runs) {
    if (count[run.name] == 1) continue;
    run.name = fs::canonical(run.folder).parent_path().filename().string() + "/" + run.name;
  }
}

std::vector<std::string> keys_that_differ(const std::vector<ComparedRun>& runs) {
  std::set<std::string> keys;
  for (const ComparedRun& run : runs) {
    for (const auto& [key, value] : run.config) keys.insert(key);
  }
  std::vector<std::string> differing;
  for (const std::string& key : keys) {
    if (key == seed_key || key.starts_with("output.")) continue;
    const std::string first = runs.front().value_of_key(key);
    const auto differs = [&](const ComparedRun& run) { return run.value_of_key(key) != first; };
    if (std::ranges::any_of(runs, differs)) differing.push_back(key);
  }
  return differing;
}

}  // namespace

std::string ComparedRun::value_of_key(const std::string& key) const {
  const auto found = config.find(key);
  return found == config.end() ? "" : found->second;
}

Statistic statistic_of(const std::vector<double>& values) {
  Statistic statistic{.count = values.size(), .mean = 0, .deviation = {}};
  if (values.empty()) return statistic;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) statistic.mean += value / count;
  if (values.size() < 2 || !std::isfinite(statistic.mean)) return statistic;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - statistic.mean, 2);
  statistic.deviation = std::sqrt(squares / (count - 1));
  return statistic;
}

std::size_t ComparedSetting::complete_runs() const {
  return static_cast<std::size_t>(std::ranges::count_if(runs, &ComparedRun::is_complete));
}

std::size_t ComparedSetting::diverged_runs() const {
  return static_cast<std::size_t>(std::ranges::count_if(runs, &ComparedRun::is_diverged));
}

Comparison::Comparison(const std::vector<fs::path>& folders) : runs_(read_runs(folders)) {
  tell_apart(runs_);
  for (ComparedRun& run : runs_) {
    run.variant = variant_in(run.name);
    if (run.variant.empty()) run.variant = run.value_of_key("attention.kind");
  }
  std::ranges::sort(runs_, {}, &ComparedRun::name);
  differing_keys_ = keys_that_differ(runs_);
  const bool by_accuracy = runs_.front().value_of_key("checkpoint.metric") == "accuracy";
  metric_ = by_accuracy ? Metric::accuracy : Metric::loss;
  collect_variants();
  for (ComparedVariant& variant : variants_) choose_best(variant);
  const auto comes_first = [this](const ComparedSetting& a, const ComparedSetting& b) {
    return is_better_setting(a, b);
  };
  std::ranges::stable_sort(variants_, comes_first, &ComparedVariant::shown);
}

void Comparison::collect_variants() {
  for (const ComparedRun& run : runs_) {
    auto variant = std::ranges::find(variants_, run.variant, &ComparedVariant::name);
    if (variant == variants_.end()) {
      variant = variants_.insert(variant, {.name = run.variant, .settings = {}});
    }
    const std::string rate = run.value_of_key(learning_rate_key);
    auto& settings = variant->settings;
    auto setting = std::ranges::find(settings, rate, &ComparedSetting::learning_rate);
    if (setting == settings.end()) setting = settings.insert(setting, {rate, {}});
    setting->runs.push_back(&run);
  }
}

void Comparison::choose_best(ComparedVariant& variant) const {
  for (std::size_t i = 1; i < variant.settings.size(); ++i) {
    if (is_better_setting(variant.settings[i], variant.shown())) variant.best = i;
  }
}

// Settings with all runs complete come first, then those with some, then those with none. Among
// them the mean decides, and among equal means that of the loss.
bool Comparison::is_better_setting(const ComparedSetting& a, const ComparedSetting& b) const {
  const auto rank = [](const ComparedSetting& setting) {
    const std::size_t complete = setting.complete_runs();
    return complete == setting.runs.size() ? 0 : complete > 0 ? 1 : 2;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  const auto mean = [](Metric metric, const ComparedSetting& setting) {
    return statistic_over(setting, [metric](const RunSummary& summary) {
      return summary.test ? std::optional(value_of(metric, *summary.test)) : std::nullopt;
    });
  };
  const Statistic mean_a = mean(metric_, a), mean_b = mean(metric_, b);
  if (mean_a.count == 0 || mean_b.count == 0) return mean_a.count > mean_b.count;
  if (mean_a.mean != mean_b.mean) return is_better(metric_, mean_a.mean, mean_b.mean);
  return mean(Metric::loss, a).mean < mean(Metric::loss, b).mean;
}

}  // namespace mobius
