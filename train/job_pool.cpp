#include "train/job_pool.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "core/parallel.h"
#include "train/commands/commands.h"
#include "train/file.h"
#include "train/metrics_reader.h"
#include "train/printable.h"
#include "train/progress.h"

namespace mobius {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto poll_interval = std::chrono::milliseconds(50);
constexpr auto redraw_interval = std::chrono::milliseconds(500);

// The last line that a failed program's log has about it.
std::string last_error_in(const fs::path& log) {
  std::istringstream text(fs::exists(log) ? read_whole_file(log) : "");
  std::string last, error;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty()) last = line;
    if (line.starts_with("mobius: error: ")) error = line.substr(15);
  }
  return error.empty() ? last : error;
}

JobState state_after(const ProcessEnd& end) {
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

const char* word_for(JobState state) {
  switch (state) {
    case JobState::waiting:
      return "waiting";
    case JobState::running:
      return "running";
    case JobState::finished:
      return "finished";
    case JobState::diverged:
      return "diverged";
    case JobState::interrupted:
      return "saved";
    case JobState::failed:
      break;
  }
  return "failed";
}

// How far a run is, by its last line of metrics.
std::string position_of(const Job& job) {
  constexpr std::uintmax_t tail = 16384;  // several lines, also with diagnostics
  std::optional<MetricsPoint> last_point;
  try {
    const std::vector<MetricsPoint> points = read_metrics(job.folder / "metrics.jsonl", tail);
    if (!points.empty()) last_point = points.back();
  } catch (const Error&) {  // a display is nothing to end runs for
  }
  if (!last_point) return "";
  const MetricsPoint& last = *last_point;
  std::string text = fmt::format("{}/{}", last.step, job.max_steps);
  if (last.loss) text += fmt::format("  loss {:.4f}", *last.loss);
  if (last.accuracy) text += fmt::format("  accuracy {:.1f}%", 100 * *last.accuracy);
  return text;
}

std::string line_for(const Job& job, const JobStatus& status, std::size_t name_width) {
  std::string line = fmt::format("{:<{}}  {:<9}", job.name, name_width, word_for(status.state));
  if (status.state != JobState::waiting) line += position_of(job);
  if (status.state == JobState::running) {
    const double seconds = std::chrono::duration<double>(Clock::now() - status.started).count();
    line += "  " + format_duration(seconds);
  }
  return line;
}

// Those lines that fit on the screen: of jobs that run, then the others.
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

winsize size_of_terminal(std::FILE* out) {
  winsize size{};
  const bool is_known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0;
  if (!is_known || size.ws_col == 0) size.ws_col = 80;
  if (!is_known || size.ws_row == 0) size.ws_row = 24;
  return size;
}

class JobPool {
 public:
  JobPool(const std::vector<Job>& jobs, int at_once, const StopSignal& stop, JobDisplay& display)
      : jobs_(jobs), stop_(stop), display_(display), statuses_(jobs.size()) {
    at_once_ = std::min(jobs.size(), static_cast<std::size_t>(at_once));
    threads_ = std::max(1, num_threads() / std::max(1, static_cast<int>(at_once_)));
  }

  std::vector<JobStatus> run() {
    while (true) {
      collect();
      if (stop_.is_requested()) terminate_once();
      while (!is_stopped_ && running_.size() < at_once_ && next_ < jobs_.size()) start(next_++);
      if (running_.empty()) break;
      display_.draw(statuses_, false);
      std::this_thread::sleep_for(poll_interval);
    }
    display_.draw(statuses_, true);
    return std::move(statuses_);
  }

 private:
  struct Running {
    std::size_t job;
    ChildProcess process;
  };

  void start(std::size_t job) {
    std::vector<std::string> command = command_of(jobs_[job]);
    ChildProcess process(command, {{"OMP_NUM_THREADS", std::to_string(threads_)}},
                         log_of(jobs_[job]));
    running_.push_back({job, std::move(process)});
    statuses_[job] = {.state = JobState::running, .started = Clock::now()};
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
      JobStatus& status = statuses_[running.job];
      status.state = state_after(*end);
      status.end = *end;
      if (status.state == JobState::failed || status.state == JobState::diverged) {
        status.problem = last_error_in(log_of(jobs_[running.job]));
      }
      display_.note(jobs_[running.job], status);
    }
    running_.swap(still);
  }

  void terminate_once() {
    if (std::exchange(is_stopped_, true)) return;
    for (const Running& running : running_) running.process.terminate();
  }

  const std::vector<Job>& jobs_;
  const StopSignal& stop_;
  JobDisplay& display_;
  std::size_t at_once_;
  int threads_;
  std::vector<JobStatus> statuses_;
  std::vector<Running> running_;
  std::size_t next_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

std::vector<std::string> command_of(const Job& job) {
  return {own_program().string(), "train", (job.folder / "config.yaml").string(), "--resume",
          "auto"};
}

fs::path log_of(const Job& job) { return job.folder / "log.txt"; }

JobDisplay::JobDisplay(std::FILE* out, const std::vector<Job>& jobs)
    : out_(out), jobs_(jobs), is_terminal_(::isatty(::fileno(out)) != 0) {}

void JobDisplay::note(const Job& job, const JobStatus& status) {
  if (is_terminal_) return;
  std::string line = fmt::format("{}: {}", job.name, word_for(status.state));
  const std::string position = status.state == JobState::running ? "" : position_of(job);
  if (!position.empty()) line += ", " + position;
  if (!status.problem.empty()) line += ": " + status.problem;
  fmt::print(out_, "{}\n", printable(line));
  std::fflush(out_);
}

void JobDisplay::draw(const std::vector<JobStatus>& statuses, bool is_last) {
  const auto now = Clock::now();
  if (!is_terminal_ || (!is_last && now - last_drawn_ < redraw_interval)) return;
  last_drawn_ = now;
  const winsize size = size_of_terminal(out_);
  std::size_t name_width = 0;
  for (const Job& job : jobs_) name_width = std::max(name_width, job.name.size());
  const std::size_t rows = is_last ? jobs_.size() : std::max<std::size_t>(1, size.ws_row - 2U);
  std::string text = drawn_lines_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", drawn_lines_) : "";
  const std::vector<std::size_t> order = shown(statuses, rows);
  for (const std::size_t i : order) {
    std::string line = printable(line_for(jobs_[i], statuses[i], name_width));
    if (line.size() >= size.ws_col) line.resize(size.ws_col - 1U);
    text += line + "\n";
  }
  drawn_lines_ = order.size();
  fmt::print(out_, "{}", text);
  std::fflush(out_);
}

std::vector<JobStatus> run_jobs(const std::vector<Job>& jobs, int at_once, const StopSignal& stop,
                                JobDisplay& display) {
  return JobPool(jobs, at_once, stop, display).run();
}

}  // namespace mobius
