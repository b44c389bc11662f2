#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/commands/commands.h"
#include "train/config/writer.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/results/result_files.h"
#include "train/results/results_markdown.h"
#include "train/results/results_page.h"
#include "train/results/study_run.h"
#include "train/run/progress.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* experiment_examples = R"(Examples:
  mobius experiment --list                           every experiment, and the question it asks
  mobius experiment e3_kernels --list                its keys: type, default, range, meaning
  mobius experiment e3_kernels                       run it, and say what it shows
  mobius experiment e3_kernels d=128 --seed 2        with other values
  mobius experiment configs/experiments/e3_kernels.yaml --out results
  mobius experiment --all --out docs/experiments     run all, as `make experiments` does

A YAML file names the experiment, and the values that it sets:

  experiment: e3_kernels
  seed: 2
  d: 128

A run writes NAME.json (all numbers), NAME-FIGURE.svg and NAME.html, a page with its plots; --all
writes one page, index.html, and README.md, which shows the SVG files. The same values and seed give
the same results, but for measured times. Ctrl-C, SIGTERM, SIGUSR1 and a closed terminal stop the
experiment after the part that runs, with exit code 4, and leave earlier results as they were.)";

struct ExperimentArguments {
  std::string experiment;
  std::vector<std::string> overrides;
  std::string out = "runs/experiments";
  std::string seed;
  bool is_list = false;
  bool is_all = false;
};

ConfigDocument document_of(const std::string& experiment, const ExperimentArguments& arguments,
                           const Registry<Study>& studies) {
  ConfigDocument document = study_document(experiment, studies);
  for (const std::string& assignment : arguments.overrides) document.override_with(assignment);
  if (!arguments.seed.empty()) document.override_with("seed=" + arguments.seed);
  return document;
}

// Draws the bar of one study, and ends the study when the user asks.
class StudyDisplay {
 public:
  StudyDisplay(std::string name, StopSignal& stop)
      : name_(std::move(name)), stop_(stop), progress_(stderr, /*may_have_bar=*/true, &stop) {}

