#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/experiment.h"
#include "train/printable.h"
#include "train/safetensors.h"

namespace mobius {

namespace {

constexpr const char* export_examples = R"(Example:
  mobius export runs/run/checkpoints/best.h5 model.safetensors

From Python: safetensors.numpy.load_file("model.safetensors")["embedding.weight"]
The configuration and the step are in the file's metadata; `mobius inspect` lists the names.)";

constexpr const char* import_examples = R"(Example:
  mobius import run.yaml model.safetensors start.h5
  mobius train run.yaml --resume start.h5 --out runs/from_there

The file must have exactly the parameters of the model that the configuration describes; `mobius
inspect` lists them. The checkpoint is one of step 0, with a fresh optimiser.)";

ExitCode export_parameters(const std::string& checkpoint, const std::string& out) {
  const CheckpointHeader header = read_checkpoint_header(checkpoint);
  write_safetensors(out, {.tensors = read_parameters(checkpoint),
                          .metadata = {{"format", "mobius"},
                                       {"step", std::to_string(header.step)},
                                       {"config", header.config}}});
  fmt::print("{}: the parameters of step {}\n", printable_line(out), header.step);
  return ExitCode::done;
}

ExitCode import_parameters(const std::string& config_path, const std::string& file,
                           const std::string& out, const Registries& known) {
  const auto config = load_config(config_path, {}, known);
  const Experiment experiment = build_experiment(*config);
  const CheckpointTensors tensors = tensors_of(*experiment.model, *experiment.optimizer);
  fill_from_safetensors(file, tensors.parameters);

  CheckpointHeader header;
  header.seed = config->train.seed;
  header.config = resolved_yaml(*config);
  header.tokenizer = tokenizer_model(*experiment.task);
  header.data = experiment.task->fingerprint();
  save_checkpoint(out, header, tensors);
  fmt::print("{}: step 0 with the parameters of {}\n", printable_line(out), printable_line(file));
  return ExitCode::done;
}

}  // namespace

void add_export_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint's parameters as a safetensors file");
  command->footer(export_examples);
  auto paths = std::make_shared<std::pair<std::string, std::string>>();
  command->add_option("checkpoint", paths->first, "HDF5 file")->required()->type_name("CHECKPOINT");
  command->add_option("out", paths->second, "safetensors file")->required()->type_name("OUT");
  command->callback([paths, &action] {
    action = [paths] { return export_parameters(paths->first, paths->second); };
  });
}

void add_import_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command =
      app.add_subcommand("import", "Make a checkpoint from the parameters in a safetensors file");
  command->footer(import_examples);
  struct Paths {
    std::string config, file, out;
  };
  auto paths = std::make_shared<Paths>();
  command->add_option("config", paths->config, "of the model")->required()->type_name("CONFIG");
  command->add_option("file", paths->file, "safetensors file")->required()->type_name("FILE");
  command->add_option("out", paths->out, "HDF5 file")->required()->type_name("CHECKPOINT");
  command->callback([paths, &known, &action] {
    action = [paths, &known] {
      return import_parameters(paths->config, paths->file, paths->out, known);
    };
  });
}

}  // namespace mobius
