#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/experiment.h"
#include "train/metrics.h"
#include "train/output.h"
#include "train/printable.h"
#include "train/step.h"

namespace mobius {

namespace {

constexpr const char* examples = R"(Examples:
  mobius eval runs/run/checkpoints/best.h5
  mobius eval runs/run/checkpoints/best.h5 --json | python3 -m json.tool

The score is that of the training run's own evaluation at the same step, bit for bit. A text or a
token file that has changed since is warned of, and scored.)";

using NamedScores = std::vector<std::pair<std::string, Score>>;

void print_scores(std::int64_t step, const Evaluation& evaluation, const NamedScores& groups,
                  const std::optional<LanguageScore>& language) {
  const Score& total = evaluation.total;
  fmt::print("step {}\ntest loss {:.6f}{}, test accuracy {:.2f}% of {} positions\n", step,
             printable(total.loss()), language_words(language), 100 * total.accuracy(),
             total.n_scored);
  if (groups.size() > 1) {
    for (const auto& [name, score] : groups) {
      fmt::print("  {}: loss {:.6f}, accuracy {:.2f}%\n", name, printable(score.loss()),
                 100 * score.accuracy());
    }
  }
  if (evaluation.share_beyond_resolution) {
    fmt::print("queries beyond the resolution limit: {:.2f}%\n",
               100 * *evaluation.share_beyond_resolution);
  }
}

// The score is then not that of the training run: of other data, by the same name.
void warn_of_other_data(const CheckpointHeader& header, const Task& task, const std::string& path) {
  const std::string now = task.fingerprint();
  if (header.data == now) return;
  say(fmt::format("mobius: warning: {}: was made with {}, but now there are {}", printable(path),
                  header.data.empty() ? "data of no files" : printable(header.data),
                  now.empty() ? "none" : printable(now)));
}

ExitCode eval(const std::string& path, bool as_json, const Registries& known,
              Communicator& communicator) {
  const CheckpointHeader header = read_checkpoint_header(path);
  const auto config = parse_config(header.config, path, known);
  if (config->train.threads > 0) set_num_threads(config->train.threads);
  const Experiment experiment = build_experiment(*config, {}, header.tokenizer);
  load_checkpoint(path, tensors_of(*experiment.model));
  if (communicator.is_root()) warn_of_other_data(header, *experiment.task, path);

  const Evaluation evaluation =
      *evaluate(*experiment.model, *experiment.task, config->train.micro_batch_size(), communicator,
                [] { return false; });
  if (!communicator.is_root()) return ExitCode::done;
  const auto language = language_score(evaluation.total.loss(), *experiment.task);
  NamedScores groups;
  for (std::size_t i = 0; i < evaluation.groups.size(); ++i) {
    groups.emplace_back(experiment.task->groups()[i], evaluation.groups[i]);
  }
  if (as_json) {
    fmt::print("{}\n", evaluation_json(header.step, evaluation.total, groups,
                                       evaluation.share_beyond_resolution, language));
  } else {
    print_scores(header.step, evaluation, groups, language);
  }
  return ExitCode::done;
}

}  // namespace

void add_eval_command(CLI::App& app, const Registries& known, RanksAction& action) {
  CLI::App* command = app.add_subcommand("eval", "Score a checkpoint on the test sequences");
  command->footer(examples);
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  command->add_option("checkpoint", *path, "HDF5 file")->required()->type_name("CHECKPOINT");
  command->add_flag("--json", *as_json, "one JSON object on standard output");
  command->callback([path, as_json, &known, &action] {
    action = [path, as_json, &known](Communicator& communicator) {
      return eval(*path, *as_json, known, communicator);
    };
  });
}

}  // namespace mobius
