// Shows how a run proceeds: by a bar on a terminal, by plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "train/io/output.h"

namespace mobius {

struct ProgressState {
  std::int64_t step = 0;
  std::int64_t max_steps = 0;
  double loss = 0;
  double accuracy = 0;
  std::optional<double> perplexity = {};  ///< shown in place of the accuracy
  double tokens_per_s = 0;
  double seconds_left = 0;
};

/// Work in parts: part `done` of `total`, counted from 0, has begun.
struct PartsState {
  std::string what = {};  ///< what the part does
  std::int64_t done = 0;
  std::int64_t total = 0;
  double seconds_left = 0;
};

/// Draws "[=====>    ]  50/100  loss 1.234  accuracy 56.7%  12.3k tokens/s  1:02 left", cut off at
/// `width` columns.
std::string progress_bar(const ProgressState& state, int width);
/// Draws "[=====>    ]  5/10  d = 64  1:02 left" likewise.
std::string progress_bar(const PartsState& state, int width);
/// "0:07", "12:34", "1:02:03".
std::string format_duration(double seconds);
/// "987", "12.3k", "4.56M".
std::string format_count(double count);
/// "987 bytes", "12.3 KiB", "4.56 GiB".
std::string format_bytes(double bytes);

class Progress {
 public:
  /// Writes to `out` and treats `stop` as Output does. Draws a bar if `out` is a terminal and may
  /// have one.
  explicit Progress(std::FILE* out, bool may_have_bar = true, StopSignal* stop = nullptr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Prints a line above the bar, as printable_line() makes it.
  void say(const std::string& line);
  /// Redraws the bar, a few times a second at most. Without a bar, prints a line if `is_logged`.
  void show(const ProgressState& state, bool is_logged);
  void show(const PartsState& state, bool is_logged);
  const Output& output() const { return out_; }

 private:
  void clear_bar();
  void draw(std::string bar);

  Output out_;
  bool is_terminal_;
  std::string bar_;
  std::chrono::steady_clock::time_point last_drawn_{};
};

}  // namespace mobius