  void begin_part(const std::string& what, std::int64_t done, std::int64_t total) {
    if (stop_.is_requested()) throw StudyStopped();
    constexpr std::int64_t lines = 10;  // of a study, where there is no bar
    const std::int64_t line = total > 0 ? done * lines / total : 0;
    const double seconds_left =
        seconds() / static_cast<double>(done) * static_cast<double>(total - done);
    progress_.show(
        {.what = name_ + ": " + what, .done = done, .total = total, .seconds_left = seconds_left},
        std::exchange(last_line_, line) != line);
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::string name_;
  StopSignal& stop_;
  Progress progress_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::int64_t last_line_ = -1;
};

StudyReport run_study(const StudyRun& run, StopSignal& stop) {
  StudyDisplay display(run.name(), stop);
  StudyReport report =
      run.run([&display](const std::string& what, std::int64_t done, std::int64_t total) {
        display.begin_part(what, done, total);
      });
  // A study that calls for no part is stopped here.
  if (stop.is_requested()) throw StudyStopped();
  fmt::print("{} took {}.\n{}\n", report.name, format_duration(display.seconds()),
             printable_lines(to_text(report)));
  return report;
}

void say_where(const std::string& page, const fs::path& folder) {
  fmt::print("{} is in {}\n", page, printable_line(folder.string()));
}

ExitCode run_one(const ExperimentArguments& arguments, const Registry<Study>& studies,
                 StopSignal& stop) {
  const StudyRun run(document_of(arguments.experiment, arguments, studies), studies);
  const fs::path folder = arguments.out;
  const std::string page = run.name() + ".html";
  require_own_results(folder, {run.name() + ".json", page});
  const StudyReport report = run_study(run, stop);
  write_results(folder, report);
  write_whole_file(folder / page, to_html({report}));
  say_where(page, folder);
  return ExitCode::done;
}

// Runs the studies and writes the results of each. A study that fails is said, and the others go
// on.
std::vector<StudyReport> reports_of(const std::vector<std::unique_ptr<StudyRun>>& runs,
                                    const fs::path& folder, StopSignal& stop) {
  std::vector<StudyReport> reports;
  for (const std::unique_ptr<StudyRun>& run : runs) {
    try {
      StudyReport report = run_study(*run, stop);
      write_results(folder, report);
      reports.push_back(std::move(report));
    } catch (const Error& error) {
      say(fmt::format("mobius: error: {}: {}", run->name(), error.what()));
    }
  }
  return reports;
}

ExitCode run_all(const ExperimentArguments& arguments, const Registry<Study>& studies,
                 StopSignal& stop) {
  if (!arguments.experiment.empty())
    throw ConfigError("--all: runs every experiment with its defaults; drop '{}'",
                      arguments.experiment);
  const fs::path folder = arguments.out;
  std::vector<std::string> names = {std::string(overview_markdown), std::string(overview_page)};
  std::vector<std::unique_ptr<StudyRun>> runs;
  for (const std::string& study : studies.names()) {
    names.push_back(study + ".json");
    runs.push_back(std::make_unique<StudyRun>(document_of(study, arguments, studies), studies));
  }
  require_own_results(folder, names);
  const std::vector<StudyReport> reports = reports_of(runs, folder, stop);
  if (reports.size() < runs.size()) {
    say(fmt::format("mobius: {} of {} experiments failed; {} and {} stay as they were",
                    runs.size() - reports.size(), runs.size(), overview_markdown, overview_page));
    return ExitCode::failed;
  }
  write_whole_file(folder / overview_markdown, to_markdown(reports));
  write_whole_file(folder / overview_page, to_html(reports));
  say_where(std::string(overview_page), folder);
  return ExitCode::done;
}

void list_studies(const Registry<Study>& studies) {
  std::size_t width = 0;
  for (const std::string& name : studies.names()) width = std::max(width, name.size());
  for (const auto& study : studies.kinds())
    fmt::print("{:<{}}  {}\n", study.name, width, study.help);
}

// Lists the keys of a study with their defaults.
void list_keys(const std::string& name, const Registry<Study>& studies) {
  const Chosen<Study> study = studies.choose(name);
  const std::unique_ptr<Schema> schema = describe(*study);
  const Output out(stdout);
  fmt::print("{}", out.is_terminal()
                       ? help_text({schema.get()}, "", static_cast<std::size_t>(out.size().columns))
                       : help_text({schema.get()}));
}

ExitCode experiment(const ExperimentArguments& arguments, const Registry<Study>& studies,
                    StopSignal& stop) {
  const bool is_named = !arguments.experiment.empty();
  if (arguments.is_list) {
    if (is_named) {
      const ConfigDocument document = document_of(arguments.experiment, arguments, studies);
      list_keys(StudyRun(document, studies).name(), studies);
    } else {
      list_studies(studies);
    }
    return ExitCode::done;
  }
  if (!is_named && !arguments.is_all)
    throw ConfigError("experiment: NAME is missing; known: {}; or --all",
                      fmt::join(studies.names(), ", "));
  stop.listen();
  try {
    return arguments.is_all ? run_all(arguments, studies, stop) : run_one(arguments, studies, stop);
  } catch (const StudyStopped&) {
    say("mobius: stopped; the results of experiments that had ended are written");
    return ExitCode::interrupted;
  }
}

}  // namespace

void add_experiment_command(CLI::App& app, const Registries& known, StopSignal& stop,
                            Action& action) {
  CLI::App* command = app.add_subcommand(
      "experiment", "Run an experiment on a property of attention, and show what it finds");
  command->footer(experiment_examples);
  auto arguments = std::make_shared<ExperimentArguments>();
  command->add_option("experiment", arguments->experiment, "name of an experiment, or a YAML file")
      ->type_name("NAME|CONFIG");
  add_overrides(*command, arguments->overrides, "values that replace the defaults or the file's");
  add_path(*command, "--out", "DIR", arguments->out, "folder of the results")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of everything that is drawn at random; default 1")
      ->type_name("N");
  CLI::Option* list = command->add_flag("--list", arguments->is_list,
                                        "list the experiments, or the keys of the one named");
  command->add_flag("--all", arguments->is_all, "run every experiment with its defaults")
      ->excludes(list);
  set_action(*command, action,
             [arguments, &known, &stop] { return experiment(*arguments, known.studies, stop); });
}

}  // namespace mobius
