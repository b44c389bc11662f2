#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/comparison.h"
#include "train/comparison_file.h"
#include "train/comparison_output.h"
#include "train/config_reader.h"
#include "train/job_pool.h"
#include "train/memory.h"
#include "train/printable.h"
#include "train/progress.h"
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
is listed, and the others go on. What a variation sets wins over a key=value given here, which
changes the base; one that would change no run, for the grid sets the same, is an error. The table
shows the best learning rate of each, and means over the seeds; it is also written to comparison.csv
and comparison.json, and drawn in report.html.)";

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

// Throws ConfigError where the folder holds a run that this configuration would not have made.
void require_same_run(Contender& contender, const Registries& known) {
  const fs::path folder = contender.folder();
  const fs::path path = folder / "config.yaml";
  const bool is_done = is_complete(contender);
  if (!fs::exists(path)) return;
  if (!is_done && step_checkpoints(folder / "checkpoints").empty()) return;
  const auto stored = parse_config(read_whole_file(path), path.string(), known);
  for (const ConfigChange& change : changes(*stored, *contender.config)) {
    if (change.key.starts_with("output.") || change.key == "train.threads") continue;
    if (!is_done && may_change_on_resume(change.key)) continue;
    throw ConfigError(
        "{}: holds {} with {} = {}, but the comparison says {}; remove "
        "it, or choose another folder by --out DIR",
        folder.string(), is_done ? "a finished run" : "a run", change.key, change.before,
        change.after);
  }
}

// Of those that are not finished, as many of the largest as run at once; each alone is named.
void require_room(const std::vector<Contender>& contenders, int jobs) {
  const std::optional<double> available = available_memory();
  std::vector<double> needs;
  for (const Contender& contender : contenders) {
    if (is_complete(contender)) continue;
    const Config& config = *contender.config;
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

// Makes the folders, with the configurations, of those that are not finished.
std::vector<Job> prepare(std::vector<Contender>& contenders) {
  std::vector<Job> jobs;
  for (Contender& contender : contenders) {
    if (is_complete(contender)) continue;
    std::error_code error;
    fs::create_directories(contender.folder(), error);
    if (error) throw Error("{}: cannot be made: {}", contender.folder().string(), error.message());
    write_whole_file(contender.folder() / "config.yaml", resolved_yaml(*contender.config));
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

void write_comparison(const std::vector<fs::path>& runs, const fs::path& folder) {
  const Comparison comparison(runs);
  fs::create_directories(folder);
  write_whole_file(folder / comparison_csv, to_csv(comparison));
  write_whole_file(folder / comparison_json, to_json(comparison));
  write_whole_file(folder / comparison_page, to_html(comparison));
  fmt::print("{}\n{}, {} and {} are in {}\n", printable_lines(to_text(comparison)), comparison_page,
             comparison_csv, comparison_json, printable_line(folder.string()));
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

void say(const std::string& line) { fmt::print(stderr, "{}\n", printable_line(line)); }

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
  fs::create_directories(root);
  const FolderLock lock(root);
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
  write_comparison(folders, arguments.out.empty() ? folders.front() : fs::path(arguments.out));
  return ExitCode::done;
}

ExitCode compare(const CompareArguments& arguments, const Registries& known) {
  if (!arguments.report.empty()) return report(arguments);
  if (arguments.config.empty()) throw ConfigError("compare: CONFIG is missing, or --report DIR");
  std::vector<Contender> contenders = read_contenders(arguments, known);
  for (Contender& contender : contenders) require_same_run(contender, known);
  if (!arguments.is_list) {
    require_room(contenders, arguments.jobs);
    return train_all(arguments, contenders);
  }
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
      ->capture_default_str()
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
