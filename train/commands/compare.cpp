#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/comparison.h"
#include "train/comparison_file.h"
#include "train/comparison_output.h"
#include "train/config_reader.h"
#include "train/data_places.h"
#include "train/experiment.h"
#include "train/job_pool.h"
#include "train/printable.h"
#include "train/report.h"
#include "train/trainer.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* examples = R"(Examples:
  mobius compare configs/recall/demo.yaml
  mobius compare configs/recall/demo.yaml --jobs 4 --out runs/demo
  mobius compare configs/recall/demo.yaml --list | parallel -j 4
  mobius compare --report runs/demo

A comparison is a configuration with variations, a grid, or both:

  base: mqar.yaml                 # optional: the file that this one changes
  variations:
    - name: softmax
      attention.kind: softmax
    - name: conformal
      attention: {kind: conformal, alpha: 1.5}
  grid:                           # every combination, of every variation
    optimizer.lr: [1e-3, 3e-3]
    train.seed: [1, 2, 3]

Each run is trained in a process and a folder of its own; finished ones are skipped and interrupted
ones go on where they were, so the same command continues a comparison. One that fails or diverges
is listed, and the others go on. What a variation or the grid sets wins over a key=value given here,
which changes the base. The table shows the best learning rate of each, and means over the seeds; it
is also written to comparison.csv and comparison.json, and drawn in report.html.)";

struct CompareArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  int jobs = 1;
  bool is_list = false;
  std::vector<std::string> report;
};

struct Contender {
  std::string name;
  std::unique_ptr<Config> config;

  fs::path folder() const { return config->output.dir; }
};

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
  for (const ComparisonJob& job : expand_comparison(document)) {
    auto config = make_config(job.document, known);
    const fs::path root = root_folder(arguments, job.document, *config);
    config->output.dir = (root / job.name).string();
    contenders.push_back({job.name, std::move(config)});
  }
  return contenders;
}

bool is_complete(const Contender& contender) {
  const std::optional<RunSummary> summary = read_summary(contender.folder() / "summary.json");
  return summary && summary->is_complete();
}

// Whether the run in the folder saw the data that the configuration describes now.
bool has_same_data(Contender& contender, const fs::path& comparison) {
  const auto newest = newest_checkpoint(contender.folder() / "checkpoints").path;
  if (!newest) return false;
  const CheckpointHeader header = read_checkpoint_header(*newest);
  find_data(*contender.config, {comparison.parent_path()});
  return build_task(*contender.config, header.tokenizer)->fingerprint() == header.data;
}

// Throws ConfigError where the folder holds a run that this configuration would not have made, or
// files that are not of a run and would be written over.
void require_same_run(Contender& contender, const fs::path& comparison, const Registries& known) {
  const fs::path folder = contender.folder();
  require_usable_folder(folder, {.from = Resume::From::newest});
  const fs::path path = folder / "config.yaml";
  const bool is_done = is_complete(contender);
  if (!fs::exists(path)) return;
  if (!is_done && step_checkpoints(folder / "checkpoints").empty()) return;
  const auto stored = parse_config(read_whole_file(path), path.string(), known);
  for (const ConfigChange& change : changes(*stored, *contender.config)) {
    if (change.key.starts_with("output.") || change.key == "train.threads") continue;
    if (!is_done && may_change_on_resume(*contender.config, change.key)) continue;
    if (is_data_place(*contender.config, change.key) && has_same_data(contender, comparison))
      continue;
    throw ConfigError(
        "{}: holds {} with {} = {}, but the comparison says {}; remove "
        "it, or choose another folder by --out DIR",
        folder.string(), is_done ? "a finished run" : "a run", change.key, change.before,
        change.after);
  }
}

// Makes the folders, with the configurations, of those that are not finished.
std::vector<Job> prepare(std::vector<Contender>& contenders) {
  std::vector<Job> jobs;
  for (Contender& contender : contenders) {
    if (is_complete(contender)) continue;
    make_folder(contender.folder());
    write_whole_file(contender.folder() / "config.yaml",
                     run_config_text(resolved_yaml(*contender.config)));
    jobs.push_back({contender.name, contender.folder(), contender.config->train.max_steps});
  }
  return jobs;
}

// One line of a shell a job, that can be run anywhere.
void print_list(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    std::string line = "cd " + shell_word(fs::current_path().string()) + " &&";
    for (const std::string& word : command_of(job)) line += " " + shell_word(word);
    fmt::print("{}\n", line);
  }
}

// Throws ConfigError where one of the files below is there, but was not written by a comparison.
void require_own_comparison(const fs::path& folder) {
  const std::vector<std::pair<const char*, const char*>> marks = {
      {"comparison.csv", "level,"},
      {"comparison.json", "\"metric\""},
      {"report.html", "<title>Mobius: comparison</title>"}};
  for (const auto& [name, mark] : marks) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) continue;
    constexpr std::size_t head = 1024;
    const std::string content = read_whole_file(path).substr(0, head);
    if (content.empty() || content.find(mark) != std::string::npos) continue;
    throw ConfigError("{}: was not written by a comparison; choose another folder by --out DIR",
                      path.string());
  }
}

