#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "core/path.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/commands/commands.h"
#include "train/compare/comparison.h"
#include "train/compare/comparison_file.h"
#include "train/compare/comparison_output.h"
#include "train/compare/job_pool.h"
#include "train/compare/report.h"
#include "train/config/reader.h"
#include "train/io/printable.h"
#include "train/run/data_places.h"
#include "train/run/device.h"
#include "train/run/experiment.h"
#include "train/run/memory.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* compare_examples = R"(Examples:
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
ones go on where they were, so the same command continues a comparison: after Ctrl-C, SIGTERM,
SIGUSR1 or a closed terminal, which let every run save and end, and after any other end. One that
fails or diverges is listed, and the others go on. What a variation sets wins over a key=value given
here, which changes the base; one that would change no run, for the grid sets the same, is an error.
The table shows the best learning rate of each, and means over the seeds; it is also written to
comparison.csv and comparison.json, and drawn in report.html.)";

struct CompareArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  int jobs = 1;
  bool is_list = false;
  std::vector<std::string> report;

  void describe(Schema& schema) {
    schema.field("jobs", jobs, "runs trained at once").at_least(1).at_most(4096);
  }
};

struct Contender {
  std::string name;
  std::unique_ptr<Config> config;

  fs::path folder() const { return config->output.dir; }
};

// Returns --out, else the document's output.dir, else runs/ and the comparison's name.
std::string root_folder(const CompareArguments& arguments, const ConfigDocument& document,
                        const Config& config) {
  if (!arguments.out.empty()) return arguments.out;
  const ConfigEntry* output = document.root().find("output");
  if (output != nullptr && output->value.find("dir") != nullptr) return config.output.dir;
  return "runs/" + fs::path(arguments.config).stem().string();
}

bool is_complete(const Contender& contender) {
  const std::optional<RunSummary> summary = read_summary(RunFolder(contender.folder()).summary());
  return summary && summary->is_complete();
}

std::vector<Contender> read_contenders(const CompareArguments& arguments, const Registries& known) {
  ConfigDocument document = ConfigDocument::from_file(arguments.config);
  for (const std::string& assignment : arguments.overrides) document.override_with(assignment);
  std::vector<Contender> contenders;
  for (const ComparisonJob& job : expand_comparison(document)) {
    auto config = make_config(job.document, known);
    const fs::path root = root_folder(arguments, job.document, *config);
    require_plain_name(root);
    config->output.dir = (root / job.name).string();
    const Contender& contender = contenders.emplace_back(job.name, std::move(config));
    if (!is_complete(contender)) find_data(*contender.config, folders_for(arguments.config));
  }
  return contenders;
}

// Whether the run in the folder saw the data that the configuration describes now.
bool has_same_data(Contender& contender, const fs::path& comparison) {
  const auto newest = newest_checkpoint(RunFolder(contender.folder()).checkpoints()).path;
  if (!newest) return false;
  const CheckpointHeader header = read_checkpoint_header(*newest);
  find_data(*contender.config, folders_for(comparison));
  return build_task(*contender.config, header.tokenizer)->fingerprint() == header.data;
}

