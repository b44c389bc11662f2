#include "train/compare/job_pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <sstream>
#include <thread>

#include "core/parallel.h"
#include "data/input_file.h"
#include "train/io/printable.h"
#include "train/recording/metrics.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto poll_interval = std::chrono::milliseconds(50);
constexpr auto redraw_interval = std::chrono::milliseconds(500);

fs::path config_of(const Job& job) { return RunFolder(job.folder).config(); }

// Returns the last error that a process wrote into the log, which had `begin` bytes of earlier
// processes when it started.
std::string last_error_in(const fs::path& log, std::uintmax_t begin) {
  constexpr std::string_view mark = "mobius: error: ";
  const std::string whole = fs::exists(log) ? content_of(log) : "";
  std::istringstream text(whole.substr(std::min<std::size_t>(begin, whole.size())));
  std::string error;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(mark)) error = line.substr(mark.size());
  }
  return error;
}

// A process that a signal ended before it listened to signals had nothing to save.
JobState state_after(const ProcessEnd& end) {
  const bool is_asked_to_stop =
      end.signal == SIGTERM || end.signal == SIGINT || end.signal == SIGHUP;
  if (is_asked_to_stop) return JobState::interrupted;
  if (end.signal != 0) return JobState::failed;
  switch (static_cast<ExitCode>(end.exit_code)) {
    case ExitCode::done:
      return JobState::finished;
    case ExitCode::diverged:
      return JobState::diverged;
    case ExitCode::interrupted:
      return JobState::interrupted;
    default:
      return JobState::failed;
  }
}

// The words stand in the order of the states.
const char* word_for(JobState state) {
  constexpr const char* busy = "waiting for a process of an earlier comparison, which saves";
  constexpr std::array words = {"waiting",  busy,    "running", "finished",
                                "diverged", "saved", "failed"};
  return words[static_cast<std::size_t>(state)];
}

// Says how far a run of this comparison is, by its last line of metrics.
std::string position_of(const Job& job, JobState state) {
  if (state == JobState::waiting || state == JobState::busy) return "";
  constexpr std::uintmax_t tail = 16384;  // several lines, even with diagnostics
  std::string text;
  try {
    const std::vector<MetricsPoint> points = read_metrics(RunFolder(job.folder).metrics(), tail);
    if (points.empty()) return "";
    const MetricsPoint& last = points.back();
    text = fmt::format("{}/{}", last.step, job.max_steps);
    if (last.loss) text += fmt::format("  loss {:.4f}", *last.loss);
    if (last.accuracy) text += fmt::format("  accuracy {:.1f}%", 100 * *last.accuracy);
  } catch (const Error&) {  // a display must not end runs
  }
  return text;
}

std::string line_for(const Job& job, const JobStatus& status, std::size_t name_width) {
  std::string line = fmt::format("{:<{}}  {:<9}", job.name, name_width, word_for(status.state));
  line += position_of(job, status.state);
  if (status.state == JobState::running) {
    const double seconds = std::chrono::duration<double>(Clock::now() - status.started).count();
    line += "  " + format_duration(seconds);
  }
  return line;
}

// Chooses the lines that fit on the screen: first of jobs that run, then of the others.
std::vector<std::size_t> shown(const std::vector<JobStatus>& statuses, std::size_t rows) {
  std::vector<std::size_t> order;
  for (const bool is_running : {true, false}) {
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if ((statuses[i].state == JobState::running) == is_running) order.push_back(i);
    }
  }
  order.resize(std::min(order.size(), rows));
  std::sort(order.begin(), order.end());
  return order;
}

class JobPool {
 public:
  JobPool(const std::vector<Job>& jobs, int at_once, StopSignal& stop, JobDisplay& display)
      : jobs_(jobs), stop_(stop), display_(display), statuses_(jobs.size()) {
    at_once_ = std::min(jobs.size(), static_cast<std::size_t>(at_once));
    threads_ = std::max(1, num_threads() / std::max(1, static_cast<int>(at_once_)));
    for (std::size_t i = 0; i < jobs.size(); ++i) waiting_.push_back(i);
  }

  std::vector<JobStatus> run() {
    while (true) {
      collect();
      if (stop_.is_requested()) stop();
      if (stop_.is_pause_requested()) pause();
      start_waiting();
      if (running_.empty() && waiting_.empty()) break;
      display_.draw(statuses_, false);
      std::this_thread::sleep_for(poll_interval);
    }
    display_.draw(statuses_, true);
    return std::move(statuses_);
  }

 private:
  struct Running {
    std::size_t job;
    std::uintmax_t log_begin;
    ChildProcess process;
  };

