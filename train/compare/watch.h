// Draws learning curves in a terminal.
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

/// Draws the curves in a frame of about `width` x `height` characters, each with its own letter: a,
/// b,
/// ... in their order. Later curves cover earlier ones. Without points it says so.
std::string plot(const std::string& title, const std::vector<Curve>& curves, int width, int height);

/// Returns `folder` if it is a run, else the runs in it by name; a comparison that has just begun
/// may have none. Throws ConfigError if `folder` is no folder.
std::vector<std::filesystem::path> watched_runs(const std::filesystem::path& folder);

/// Draws what `mobius watch` shows in so many columns and lines: test loss and test accuracy, or
/// the loss in training before the first test, and the runs by letter with their last values.
std::string watch_screen(const std::vector<std::filesystem::path>& runs, int width, int height);

/// Whether all runs have ended: each has a summary.json that is newer than its metrics.
bool has_ended(const std::vector<std::filesystem::path>& runs);

}  // namespace mobius