// Throws ConfigError if the folder holds a run that this configuration would not have made, or
// other files that would be overwritten.
void require_same_run(Contender& contender, const fs::path& comparison, const Registries& known) {
  const fs::path folder = contender.folder();
  require_usable_folder(folder, {.from = Resume::From::newest});
  const fs::path path = RunFolder(folder).config();
  const bool is_done = is_complete(contender);
  if (!fs::exists(path)) return;
  if (!is_done && step_checkpoints(RunFolder(folder).checkpoints()).empty()) return;
  const auto stored = parse_config(content_of(path), path.string(), known);
  for (const ConfigChange& change : changes(*stored, *contender.config)) {
    if (change.key.starts_with("output.") || change.key == "train.threads" ||
        change.key == "train.device") {
      continue;
    }
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

// Throws ConfigError unless the machine's memory suffices for each unfinished run that computes
// there, and for the largest of those that may run at once.
void require_room(const std::vector<Contender>& contenders, int jobs) {
  const std::optional<double> available = available_memory();
  std::vector<double> needs;
  for (const Contender& contender : contenders) {
    if (is_complete(contender)) continue;
    const Config& config = *contender.config;
    if (device_of(config) != Device{}) continue;  // which its run asks
    const auto need = memory_need(config, config.task->least_size(), MemoryUse::training);
    try {
      require_memory(need, available);
    } catch (const ConfigError& error) {
      throw ConfigError("{}: {}", contender.name, error.what());
    }
    needs.push_back(total_bytes(need));
  }
  std::sort(needs.rbegin(), needs.rend());
  needs.resize(std::min(needs.size(), static_cast<std::size_t>(jobs)));
  const double together = std::accumulate(needs.begin(), needs.end(), 0.0);
  if (!available || together <= *available) return;
  throw ConfigError(
      "--jobs {}: at least {} of memory are needed for as many runs, but {} are available", jobs,
      format_bytes(together), format_bytes(*available));
}

// Makes the folders of unfinished runs.
std::vector<Job> prepare(std::vector<Contender>& contenders) {
  std::vector<Job> jobs;
  for (Contender& contender : contenders) {
    if (is_complete(contender)) continue;
    make_folder(contender.folder());
    jobs.push_back({contender.name, contender.folder(),
                    run_config_text(resolved_yaml(*contender.config)),
                    contender.config->train.max_steps});
  }
  return jobs;
}

// Writes the configurations and prints one shell command per job, which can be run anywhere.
void list(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    write_config(job);
    std::string line = "cd " + shell_word(fs::current_path().string()) + " &&";
    for (const std::string& word : command_of(job)) line += " " + shell_word(word);
    fmt::print("{}\n", line);
  }
}

// Throws ConfigError if one of the files below exists but was not written by a comparison.
void require_own_comparison(const fs::path& folder) {
  const std::vector<std::pair<std::string_view, const char*>> marks = {
      {comparison_csv, "level,"},
      {comparison_json, "\"metric\""},
      {comparison_page, "<title>Mobius: comparison</title>"}};
  for (const auto& [name, mark] : marks) {
    const fs::path path = folder / name;
    if (!fs::is_regular_file(path)) continue;
    constexpr std::size_t head = 1024;
    const std::string content = content_of(path).substr(0, head);
    if (content.empty() || content.find(mark) != std::string::npos) continue;
    throw ConfigError("{}: was not written by a comparison; choose another folder by --out DIR",
                      path.string());
  }
}

void write_comparison(const std::vector<fs::path>& runs, const fs::path& folder) {
  const Comparison comparison(runs);
  make_folder(folder);
  write_whole_file(folder / comparison_csv, to_csv(comparison));
  write_whole_file(folder / comparison_json, to_json(comparison));
  write_whole_file(folder / comparison_page, to_html(comparison));
  fmt::print("{}\n{}, {} and {} are in {}\n", printable_lines(to_text(comparison)), comparison_page,
             comparison_csv, comparison_json, printable_line(folder.string()));
}

std::string end_in_words(const std::optional<ProcessEnd>& end) {
  if (!end) return "could not be started";
  if (end->signal == 0) return fmt::format("exit code {}", end->exit_code);
  return fmt::format("killed by signal {} ({})", end->signal, ::strsignal(end->signal));
}

std::size_t count_of(const std::vector<JobStatus>& statuses, JobState state) {
  return static_cast<std::size_t>(std::ranges::count(statuses, state, &JobStatus::state));
}

void list_failures(const std::vector<Job>& jobs, const std::vector<JobStatus>& statuses) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (statuses[i].state != JobState::failed && statuses[i].state != JobState::diverged) continue;
    const std::string& problem = statuses[i].problem;
    say(fmt::format("{}: {}{}{}; see {}", jobs[i].name, end_in_words(statuses[i].end),
                    problem.empty() ? "" : ": ", problem, log_of(jobs[i]).string()));
  }
}

