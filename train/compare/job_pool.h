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
/// The command that trains a job with a config.yaml, or goes on with it, for a shell in the present
/// folder.
std::vector<std::string> command_of(const Job& job);
/// What its process says goes here.
std::filesystem::path log_of(const Job& job);

/// `busy`: waiting for a process that an earlier comparison left in its folder, where it still
/// saves.
enum class JobState { waiting, busy, running, finished, diverged, interrupted, failed };

struct JobStatus {
  JobState state = JobState::waiting;
  std::chrono::steady_clock::time_point started{};
  std::optional<ProcessEnd> end{};  ///< of its process; nothing where none was started
  std::string problem{};            ///< the last error of that process; of a failed or diverged one
};

/// Shows how jobs get on: on a terminal a line a job, redrawn in place; elsewhere a line whenever
/// one starts or ends. Writes as Output does, with what that asks of `stop`.
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

/// Runs the jobs in their order, `at_once` of them at a time, with this program's threads shared
/// out among them (`train.threads` of a configuration wins). One that fails does not stop the
/// others. A stop signal makes all save and end; those that had not started stay waiting. SIGTSTP
/// (Ctrl-Z) stops them with this process, until it is continued.
std::vector<JobStatus> run_jobs(const std::vector<Job>& jobs, int at_once, StopSignal& stop,
                                JobDisplay& display);

}  // namespace mobius
