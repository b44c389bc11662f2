#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <array>

#include "train/commands/commands.h"
#include "train/io/printable.h"
#include "train/run/data_places.h"
#include "train/run/trainer.h"

namespace mobius {

namespace {

constexpr const char* train_examples = R"(Examples:
  mobius train run.yaml                              write to runs/run
  mobius train run.yaml train.max_steps=200 --out runs/try
  mobius train run.yaml --resume auto                go on from the newest complete checkpoint,
                                                     or start where there is none yet
  mobius train run.yaml --resume runs/run/checkpoints/best.h5 --out runs/branch
  mobius train runs/run/config.yaml --resume auto    go on in runs/run, wherever it was moved from
  mobius train run.yaml --resume auto task.text=/data/now/here.txt
  mpirun -n 4 mobius train run.yaml                  four ranks share every batch

The folder holds config.yaml, metrics.jsonl, summary.json and checkpoints/. Ctrl-C, SIGTERM, SIGUSR1,
a closed terminal (SIGHUP, unless under nohup) and a closed pipe of standard output finish the step,
or drop the test pass, save, and exit with code 4; a signal more than a second after the first ends
at once. `mobius config help` lists every key.)";

struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  std::string resume;
};

void say_summary(const RunSummary& summary, const std::string& folder, Progress& progress) {
  constexpr std::array words = {"finished", "stopped early, the goal is reached",
                                "interrupted and saved; go on with --resume auto", "diverged"};
  progress.say(
      fmt::format("step {}: {}", summary.step, words[static_cast<std::size_t>(summary.status)]));
  if (summary.test) {
    std::string line =
        fmt::format("test loss {:.4f}{}, test accuracy {:.2f}%", printable(summary.test->loss()),
                    language_words(summary.language), 100 * summary.test->accuracy());
    if (summary.loss_floor)
      line += fmt::format(" (no model can get below a loss of {:.4f})", *summary.loss_floor);
    progress.say(line);
  }
  progress.say(fmt::format("{:.1f} ms a step, {} tokens/s; see {}", summary.step_ms,
                           format_count(summary.tokens_per_s), folder));
}

ExitCode train(const TrainArguments& arguments, const Registries& known, StopSignal& stop,
               Communicator& communicator) {
  stop.listen();
  require_one_folder(arguments.out, arguments.overrides);
  const auto config = load_config(arguments.config, arguments.overrides, known);
  if (!arguments.out.empty()) config->output.dir = arguments.out;
  find_data(*config, folders_for(arguments.config));
  // mpirun gives ranks a terminal of its own making, wherever its output goes.
  Progress progress(communicator.is_root() ? stdout : nullptr, communicator.size() == 1, &stop);
  const RunSummary summary =
      run_training(*config, Resume::parse(arguments.resume), known, progress, stop, communicator);
  say_summary(summary, config->output.dir, progress);
  if (summary.status == RunStatus::interrupted) {
    if (!progress.output().is_written()) say("mobius: stopped: nobody reads standard output");
    return ExitCode::interrupted;
  }
  progress.output().require_written();
  return ExitCode::done;
}

}  // namespace

void add_train_command(CLI::App& app, const Registries& known, StopSignal& stop,
                       RanksAction& action) {
  CLI::App* command = app.add_subcommand("train", "Train the model a configuration describes");
  command->footer(train_examples);
  auto arguments = std::make_shared<TrainArguments>();
  add_path(*command, "config", "CONFIG", arguments->config, "YAML file")->required();
  add_overrides(*command, arguments->overrides, "values that replace the file's");
  add_path(*command, "--out", "DIR", arguments->out, "folder of the run, in place of output.dir");
  add_path(*command, "--resume", "PATH|auto", arguments->resume,
           "checkpoint to go on from, or a folder with some");
  set_action(*command, action, [arguments, &known, &stop](Communicator& communicator) {
    return train(*arguments, known, stop, communicator);
  });
}

}  // namespace mobius
