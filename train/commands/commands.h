// Defines the command line: one function per command, each in its own file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/options/schema.h"
#include "train/config/config.h"
#include "train/io/output.h"
#include "train/io/stop_signal.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mobius {

/// Does what the command line asks for; called once it has been read without errors.
using Action = std::function<ExitCode()>;
/// The action of a command that several ranks run together, each calling it.
using RanksAction = std::function<ExitCode(Communicator&)>;

/// Each adds its subcommand, which sets `action` if it is given. Commands that can be stopped
/// half-way listen to `stop`; signals end the others like any program.
void add_train_command(CLI::App& app, const Registries& known, StopSignal& stop,
                       RanksAction& action);
void add_eval_command(CLI::App& app, const Registries& known, RanksAction& action);
void add_generate_command(CLI::App& app, const Registries& known, StopSignal& stop, Action& action);
void add_info_command(CLI::App& app, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_export_command(CLI::App& app, Action& action);
void add_import_command(CLI::App& app, const Registries& known, Action& action);
void add_config_command(CLI::App& app, const Registries& known, Action& action);
void add_compare_command(CLI::App& app, const Registries& known, StopSignal& stop, Action& action);
void add_experiment_command(CLI::App& app, const Registries& known, StopSignal& stop,
                            Action& action);
void add_watch_command(CLI::App& app, StopSignal& stop, Action& action);

/// Makes the command, if it is given, set `action` to `run`.
void set_action(CLI::App& command, Action& action, Action run);
void set_action(CLI::App& command, RanksAction& action, RanksAction run);

/// Adds an argument, or an option called "--name", that is a path; "~/" is the user's folder.
CLI::Option* add_path(CLI::App& command, const std::string& name, const std::string& type,
                      std::string& path, const std::string& help);
/// Adds the argument of every command on a checkpoint.
void add_checkpoint(CLI::App& command, std::string& path);
/// Adds the arguments "key.path=value".
void add_overrides(CLI::App& command, std::vector<std::string>& overrides, const std::string& help);

/// Adds an option called `names` ("--jobs,-j") for the field `key`, with the field's help and
/// default. A value that the field refuses is a ConfigError that names the option.
void add_value_option(CLI::App& command, const std::shared_ptr<Schema>& schema,
                      const std::string& key, const std::string& names);
/// Adds an option for every field of the options struct: "top_k" is --top-k. The struct must
/// outlive the parsing.
void add_value_options(CLI::App& command, const std::shared_ptr<Schema>& schema);

/// Throws ConfigError if both a non-empty --out and an override name the folder.
void require_one_folder(const std::string& out, const std::vector<std::string>& overrides);

/// Runs the program as one of the ranks that the environment says were launched; never throws. Only
/// the root speaks to the user, and a rank that fails by itself, which ends all of them. main calls
/// it first and once: from then on StopSignal takes the signals until the process has ended.
ExitCode run_command_line(int argc, const char* const* argv, const Registries& known);

}  // namespace mobius
