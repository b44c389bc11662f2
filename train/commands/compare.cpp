#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/commands/commands.h"
#include "train/config_reader.h"
#include "train/printable.h"
#include "train/trainer.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* examples = R"(Example:
  mobius compare configs/recall/demo.yaml

A comparison is a configuration with one key more:

  base: mqar.yaml                 # optional: the file that this one changes
  variations:
    - name: softmax
      attention.kind: softmax
    - name: conformal
      attention: {kind: conformal, alpha: 1.5}

Each variation is trained in a folder of its own, one after another; finished ones are skipped and
an interrupted one goes on where it was, so the same command continues a comparison. One that
diverges is marked so, and the others go on. What a variation sets wins over a key=value given here,
which changes the base. The table is also written to comparison.csv.)";

struct CompareArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
};

struct Contender {
  std::string name;
  std::unique_ptr<Config> config;
};

struct Result {
  std::string name;
  RunSummary summary;
};

// One row a result, as texts; the first row holds the titles.
using Table = std::vector<std::vector<std::string>>;

// --out, else the document's output.dir, else runs/ and the comparison's name.
std::string root_folder(const CompareArguments& arguments, const ConfigDocument& document,
                        const Config& config) {
  if (!arguments.out.empty()) return arguments.out;
  const ConfigEntry* output = document.root().find("output");
  if (output != nullptr && output->value.find("dir") != nullptr) return config.output.dir;
  return "runs/" + fs::path(arguments.config).stem().string();
}

std::vector<Contender> read_contenders(const CompareArguments& arguments, const Registries& known) {
  ConfigDocument document = ConfigDocument::from_file(arguments.config);
  for (const std::string& assignment : arguments.overrides) document.override_with(assignment);
  std::vector<Contender> contenders;
  for (const ConfigVariation& variation : expand_variations(document)) {
    auto config = make_config(variation.document, known);
    const fs::path root = root_folder(arguments, variation.document, *config);
    config->output.dir = (root / variation.name).string();
    contenders.push_back({variation.name, std::move(config)});
  }
  return contenders;
}

// The summary of a variation that is done; an Error where the folder holds another configuration's.
std::optional<RunSummary> earlier_result(Contender& contender, const Registries& known) {
  const fs::path folder = contender.config->output.dir;
  const std::optional<RunSummary> summary = read_summary(folder / "summary.json");
  if (!summary || !summary->is_complete()) return std::nullopt;
  const std::string path = (folder / "config.yaml").string();
  const auto stored = parse_config(read_whole_file(path), path, known);
  for (const ConfigChange& change : changes(*stored, *contender.config)) {
    if (change.key.starts_with("output.")) continue;
    throw ConfigError(
        "{}: holds a finished run with {} = {}, but the comparison says {}; remove "
        "it, or choose another folder by --out DIR",
        folder.string(), change.key, change.before, change.after);
  }
  return summary;
}

Table to_table(const std::vector<Result>& results) {
  Table table = {{"name", "accuracy", "loss", "steps", "steps_to_99", "step_ms", "parameters"}};
  for (const auto& [name, summary] : results) {
    const Score score = summary.test.value_or(Score{});
    const bool diverged = summary.status == RunStatus::diverged;
    table.push_back({name, diverged ? "diverged" : fmt::format("{:.4f}", score.accuracy()),
                     diverged ? "" : fmt::format("{:.4f}", printable(score.loss())),
                     std::to_string(summary.step),
                     summary.steps_to_99 ? std::to_string(*summary.steps_to_99) : "",
                     fmt::format("{:.2f}", summary.step_ms), std::to_string(summary.parameters)});
  }
  return table;
}

std::string to_csv(const Table& table) {
  std::string text;
  for (const auto& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + row[i];
    text += "\n";
  }
  return text;
}

// Names to the left, numbers to the right.
std::string to_text(const Table& table) {
  std::vector<std::size_t> widths(table.front().size());
  for (const auto& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max({widths[i], row[i].size(), std::size_t{1}});
    }
  }
  std::string text;
  for (const auto& row : table) {
    text += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) {
      text += fmt::format("  {:>{}}", row[i].empty() ? "-" : row[i], widths[i]);
    }
    text += "\n";
  }
  return text;
}

// Trains one variation; one that diverges is a result too, and does not stop the others.
RunSummary train_contender(Contender& contender, const Registries& known, Progress& progress,
                           const StopSignal& stop) {
  try {
    return run_training(*contender.config, {.from = Resume::From::newest}, known, progress, stop);
  } catch (const TrainingDiverged& error) {
    progress.say(fmt::format("{}: {}", contender.name, error.what()));
    RunSummary summary;
    summary.status = RunStatus::diverged;
    const fs::path folder = contender.config->output.dir;
    return read_summary(folder / "summary.json").value_or(summary);
  }
}

ExitCode compare(const CompareArguments& arguments, const Registries& known) {
  std::vector<Contender> contenders = read_contenders(arguments, known);
  std::vector<std::optional<RunSummary>> earlier;
  for (Contender& contender : contenders) earlier.push_back(earlier_result(contender, known));

  const StopSignal stop;
  std::vector<Result> results;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Progress progress(stdout);
    if (earlier[i]) {
      progress.say(fmt::format("{}: finished before, skipped", contenders[i].name));
      results.push_back({contenders[i].name, *earlier[i]});
      continue;
    }
    RunSummary summary = train_contender(contenders[i], known, progress, stop);
    if (summary.status == RunStatus::interrupted) {
      progress.say("interrupted and saved; the same command goes on from here");
      return ExitCode::interrupted;
    }
    results.push_back({contenders[i].name, std::move(summary)});
  }

  const Table table = to_table(results);
  const fs::path csv =
      fs::path(contenders.front().config->output.dir).parent_path() / "comparison.csv";
  write_whole_file(csv, to_csv(table));
  fmt::print("\n{}\nwritten to {}\n", to_text(table), printable(csv.string()));
  const bool any_diverged = std::any_of(results.begin(), results.end(), [](const Result& result) {
    return result.summary.status == RunStatus::diverged;
  });
  return any_diverged ? ExitCode::diverged : ExitCode::done;
}

}  // namespace

void add_compare_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Train named variations of one configuration, and compare");
  command->footer(examples);
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("config", arguments->config, "YAML file")->required()->type_name("CONFIG");
  command->add_option("overrides", arguments->overrides, "values that replace the base's")
      ->type_name("key.path=value");
  command->add_option("--out", arguments->out, "folder of the comparison; default runs/NAME")
      ->type_name("DIR");
  command->callback([arguments, &known, &action] {
    action = [arguments, &known] { return compare(*arguments, known); };
  });
}

}  // namespace mobius
