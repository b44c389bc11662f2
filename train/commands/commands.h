// The command line: one function a command, each in its own file.
#pragma once

#include <functional>

#include "core/comm/communicator.h"
#include "train/config/config.h"
#include "train/io/stop_signal.h"

namespace CLI {
class App;
}

namespace mobius {

/// How the program ends. Documented in `mobius --help` and docs/commands.md.
enum class ExitCode {
  done = 0,
  failed = 1,       ///< a file, the disk, memory, ...
  bad_input = 2,    ///< the configuration or the command line
  diverged = 3,     ///< a loss, a gradient or an update was not finite
  interrupted = 4,  ///< stopped by a signal or a closed output, with everything saved
};

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

/// Runs the program, as one of the ranks that the environment says were launched; never throws. The
/// root alone speaks to the user, but for a rank that fails by itself, which ends all of them. To
/// be called first thing in main, once: from then on signals are taken as StopSignal says, until
/// the process has ended.
ExitCode run_command_line(int argc, const char* const* argv, const Registries& known);

}  // namespace mobius