ExitCode exit_code_of(const std::vector<JobStatus>& statuses) {
  if (count_of(statuses, JobState::failed) > 0) return ExitCode::failed;
  if (count_of(statuses, JobState::interrupted) > 0) return ExitCode::interrupted;
  return count_of(statuses, JobState::diverged) > 0 ? ExitCode::diverged : ExitCode::done;
}

// Returns the folders of runs that got as far as a configuration. If none did, throws the problem
// of the first.
std::vector<fs::path> begun(const std::vector<Contender>& contenders,
                            const std::vector<JobStatus>& statuses) {
  std::vector<fs::path> folders;
  for (const Contender& contender : contenders) {
    if (holds_run(contender.folder())) folders.push_back(contender.folder());
  }
  if (folders.empty()) throw Error("no run could be started: {}", statuses.front().problem);
  return folders;
}

ExitCode train_all(const CompareArguments& arguments, std::vector<Contender>& contenders,
                   StopSignal& stop) {
  stop.listen();
  const fs::path root = contenders.front().folder().parent_path();
  make_folder(root);
  require_own_comparison(root);
  const FolderLock lock(root);
  remove_unfinished(root);
  const std::vector<Job> jobs = prepare(contenders);
  for (const Contender& contender : contenders) {
    if (is_complete(contender)) say(contender.name + ": finished before, skipped");
  }
  JobDisplay display(stderr, jobs, &stop);
  const std::vector<JobStatus> statuses = run_jobs(jobs, arguments.jobs, stop, display);
  list_failures(jobs, statuses);
  if (stop.is_requested() && exit_code_of(statuses) != ExitCode::failed) {
    say("interrupted and saved; the same command goes on from here");
    return ExitCode::interrupted;
  }
  write_comparison(begun(contenders, statuses), root);
  return exit_code_of(statuses);
}

ExitCode report(const CompareArguments& arguments) {
  const std::vector<fs::path> folders(arguments.report.begin(), arguments.report.end());
  const fs::path out = arguments.out.empty() ? folders.front() : fs::path(arguments.out);
  require_own_comparison(out);
  write_comparison(folders, out);
  return ExitCode::done;
}

ExitCode compare(const CompareArguments& arguments, const Registries& known, StopSignal& stop) {
  if (!arguments.report.empty()) return report(arguments);
  if (arguments.config.empty()) throw ConfigError("compare: CONFIG is missing, or --report DIR");
  require_one_folder(arguments.out, arguments.overrides);
  std::vector<Contender> contenders = read_contenders(arguments, known);
  const fs::path root = contenders.front().folder().parent_path();
  if (holds_run(root)) {
    throw ConfigError("{}: holds a run, not a comparison; choose another folder by --out DIR",
                      root.string());
  }
  for (Contender& contender : contenders) require_same_run(contender, arguments.config, known);
  if (!arguments.is_list) {
    require_room(contenders, arguments.jobs);
    return train_all(arguments, contenders, stop);
  }
  list(prepare(contenders));
  return ExitCode::done;
}

}  // namespace

void add_compare_command(CLI::App& app, const Registries& known, StopSignal& stop, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Train variations of one configuration, and compare them");
  command->footer(compare_examples);
  auto arguments = std::make_shared<CompareArguments>();
  CLI::Option* config = command->add_option("config", arguments->config, "YAML file");
  config->type_name("CONFIG")->transform(expand_home);
  add_overrides(*command, arguments->overrides, "values that replace the base's");
  add_path(*command, "--out", "DIR", arguments->out, "folder of the comparison; default runs/NAME");
  add_value_option(*command, describe(*arguments), "jobs", "--jobs,-j");
  CLI::Option* list =
      command->add_flag("--list", arguments->is_list,
                        "print one command a line for each unfinished run, to run elsewhere");
  command
      ->add_option("--report", arguments->report,
                   "compare the runs in these folders, as far as they have finished")
      ->type_name("DIR...")
      ->transform(expand_home)
      ->excludes(config)
      ->excludes(list);
  set_action(*command, action,
             [arguments, &known, &stop] { return compare(*arguments, known, stop); });
}

}  // namespace mobius
