#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors.h"
#include "train/commands/commands.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/run/data_places.h"
#include "train/run/experiment.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace {

constexpr const char* export_examples = R"(Example:
  mobius export runs/run model.safetensors           of its best.h5, else of its newest checkpoint

From Python: safetensors.numpy.load_file("model.safetensors")["embedding.weight"]
The configuration and the step are in the file's metadata; `mobius inspect` lists the names.)";

constexpr const char* import_examples = R"(Example:
  mobius import run.yaml model.safetensors start.h5
  mobius train run.yaml --resume start.h5 --out runs/from_there

The file must have exactly the parameters of the model that the configuration describes; `mobius
inspect` lists them. The checkpoint is one of step 0, with a fresh optimiser.)";

// Tells the user on standard error if the file itself goes to standard output.
void say_written(const std::string& out, const std::string& what) {
  fmt::print(std::filesystem::is_regular_file(out) ? stdout : stderr, "{}: {}\n",
             printable_line(out), printable_line(what));
}

struct ExportArguments {
  std::string checkpoint, out;
  bool is_forced = false;
};

ExitCode export_parameters(const ExportArguments& arguments) {
  const std::filesystem::path checkpoint = find_checkpoint(arguments.checkpoint);
  require_free(arguments.out, {checkpoint}, arguments.is_forced);
  const CheckpointHeader header = read_checkpoint_header(checkpoint);
  remove_abandoned(arguments.out);
  write_safetensors(arguments.out, {.tensors = read_parameters(checkpoint),
                                    .metadata = {{"format", "mobius"},
                                                 {"step", std::to_string(header.step)},
                                                 {"config", header.config}}});
  say_written(arguments.out, fmt::format("the parameters of step {}", header.step));
  return ExitCode::done;
}

struct ImportArguments {
  std::string config, file, out;
  bool is_forced = false;
};

ExitCode import_parameters(const ImportArguments& arguments, const Registries& known) {
  const auto& [config_path, file, out, is_forced] = arguments;
  const auto config = load_config(config_path, {}, known);
  find_data(*config, folders_for(config_path));
  for (const std::filesystem::path& data : data_files(*config)) {
    require_free(out, {data}, /*may_replace=*/true);
  }
  require_free(out, {config_path, file}, is_forced);
  const Experiment experiment = build_experiment(*config);
  const CheckpointTensors tensors = tensors_of(*experiment.model, *experiment.optimizer);
  fill_from_safetensors(file, tensors.parameters);

  CheckpointHeader header;
  header.seed = config->train.seed;
  header.config = resolved_yaml(*config);
  header.tokenizer = tokenizer_model(*experiment.task);
  header.data = experiment.task->fingerprint();
  remove_abandoned(out);
  save_checkpoint(out, header, tensors);
  say_written(out, fmt::format("step 0 with the parameters of {}", file));
  return ExitCode::done;
}

void add_force(CLI::App& command, bool& is_forced) {
  command.add_flag("--force", is_forced, "replace a file that exists");
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint's parameters as a safetensors file");
  command->footer(export_examples);
  auto arguments = std::make_shared<ExportArguments>();
  add_checkpoint(*command, arguments->checkpoint);
  add_path(*command, "out", "OUT", arguments->out, "safetensors file")->required();
  add_force(*command, arguments->is_forced);
  set_action(*command, action, [arguments] { return export_parameters(*arguments); });
}

void add_import_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command =
      app.add_subcommand("import", "Make a checkpoint from the parameters in a safetensors file");
  command->footer(import_examples);
  auto arguments = std::make_shared<ImportArguments>();
  add_path(*command, "config", "CONFIG", arguments->config, "of the model")->required();
  add_path(*command, "file", "FILE", arguments->file, "safetensors file")->required();
  add_path(*command, "out", "CHECKPOINT", arguments->out, "HDF5 file")->required();
  add_force(*command, arguments->is_forced);
  set_action(*command, action,
             [arguments, &known] { return import_parameters(*arguments, known); });
}

}  // namespace mobius
