#include "train/compare/watch.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "train/commands/commands.h"
#include "train/io/printable.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr const char* watch_examples = R"(Examples:
  mobius watch runs/first               the curves of a run, redrawn until it ends
  mobius watch runs/demo                of all runs of a comparison
  mobius watch runs/first --once        as they are now)";

struct WatchArguments {
  std::string folder;
  bool is_once = false;
};

ExitCode watch(const WatchArguments& arguments, StopSignal& stop) {
  stop.listen();
  Output out(stdout, &stop);
  const bool is_terminal = out.is_terminal();
  if (watched_runs(arguments.folder).empty() && !arguments.is_once) {
    say(fmt::format("mobius: {}: no run yet; waiting for one", arguments.folder));
  }
  while (true) {
    const std::vector<fs::path> runs = watched_runs(arguments.folder);
    const bool is_last = arguments.is_once || has_ended(runs);
    if (is_terminal && !arguments.is_once) out.write("\x1b[H\x1b[2J");
    const TerminalSize size = out.size();
    if (is_terminal || is_last) out.write(watch_screen(runs, size.columns, size.rows));
    out.require_written();
    for (int i = 0; i < 10 && !is_last && !stop.is_requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (is_last || stop.is_requested()) return ExitCode::done;
  }
}

}  // namespace

void add_watch_command(CLI::App& app, StopSignal& stop, Action& action) {
  CLI::App* command =
      app.add_subcommand("watch", "Draw the learning curves of a run or a comparison");
  command->footer(watch_examples);
  auto arguments = std::make_shared<WatchArguments>();
  add_path(*command, "folder", "DIR", arguments->folder, "folder of a run or a comparison")
      ->required();
  command->add_flag("--once", arguments->is_once, "draw them once, as they are now");
  set_action(*command, action, [arguments, &stop] { return watch(*arguments, stop); });
}

}  // namespace mobius
