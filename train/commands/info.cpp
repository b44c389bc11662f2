#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/cpu/simd/isa.h"
#include "core/gpus.h"
#include "core/parallel.h"
#include "train/commands/commands.h"
#include "train/io/printable.h"
#include "train/run/progress.h"

namespace mobius {

namespace {

constexpr const char* info_help =
    "A GPU is used by train.device: auto or cuda. CUDA_VISIBLE_DEVICES chooses which ones a "
    "program "
    "sees.";

void print_gpu(const Gpu& gpu, std::size_t width) {
  fmt::print("cuda:{}  {:<{}}  {:>10}  compute capability {}.{}, {}\n", gpu.index,
             printable_line(gpu.name), width, format_bytes(static_cast<double>(gpu.memory)),
             gpu.major, gpu.minor,
             gpu.has_code ? "this build has code for it" : "this build has no code for it");
}

ExitCode info() {
  const int threads = num_threads();
  fmt::print("CPU: {}, {} thread{}\n", instruction_set(), threads, threads == 1 ? "" : "s");
  const GpuReport report = find_gpus();
  if (!report.runtime.empty()) {
    fmt::print("CUDA: version {}, driver {}, code for {}\n", report.runtime,
               report.driver.empty() ? "none" : "for " + report.driver, report.code);
  }
  std::size_t width = 0;
  for (const Gpu& gpu : report.gpus) width = std::max(width, printable_line(gpu.name).size());
  for (const Gpu& gpu : report.gpus) print_gpu(gpu, width);
  if (!report.problem.empty()) fmt::print("no GPU can be used: {}\n", report.problem);
  return ExitCode::done;
}

}  // namespace

void add_info_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "Show what this machine can compute on");
  command->footer(info_help);
  set_action(*command, action, [] { return info(); });
}

}  // namespace mobius
