#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/nearest.h"
#include "train/commands/commands.h"
#include "train/printable.h"
#include "train/step.h"

namespace mobius {

namespace {

constexpr const char* exit_codes = R"(Exit codes:
  0  done
  1  failed: a file, the disk, memory, ...
  2  the configuration or the command line is wrong
  3  training stopped: a loss or gradient was not finite
  4  stopped by Ctrl-C or SIGTERM, with everything saved (a second Ctrl-C ends at once)

Example:
  mobius train configs/recall/mqar_softmax.yaml optimizer.lr=3e-4 --out runs/first)";

ExitCode fail(ExitCode code, const char* message) {
  std::fflush(stdout);
  fmt::print(stderr, "mobius: error: {}\n", printable_lines(message));
  return code;
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : innermost(*given.front());
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Throws ConfigError that names the command or option that was probably meant, where the command
// line holds one that there is not.
void refuse_unknown_words(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) return;
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  if (word.starts_with('-')) {
    throw ConfigError("unknown option '{}'; {}", word, suggest_name(word, options_of(command)));
  }
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return;
  throw ConfigError("unknown command '{}'; {}", word, suggest_name(word, commands));
}

ExitCode parse_and_run(CLI::App& app, int argc, const char* const* argv, const Action& action) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) refuse_unknown_words(app);
    return app.exit(error) == 0 ? ExitCode::done : ExitCode::bad_input;
  }
  return action();
}

}  // namespace

ExitCode run_command_line(int argc, const char* const* argv, const Registries& known) {
  CLI::App app("Trains attention models described by a YAML file.", "mobius");
  app.footer(exit_codes);
  app.set_version_flag("--version", "mobius " MOBIUS_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("mobius: error: {}\nRun 'mobius --help' for the commands.\n",
                       printable(error.what()));
  });
  Action action;
  add_train_command(app, known, action);
  add_eval_command(app, known, action);
  add_inspect_command(app, action);
  add_config_command(app, known, action);
  add_compare_command(app, known, action);
  try {
    return parse_and_run(app, argc, argv, action);
  } catch (const TrainingDiverged& error) {
    return fail(ExitCode::diverged, error.what());
  } catch (const ConfigError& error) {
    return fail(ExitCode::bad_input, error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::failed, error.what());
  }
}

}  // namespace mobius
