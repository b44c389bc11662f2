#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "train/commands/commands.h"
#include "train/compare/comparison_file.h"
#include "train/config/writer.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace {

constexpr const char* config_examples = R"(Examples:
  mobius config show run.yaml optimizer.lr=3e-4      every value, defaults and overrides included
  mobius config help                                 every key: type, default, range, meaning
  mobius config help attention                       those of a section, or one key)";

struct ShowArguments {
  std::string config;
  std::vector<std::string> overrides;
};

ExitCode show(const ShowArguments& arguments, const Registries& known) {
  const auto config = load_config(arguments.config, arguments.overrides, known);
  fmt::print("{}", resolved_yaml(*config));
  return ExitCode::done;
}

// Fits the lines to a terminal; elsewhere writes one line per key, for other programs to search.
ExitCode help(const std::string& about, const Registries& known) {
  Config config(known);
  ComparisonKeys comparison;
  const auto of_run = describe(config), of_comparison = describe(comparison);
  const std::vector<const Schema*> all = {of_run.get(), of_comparison.get()};
  const Output out(stdout);
  fmt::print("{}", out.is_terminal()
                       ? help_text(all, about, static_cast<std::size_t>(out.size().columns))
                       : help_text(all, about));
  return ExitCode::done;
}

}  // namespace

void add_config_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command = app.add_subcommand("config", "Show a resolved configuration, or every key");
  command->footer(config_examples);
  command->require_subcommand(1);

  CLI::App* show_command = command->add_subcommand("show", "Print the resolved configuration");
  auto arguments = std::make_shared<ShowArguments>();
  add_path(*show_command, "config", "CONFIG", arguments->config, "YAML file")->required();
  add_overrides(*show_command, arguments->overrides, "values that replace the file's");
  set_action(*show_command, action, [arguments, &known] { return show(*arguments, known); });

  CLI::App* help_command = command->add_subcommand("help", "List keys with their meaning");
  auto about = std::make_shared<std::string>();
  help_command
      ->add_option("section", *about, "section or key, such as train.early_stop; all unless given")
      ->type_name("SECTION");
  set_action(*help_command, action, [about, &known] { return help(*about, known); });
}

}  // namespace mobius