  // Starts jobs in their order; busy ones stay.
  void start_waiting() {
    std::erase_if(waiting_,
                  [this](std::size_t job) { return running_.size() < at_once_ && try_start(job); });
  }

  // Returns false if it must be tried again.
  bool try_start(std::size_t job) {
    try {
      const fs::path path = log_of(jobs_[job]);
      const std::optional<Descriptor> log = take_log(path);
      if (!log) {
        if (statuses_[job].state != JobState::busy) note(job, {.state = JobState::busy});
        return false;
      }
      write_config(jobs_[job]);
      const std::uintmax_t log_begin = fs::is_regular_file(path) ? fs::file_size(path) : 0;
      ChildProcess process(command_of(jobs_[job]), {{"OMP_NUM_THREADS", std::to_string(threads_)}},
                           *log);
      running_.push_back({job, log_begin, std::move(process)});
      note(job, {.state = JobState::running, .started = Clock::now()});
    } catch (const Error& error) {
      note(job, {.state = JobState::failed, .problem = error.what()});
    }
    return true;
  }

  void note(std::size_t job, JobStatus status) {
    statuses_[job] = std::move(status);
    display_.note(jobs_[job], statuses_[job]);
  }

  void collect() {
    std::vector<Running> still;
    for (Running& running : running_) {
      const std::optional<ProcessEnd> end = running.process.poll();
      if (!end) {
        still.push_back(std::move(running));
        continue;
      }
      JobStatus status = statuses_[running.job];
      status.state = state_after(*end);
      status.end = *end;
      if (status.state == JobState::failed || status.state == JobState::diverged) {
        status.problem = last_error_in(log_of(jobs_[running.job]), running.log_begin);
      }
      note(running.job, std::move(status));
    }
    running_.swap(still);
  }

  void stop() {
    waiting_.clear();
    for (Running& running : running_) running.process.terminate();
  }

  // Ctrl-Z in a terminal reaches only this process, since each run has its own process group.
  void pause() {
    for (const Running& running : running_) running.process.pause();
    stop_.pause();
    for (const Running& running : running_) running.process.go_on();
  }

  const std::vector<Job>& jobs_;
  StopSignal& stop_;
  JobDisplay& display_;
  std::size_t at_once_;
  int threads_;
  std::vector<JobStatus> statuses_;
  std::vector<Running> running_;
  std::vector<std::size_t> waiting_;
};

}  // namespace

void write_config(const Job& job) { write_whole_file(config_of(job), job.config); }

std::vector<std::string> command_of(const Job& job) {
  const std::string config = config_of(job).string();
  const bool is_like_an_option = config.starts_with('-');
  return {own_program().string(), "train", is_like_an_option ? "./" + config : config, "--resume",
          "auto"};
}

fs::path log_of(const Job& job) { return RunFolder(job.folder).log(); }

JobDisplay::JobDisplay(std::FILE* out, const std::vector<Job>& jobs, StopSignal* stop)
    : out_(out, stop), jobs_(jobs) {}

void JobDisplay::note(const Job& job, const JobStatus& status) {
  if (out_.is_terminal()) return;
  std::string line = fmt::format("{}: {}", job.name, word_for(status.state));
  const std::string position =
      status.state == JobState::running ? "" : position_of(job, status.state);
  if (!position.empty()) line += ", " + position;
  if (!status.problem.empty()) line += ": " + status.problem;
  out_.write(printable_line(line) + "\n");
}

void JobDisplay::draw(const std::vector<JobStatus>& statuses, bool is_last) {
  const auto now = Clock::now();
  if (!out_.is_terminal() || (!is_last && now - last_drawn_ < redraw_interval)) return;
  last_drawn_ = now;
  const TerminalSize size = out_.size();
  std::size_t name_width = 0;
  for (const Job& job : jobs_) name_width = std::max(name_width, job.name.size());
  const auto rows = is_last ? jobs_.size() : static_cast<std::size_t>(std::max(1, size.rows - 2));
  const auto columns = static_cast<std::size_t>(size.columns);
  std::string text = drawn_lines_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn_lines_) : "";
  const std::vector<std::size_t> order = shown(statuses, rows);
  for (const std::size_t i : order) {
    std::string line = printable_line(line_for(jobs_[i], statuses[i], name_width));
    if (line.size() >= columns) line.resize(columns - 1);
    text += line + "\n";
  }
  drawn_lines_ = order.size();
  out_.write(text);
}

std::vector<JobStatus> run_jobs(const std::vector<Job>& jobs, int at_once, StopSignal& stop,
                                JobDisplay& display) {
  stop.listen_to_pauses();
  return JobPool(jobs, at_once, stop, display).run();
}

}  // namespace mobius
