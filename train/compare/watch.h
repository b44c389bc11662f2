// Learning curves in a terminal.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/recording/metrics.h"

namespace mobius {

/// A curve with its name; the points are in the order of their steps.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points{};  ///< step, value
};

/// The curves in a frame of about `width` x `height` characters, each by a letter of its own: a, b,
/// ... in their order. Where two meet, the later is seen. Says so where there is no point.
std::string plot(const std::string& title, const std::vector<Curve>& curves, int width, int height);

/// The run in `folder`, or the runs in the folders in it, by name; of a comparison that has just
/// begun there may be none. Throws ConfigError where `folder` is none.
std::vector<std::filesystem::path> watched_runs(const std::filesystem::path& folder);

/// Everything that `mobius watch` shows in so many columns and lines: test loss and test accuracy,
/// or where there was no test yet the loss in training, and the runs by letter with their last
/// values.
std::string watch_screen(const std::vector<std::filesystem::path>& runs, int width, int height);

/// Whether no run is in training: each has a summary.json that is newer than its metrics.
bool has_ended(const std::vector<std::filesystem::path>& runs);

}  // namespace mobius
