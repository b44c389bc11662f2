#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/path.h"
#include "train/commands/commands.h"
#include "train/config_writer.h"

namespace mobius {

namespace {

constexpr const char* examples = R"(Examples:
  mobius config show run.yaml optimizer.lr=3e-4      every value, defaults and overrides included
  mobius config help                                 every key: type, default, range, meaning)";

struct ShowArguments {
  std::string config;
  std::vector<std::string> overrides;
};

ExitCode show(const ShowArguments& arguments, const Registries& known) {
  const auto config = load_config(arguments.config, arguments.overrides, known);
  fmt::print("{}", resolved_yaml(*config));
  return ExitCode::done;
}

ExitCode help(const Registries& known) {
  Config config(known);
  fmt::print("{}", help_text(*describe(config)));
  return ExitCode::done;
}

}  // namespace

void add_config_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command = app.add_subcommand("config", "Show a resolved configuration, or every key");
  command->footer(examples);
  command->require_subcommand(1);

  CLI::App* show_command = command->add_subcommand("show", "Print the resolved configuration");
  auto arguments = std::make_shared<ShowArguments>();
  show_command->add_option("config", arguments->config, "YAML file")
      ->required()
      ->type_name("CONFIG")
      ->transform(expand_home);
  show_command->add_option("overrides", arguments->overrides, "values that replace the file's")
      ->type_name("key.path=value");
  show_command->callback([arguments, &known, &action] {
    action = [arguments, &known] { return show(*arguments, known); };
  });

  CLI::App* help_command = command->add_subcommand("help", "List every key with its meaning");
  help_command->callback([&known, &action] { action = [&known] { return help(known); }; });
}

}  // namespace mobius
