#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/backend.h"
#include "core/error.h"
#include "core/options/nearest.h"
#include "core/parallel.h"
#include "core/path.h"
#include "train/commands/commands.h"
#include "train/config/scalar.h"
#include "train/config/writer.h"
#include "train/io/printable.h"
#include "train/optim/finite.h"

namespace mobius {

namespace {

constexpr const char* exit_codes = R"(Exit codes:
  0  done
  1  failed: a file, the disk, memory, ...
  2  the configuration or the command line is wrong
  3  a number was not finite: training stopped, or a checkpoint was scored
  4  stopped with everything saved: by Ctrl-C, SIGTERM, SIGUSR1 or SIGHUP (a closed terminal; ignored
     under nohup), or because the pipe of standard output was closed; a signal more than a second
     after the first ends at once

Example:
  mobius train configs/recall/mqar_softmax.yaml optimizer.lr=3e-4 --out runs/first)";

ExitCode fail(ExitCode code, const std::string& message) {
  say("mobius: error: " + message);
  return code;
}

// A reader that leaves, as `head` does, has read what it wanted, so nothing is said.
ExitCode fail(const OutputError& error) {
  return error.is_closed() ? ExitCode::failed : fail(ExitCode::failed, error.what());
}

// Waits for up to a second; returns false if the launcher or a user asks to stop meanwhile.
bool waits_undisturbed(const StopSignal& stop) {
  constexpr auto interval = std::chrono::milliseconds(10);
  for (auto left = std::chrono::milliseconds(1000); left.count() > 0; left -= interval) {
    if (stop.is_requested()) return false;
    std::this_thread::sleep_for(interval);
  }
  return true;
}

// A rank that fails by itself ends the others, which wait for it. A fault of one rank (in the
// configuration, a file) is mostly one of all: the others let the root report it and end them.
ExitCode fail(ExitCode code, const std::string& message, Communicator* communicator,
              const StopSignal& stop) {
  if (communicator == nullptr || communicator->size() == 1) return fail(code, message);
  if (communicator->is_root()) {
    fail(code, message);
  } else if (waits_undisturbed(stop)) {
    fail(code, fmt::format("rank {}: {}", communicator->rank(), message));
  }
  communicator->abort(static_cast<int>(code));
  return code;
}

std::unique_ptr<Communicator> join_ranks() {
  const Launch launch = launch_of(process_environment());
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  set_num_threads(threads_per_rank(launch, num_threads(), cores));
  return make_communicator(launch);
}

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : innermost(*given.front());
}

// Returns the name of a command after those it lies in: "mobius config show".
std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  return fmt::format("mobius: error: {}\nRun '{} --help' for what it takes.\n",
                     printable_line(error.what()), full_name(innermost(*app)));
}

// Throws ConfigError for an unknown command or option, and names the one that was probably meant.
void refuse_unknown_words(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> unknown = command.remaining();
  if (unknown.empty()) return;
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  std::vector<std::string> names;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    throw ConfigError("unknown option '{}'; {}", word, suggest_name(word, names));
  }
  for (const CLI::App* known : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(known->get_name());
  }
  if (!names.empty())
    throw ConfigError("unknown command '{}'; {}", word, suggest_name(word, names));
}

// What the words on the command line ask for.
struct Actions {
  Action of_one_process;
  RanksAction of_all_ranks;

  ExitCode run(Communicator& communicator) const {
    if (of_all_ranks) return of_all_ranks(communicator);
    if (communicator.size() == 1) return of_one_process();
    throw ConfigError(
        "only train and eval run on several ranks; start this command without mpirun or srun");
  }
};

ExitCode parse_and_run(CLI::App& app, int argc, const char* const* argv, const Actions& actions,
                       Communicator& communicator) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) refuse_unknown_words(app);
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    if (communicator.is_root()) {
      fmt::print("{}", out.str());
      Output(stderr).write(err.str());
    }
    return code == 0 ? ExitCode::done : ExitCode::bad_input;
  }
  return actions.run(communicator);
}

ExitCode run(int argc, const char* const* argv, const Registries& known, StopSignal& stop,
             Communicator& communicator) {
  CLI::App app("Trains attention models described by a YAML file.", "mobius");
  app.footer(exit_codes);
  app.set_version_flag("--version", "mobius " MOBIUS_VERSION);
  app.require_subcommand(1);
  app.failure_message(failure_message);
  Actions actions;
  add_train_command(app, known, stop, actions.of_all_ranks);
  add_eval_command(app, known, actions.of_all_ranks);
  add_generate_command(app, known, stop, actions.of_one_process);
  add_info_command(app, actions.of_one_process);
  add_inspect_command(app, actions.of_one_process);
  add_export_command(app, actions.of_one_process);
  add_import_command(app, known, actions.of_one_process);
  add_config_command(app, known, actions.of_one_process);
  add_compare_command(app, known, stop, actions.of_one_process);
  add_experiment_command(app, known, stop, actions.of_one_process);
  add_watch_command(app, stop, actions.of_one_process);
  return parse_and_run(app, argc, argv, actions, communicator);
}

