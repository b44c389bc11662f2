#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/parallel.h"
#include "train/checkpoint/checkpoint.h"
#include "train/commands/commands.h"
#include "train/io/printable.h"
#include "train/optim/finite.h"
#include "train/recording/metrics.h"
#include "train/run/data_places.h"
#include "train/run/device.h"
#include "train/run/evaluation.h"
#include "train/run/experiment.h"
#include "train/run/start.h"

namespace mobius {

namespace {

constexpr const char* eval_examples = R"(Examples:
  mobius eval runs/run                      its best.h5, else its newest checkpoint
  mobius eval runs/run/checkpoints/best.h5 --json | python3 -m json.tool
  mobius eval runs/run task.text=/data/now/here.txt

The score is that of the training run's own evaluation at the same step, bit for bit on the same
instruction set. A text or a token file that has changed since is warned of, and scored.)";

void print_scores(std::int64_t step, const Evaluation& evaluation, const NamedScores& groups,
                  const std::optional<LanguageScore>& language) {
  const Score& total = evaluation.total;
  fmt::print("step {}\ntest loss {:.6f}{}, test accuracy {:.2f}% of {} positions\n", step,
             printable(total.loss()), language_words(language), 100 * total.accuracy(),
             total.n_scored);
  if (groups.size() > 1) {
    for (const auto& [name, score] : groups) {
      fmt::print("  {}: loss {:.6f}, accuracy {:.2f}%\n", printable_line(name),
                 printable(score.loss()), 100 * score.accuracy());
    }
  }
  for (const auto& [name, value] : evaluation.summaries)
    fmt::print("{}: {:.4f}\n", printable_line(name), printable(value));
}

// The model stays that of the checkpoint.
void require_keys_of_scoring(const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) {
    if (assignment.starts_with("task.") || assignment.starts_with("train.")) continue;
    throw printable_error(
        "override {}: a checkpoint is scored as it is; expected a key of task or train",
        assignment);
  }
}

struct EvalArguments {
  std::string checkpoint;
  std::vector<std::string> overrides;
  bool as_json = false;
};

ExitCode eval(const EvalArguments& arguments, const Registries& known, Communicator& communicator) {
  require_keys_of_scoring(arguments.overrides);
  const std::string path = find_checkpoint(arguments.checkpoint).string();
  const CheckpointHeader header = read_checkpoint_header(path);
  const auto config = parse_config(header.config, path, known, arguments.overrides);
  allow_any_device(*config, arguments.overrides);
  find_data(*config, folders_above(path));
  if (config->train.threads > 0) set_num_threads(config->train.threads);
  const Experiment experiment = build_experiment(*config, {}, header.tokenizer);
  load_checkpoint(path, tensors_of(*experiment.model));
  if (communicator.is_root()) {
    const std::string difference = data_difference(header, *experiment.task);
    if (!difference.empty()) say(fmt::format("mobius: warning: {}: {}", path, difference));
    for (const std::string& warning : experiment.task->warnings()) {
      say("mobius: warning: " + warning);
    }
  }

  const Evaluation evaluation =
      *evaluate(*experiment.model, *experiment.task, config->train.micro_batch_size(), communicator,
                [] { return false; });
  try {
    require_finite_loss(*experiment.model, "test loss", evaluation.total.loss(), header.step);
  } catch (const TrainingDiverged& error) {
    throw TrainingDiverged("{}: {}", path, error.what());
  }
  if (!communicator.is_root()) return ExitCode::done;
  const auto language = language_score(evaluation.total.loss(), *experiment.task);
  const NamedScores& groups = evaluation.groups;
  if (arguments.as_json) {
    fmt::print("{}\n", evaluation_json(header.step, evaluation.total, groups, evaluation.summaries,
                                       language));
  } else {
    print_scores(header.step, evaluation, groups, language);
  }
  return ExitCode::done;
}

}  // namespace

void add_eval_command(CLI::App& app, const Registries& known, RanksAction& action) {
  CLI::App* command = app.add_subcommand("eval", "Score a checkpoint on the test sequences");
  command->footer(eval_examples);
  auto arguments = std::make_shared<EvalArguments>();
  add_checkpoint(*command, arguments->checkpoint);
  add_overrides(*command, arguments->overrides,
                "values of task and train that replace the checkpoint's");
  command->add_flag("--json", arguments->as_json, "one JSON object on standard output");
  set_action(*command, action, [arguments, &known](Communicator& communicator) {
    return eval(*arguments, known, communicator);
  });
}

}  // namespace mobius
