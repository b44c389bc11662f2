#include "train/run/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "train/io/printable.h"

namespace mobius {

namespace {

constexpr auto redraw_interval = std::chrono::milliseconds(100);

std::string numbers(const ProgressState& state) {
  const std::string measure = state.perplexity
                                  ? fmt::format("perplexity {:.2f}", printable(*state.perplexity))
                                  : fmt::format("accuracy {:.1f}%", 100 * state.accuracy);
  return fmt::format("{}/{}  loss {:.4f}  {}  {} tokens/s  {} left", state.step, state.max_steps,
                     printable(state.loss), measure, format_count(state.tokens_per_s),
                     format_duration(state.seconds_left));
}

std::string numbers(const PartsState& state) {
  return fmt::format("{}/{}  {}  {} left", state.done, state.total, printable_line(state.what),
                     format_duration(state.seconds_left));
}

// A bar of which this share is done, and the text beside it.
std::string bar_line(double share, const std::string& text, int width) {
  constexpr int smallest = 10, largest = 30;
  const int length = std::clamp(width - static_cast<int>(text.size()) - 5, smallest, largest);
  const int done = std::clamp(static_cast<int>(share * length), 0, length);
  std::string bar(static_cast<std::size_t>(done), '=');
  if (done < length) bar += '>';
  bar.resize(static_cast<std::size_t>(length), ' ');
  std::string line = fmt::format("[{}] {}", bar, text);
  if (static_cast<int>(line.size()) >= width) line.resize(static_cast<std::size_t>(width - 1));
  return line;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<std::int64_t>(std::llround(std::min(seconds, 3.6e8)));
  const std::int64_t hours = total / 3600, minutes = total / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string format_count(double count) {
  if (count >= 1e9) return fmt::format("{:.3g}G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.3g}M", count / 1e6);
  if (count >= 1e3) return fmt::format("{:.3g}k", count / 1e3);
  return fmt::format("{:.0f}", count);
}

std::string format_bytes(double bytes) {
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{:.0f} bytes", bytes);
  std::size_t unit = 0;
  double count = bytes / 1024;
  for (; count >= 1000 && unit + 1 < units.size(); ++unit) count /= 1024;
  return fmt::format("{:.3g} {}", count, units[unit]);
}

std::string progress_bar(const ProgressState& state, int width) {
  const double share = static_cast<double>(state.step) / static_cast<double>(state.max_steps);
  return bar_line(share, numbers(state), width);
}

std::string progress_bar(const PartsState& state, int width) {
  const double share = static_cast<double>(state.done) / static_cast<double>(state.total);
  return bar_line(share, numbers(state), width);
}

Progress::Progress(std::FILE* out, bool may_have_bar, StopSignal* stop)
    : out_(out, stop), is_terminal_(may_have_bar && out_.is_terminal()) {}

Progress::~Progress() { clear_bar(); }

void Progress::clear_bar() {
  if (bar_.empty()) return;
  bar_.clear();
  out_.write("\r\x1b[K");
}

void Progress::say(const std::string& line) {
  const std::string bar = bar_;
  clear_bar();
  out_.write(printable_line(line) + "\n" + bar);
  bar_ = bar;
}

void Progress::show(const ProgressState& state, bool is_logged) {
  if (!is_terminal_) {
    if (is_logged) say("step " + numbers(state));
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < redraw_interval && state.step < state.max_steps) return;
  last_drawn_ = now;
  draw(progress_bar(state, out_.size().columns));
}

// Parts are few, and the text must be that of the part that runs.
void Progress::show(const PartsState& state, bool is_logged) {
  if (is_terminal_) {
    draw(progress_bar(state, out_.size().columns));
  } else if (is_logged) {
    say(numbers(state));
  }
}

void Progress::draw(std::string bar) {
  bar_ = std::move(bar);
  out_.write("\r" + bar_ + "\x1b[K");
}

}  // namespace mobius
