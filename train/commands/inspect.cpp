#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "train/checkpoint/checkpoint.h"
#include "train/commands/commands.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

constexpr const char* inspect_examples = R"(Examples:
  mobius inspect runs/run/checkpoints/best.h5
  mobius inspect runs/run                   its best.h5, else its newest checkpoint

From Python: h5py.File("best.h5")["parameters"]["embedding.weight"][:])";

ExitCode inspect(const std::string& checkpoint) {
  const std::string path = find_checkpoint(checkpoint).string();
  const CheckpointHeader header = read_checkpoint_header(path);
  const std::vector<StoredTensor> parameters = list_parameters(path);
  fmt::print("step {}, seed {}\n", header.step, header.seed);
  if (!header.instruction_set.empty())
    fmt::print("instruction set: {}\n", printable(header.instruction_set));
  for (const auto& [name, value] : header.progress)
    fmt::print("{}: {:g}\n", printable_line(name), printable(value));
  fmt::print("\n# configuration\n{}\n# parameters\n", printable_lines(header.config));

  std::size_t width = 5;
  for (const StoredTensor& tensor : parameters) {
    width = std::max(width, printable_line(tensor.name).size());
  }
  std::int64_t total = 0;
  for (const StoredTensor& tensor : parameters) {
    fmt::print("{:<{}}  {:<4}  {:>14}  {:>10}\n", printable_line(tensor.name), width,
               name_of(tensor.dtype), to_string(tensor.shape), numel(tensor.shape));
    total += numel(tensor.shape);
  }
  fmt::print("{:<{}}  {:<4}  {:>14}  {:>10}\n", "total", width, "", "", total);
  return ExitCode::done;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show a checkpoint's step, configuration and parameters");
  command->footer(inspect_examples);
  auto path = std::make_shared<std::string>();
  add_checkpoint(*command, *path);
  set_action(*command, action, [path] { return inspect(*path); });
}

}  // namespace mobius