ExitCode run_to_the_end(int argc, const char* const* argv, const Registries& known,
                        StopSignal& stop) {
  std::unique_ptr<Communicator> communicator;
  try {
    communicator = join_ranks();
    backend_for(Device{DeviceType::cpu});  // reports a missing instruction set before any file
    return run(argc, argv, known, stop, *communicator);
  } catch (const OutputError& error) {
    return fail(error);
  } catch (const TrainingDiverged& error) {  // on all ranks alike
    if (communicator->is_root()) fail(ExitCode::diverged, error.what());
    return ExitCode::diverged;
  } catch (const ConfigError& error) {
    return fail(ExitCode::bad_input, error.what(), communicator.get(), stop);
  } catch (const std::filesystem::filesystem_error& error) {
    return fail(ExitCode::failed,
                fmt::format("{}: {}", error.path1().string(), error.code().message()),
                communicator.get(), stop);
  } catch (const std::system_error& error) {  // fmt's, where standard output is what failed
    if (std::ferror(stdout) != 0) return fail(OutputError(error.code().value()));
    return fail(ExitCode::failed, error.what(), communicator.get(), stop);
  } catch (const std::exception& error) {
    return fail(ExitCode::failed, error.what(), communicator.get(), stop);
  }
}

}  // namespace

void set_action(CLI::App& command, Action& action, Action run) {
  command.callback([&action, run = std::move(run)] { action = run; });
}

void set_action(CLI::App& command, RanksAction& action, RanksAction run) {
  command.callback([&action, run = std::move(run)] { action = run; });
}

CLI::Option* add_path(CLI::App& command, const std::string& name, const std::string& type,
                      std::string& path, const std::string& help) {
  return command.add_option(name, path, help)->type_name(type)->transform(expand_home);
}

void add_checkpoint(CLI::App& command, std::string& path) {
  add_path(command, "checkpoint", "CHECKPOINT", path, "HDF5 file, or the folder of a run")
      ->required();
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides,
                   const std::string& help) {
  command.add_option("overrides", overrides, help)->type_name("key.path=value");
}

void add_value_option(CLI::App& command, const std::shared_ptr<Schema>& schema,
                      const std::string& key, const std::string& names) {
  const auto& field = std::get<OptionField>(*schema->find(key));
  const OptionType type = field.form().type;
  const std::string name = names.substr(0, names.find(','));
  const auto assign = [schema, &field, name, type](const std::string& text) {
    try {
      field.assign(read_scalar(type, text));
    } catch (const ConfigError& error) {
      throw printable_error("{}: {}", name, error.what());
    }
  };
  CLI::Option* option = command.add_option_function<std::string>(names, assign, field.help());
  option->type_name(type == OptionType::integer ? "N" : "X");
  const bool has_default = !std::holds_alternative<std::monostate>(field.initial());
  if (has_default) option->default_str(to_yaml(field.initial()));
}

void add_value_options(CLI::App& command, const std::shared_ptr<Schema>& schema) {
  for (const OptionEntry* entry : schema->entries()) {
    std::string name = "--" + key_of(*entry);
    std::replace(name.begin(), name.end(), '_', '-');
    add_value_option(command, schema, key_of(*entry), name);
  }
}

void require_one_folder(const std::string& out, const std::vector<std::string>& overrides) {
  ConfigDocument given = ConfigDocument::from_text("output: {}\n", "the command line");
  for (const std::string& assignment : overrides) {
    if (assignment.starts_with("output")) given.override_with(assignment);
  }
  const ConfigEntry* output = given.root().find("output");
  if (out.empty() || output == nullptr || output->value.find("dir") == nullptr) return;
  throw printable_error("--out {}: output.dir is given, too; name the folder by one of them", out);
}

ExitCode run_command_line(int argc, const char* const* argv, const Registries& known) {
  // It is never destroyed, so that a signal in the last moment does not change the exit code.
  static StopSignal& stop = *new StopSignal;
  hold_standard_streams();
  const ExitCode code = run_to_the_end(argc, argv, known, stop);
  if (code != ExitCode::done) return code;
  try {
    flush_standard_output();
    return code;
  } catch (const OutputError& error) {
    return fail(error);
  }
}

}  // namespace mobius