void write_comparison(const std::vector<fs::path>& runs, const fs::path& folder) {
  const Comparison comparison(runs);
  write_whole_file(folder / "comparison.csv", to_csv(comparison));
  write_whole_file(folder / "comparison.json", to_json(comparison));
  write_whole_file(folder / "report.html", to_html(comparison));
  fmt::print("{}\nreport.html, comparison.csv and comparison.json are in {}\n",
             printable_lines(to_text(comparison)), printable(folder.string()));
}

std::string end_in_words(const ProcessEnd& end) {
  return end.signal != 0 ? fmt::format("killed by signal {}", end.signal)
                         : fmt::format("exit code {}", end.exit_code);
}

std::size_t count_of(const std::vector<JobStatus>& statuses, JobState state) {
  return static_cast<std::size_t>(
      std::count_if(statuses.begin(), statuses.end(),
                    [state](const JobStatus& status) { return status.state == state; }));
}

void say(const std::string& line) { fmt::print(stderr, "{}\n", printable(line)); }

void list_failures(const std::vector<Job>& jobs, const std::vector<JobStatus>& statuses) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (statuses[i].state != JobState::failed && statuses[i].state != JobState::diverged) continue;
    say(fmt::format("{}: {}: {}; see {}", jobs[i].name, end_in_words(statuses[i].end),
                    statuses[i].problem, log_of(jobs[i]).string()));
  }
}

ExitCode exit_code_of(const std::vector<JobStatus>& statuses) {
  if (count_of(statuses, JobState::failed) > 0) return ExitCode::failed;
  if (count_of(statuses, JobState::interrupted) > 0) return ExitCode::interrupted;
  return count_of(statuses, JobState::diverged) > 0 ? ExitCode::diverged : ExitCode::done;
}

ExitCode train_all(const CompareArguments& arguments, std::vector<Contender>& contenders) {
  const fs::path root = contenders.front().folder().parent_path();
  make_folder(root);
  require_own_comparison(root);
  const FolderLock lock(root);
  remove_unfinished(root);
  const std::vector<Job> jobs = prepare(contenders);
  for (const Contender& contender : contenders) {
    if (is_complete(contender)) say(contender.name + ": finished before, skipped");
  }
  const StopSignal stop;
  JobDisplay display(stderr, jobs);
  const std::vector<JobStatus> statuses = run_jobs(jobs, arguments.jobs, stop, display);
  list_failures(jobs, statuses);
  if (stop.is_requested() && exit_code_of(statuses) != ExitCode::failed) {
    say("interrupted and saved; the same command goes on from here");
    return ExitCode::interrupted;
  }
  std::vector<fs::path> folders;
  for (const Contender& contender : contenders) folders.push_back(contender.folder());
  write_comparison(folders, root);
  return exit_code_of(statuses);
}

ExitCode report(const CompareArguments& arguments) {
  const std::vector<fs::path> folders(arguments.report.begin(), arguments.report.end());
  const fs::path out = arguments.out.empty() ? folders.front() : fs::path(arguments.out);
  make_folder(out);
  require_own_comparison(out);
  write_comparison(folders, out);
  return ExitCode::done;
}

ExitCode compare(const CompareArguments& arguments, const Registries& known) {
  if (!arguments.report.empty()) return report(arguments);
  if (arguments.config.empty()) throw ConfigError("compare: CONFIG is missing, or --report DIR");
  std::vector<Contender> contenders = read_contenders(arguments, known);
  for (Contender& contender : contenders) {
    require_same_run(contender, arguments.config, known);
  }
  if (!arguments.is_list) return train_all(arguments, contenders);
  print_list(prepare(contenders));
  return ExitCode::done;
}

}  // namespace

void add_compare_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Train variations of one configuration, and compare them");
  command->footer(examples);
  auto arguments = std::make_shared<CompareArguments>();
  CLI::Option* config = command->add_option("config", arguments->config, "YAML file");
  config->type_name("CONFIG");
  command->add_option("overrides", arguments->overrides, "values that replace the base's")
      ->type_name("key.path=value");
  command->add_option("--out", arguments->out, "folder of the comparison; default runs/NAME")
      ->type_name("DIR");
  command->add_option("--jobs,-j", arguments->jobs, "runs trained at once")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  CLI::Option* list =
      command->add_flag("--list", arguments->is_list,
                        "print one command a line for each unfinished run, to run elsewhere");
  command
      ->add_option("--report", arguments->report,
                   "compare the runs in these folders, as far as they have finished")
      ->type_name("DIR...")
      ->excludes(config)
      ->excludes(list);
  command->callback([arguments, &known, &action] {
    action = [arguments, &known] { return compare(*arguments, known); };
  });
}

}  // namespace mobius
