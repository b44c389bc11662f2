// The command line: one function a command, each in its own file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "train/config/config.h"
#include "train/io/output.h"
#include "train/io/stop_signal.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mobius {

/// What the command line asked for; called once it has been read without errors.
using Action = std::function<ExitCode()>;
/// The same of a command that several ranks run together, each calling it.
using RanksAction = std::function<ExitCode(Communicator&)>;

/// Each adds its subcommand; when it is the one given, it sets `action`. Those that can be stopped
/// half-way listen to `stop`; signals end the others as they end any program.
void add_train_command(CLI::App& app, const Registries& known, StopSignal& stop,
                       RanksAction& action);
void add_eval_command(CLI::App& app, const Registries& known, RanksAction& action);
void add_generate_command(CLI::App& app, const Registries& known, StopSignal& stop, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_import_command(CLI::App& app, const Registries& known, Action& action);
void add_config_command(CLI::App& app, const Registries& known, Action& action);
void add_compare_command(CLI::App& app, const Registries& known, StopSignal& stop, Action& action);
void add_watch_command(CLI::App& app, StopSignal& stop, Action& action);

/// Adds an argument, or an option called "--name", that is a path; "~/" is the user's folder.
CLI::Option* add_path(CLI::App& command, const std::string& name, const std::string& type,
                      std::string& path, const std::string& help);
/// Adds the argument that every command on a checkpoint has.
void add_checkpoint(CLI::App& command, std::string& path);
/// Adds the arguments "key.path=value".
void add_overrides(CLI::App& command, std::vector<std::string>& overrides, const std::string& help);

/// Throws ConfigError where both --out, unless it is empty, and an override name the folder.
void require_one_folder(const std::string& out, const std::vector<std::string>& overrides);

/// Runs the program, as one of the ranks that the environment says were launched; never throws. The
/// root alone speaks to the user, but for a rank that fails by itself, which ends all of them. To
/// be called first thing in main, once: from then on signals are taken as StopSignal says, until
/// the process has ended.
ExitCode run_command_line(int argc, const char* const* argv, const Registries& known);

}  // namespace mobius
