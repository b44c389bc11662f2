// Trains several configurations at once, each in a process of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/compare/child_process.h"
#include "train/io/output.h"
#include "train/io/stop_signal.h"

namespace mobius {

/// A run to be trained in a folder, which exists.
struct Job {
  std::string name;
  std::filesystem::path folder;
  std::string config;  ///< what its config.yaml is to hold
  std::int64_t max_steps = 0;
};

/// Writes config.yaml.
void write_config(const Job& job);
/// Returns the command that trains or continues a job with a config.yaml, from the current folder.
std::vector<std::string> command_of(const Job& job);
/// The file for the output of its process.
std::filesystem::path log_of(const Job& job);

/// A busy job waits for a process of an earlier comparison that still saves in its folder.
enum class JobState { waiting, busy, running, finished, diverged, interrupted, failed };

struct JobStatus {
  JobState state = JobState::waiting;
  std::chrono::steady_clock::time_point started{};
  std::optional<ProcessEnd> end{};  ///< of its process, if one was started
  std::string problem{};            ///< the last error of a failed or diverged process
};

/// Shows the progress of jobs: one line per job, redrawn in place, on a terminal; elsewhere one
/// line whenever a job starts or ends. It writes, and asks `stop` to stop, as Output does.
class JobDisplay {
 public:
  JobDisplay(std::FILE* out, const std::vector<Job>& jobs, StopSignal* stop = nullptr);

  void note(const Job& job, const JobStatus& status);
  void draw(const std::vector<JobStatus>& statuses, bool is_last);

 private:
  Output out_;
  const std::vector<Job>& jobs_;
  std::size_t drawn_lines_ = 0;
  std::chrono::steady_clock::time_point last_drawn_{};
};

/// Runs the jobs in their order, `at_once` of them at a time, and shares this program's threads out
/// among them (`train.threads` of a configuration wins). A job that fails does not stop the others.
/// A stop signal makes all save and end; jobs that have not started stay waiting. SIGTSTP (Ctrl-Z)
/// stops them with this process until it is continued.
std::vector<JobStatus> run_jobs(const std::vector<Job>& jobs, int at_once, StopSignal& stop,
                                JobDisplay& display);

}  // namespace mobius
