#include "train/compare/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/error.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/run/run_folder.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
  // Returns the cell of a value among `n`; the last is for the highest value.
  int cell(double value, int n) const {
    if (high <= low) return 0;
    const double share = (value / 2 - low / 2) / (high / 2 - low / 2);  // halves do not overflow
    return static_cast<int>(std::lround(share * (n - 1)));
  }
};

char letter_of(std::size_t curve) { return static_cast<char>('a' + curve % 26); }

// Draws the straight line between two cells.
void connect(std::vector<std::string>& cells, int x0, int y0, int x1, int y1, char mark) {
  const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
  for (int i = 0; i <= steps; ++i) {
    const double share = static_cast<double>(i) / steps;
    const auto x = static_cast<std::size_t>(std::lround(x0 + share * (x1 - x0)));
    const auto y = static_cast<std::size_t>(std::lround(y0 + share * (y1 - y0)));
    cells[y][x] = mark;
  }
}

void draw(std::vector<std::string>& cells, const Curve& curve, char mark, const Range& steps,
          const Range& values) {
  const int width = static_cast<int>(cells.front().size()), height = static_cast<int>(cells.size());
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto& [from_step, from_value] = curve.points[i == 0 ? 0 : i - 1];
    const auto& [step, value] = curve.points[i];
    connect(cells, steps.cell(from_step, width), height - 1 - values.cell(from_value, height),
            steps.cell(step, width), height - 1 - values.cell(value, height), mark);
  }
}

std::string framed(const std::vector<std::string>& cells, const Range& steps, const Range& values) {
  constexpr int label_width = 10;
  std::string text;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    const bool is_top = row == 0, is_bottom = row + 1 == cells.size();
    const std::string label = is_top      ? fmt::format("{:.4g}", values.high)
                              : is_bottom ? fmt::format("{:.4g}", values.low)
                                          : "";
    text += fmt::format("{:>{}} |{}\n", label, label_width, cells[row]);
  }
  const std::string first = fmt::format("{:.0f}", steps.low);
  const int rest = static_cast<int>(cells.front().size()) - static_cast<int>(first.size());
  text += fmt::format("{:>{}}  {}{:>{}.0f}\n", "step", label_width, first, steps.high,
                      std::max(rest, 1));
  return text;
}

std::vector<Curve> curves_of(const std::vector<fs::path>& runs,
                             const std::vector<std::vector<MetricsPoint>>& metrics,
                             const std::string& split, std::optional<double> MetricsPoint::*value) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Curve& curve =
        curves.emplace_back(fs::absolute(runs[i]).lexically_normal().filename().string());
    for (const MetricsPoint& point : metrics[i]) {
      if (point.split != split || !(point.*value)) continue;
      curve.points.emplace_back(static_cast<double>(point.step), *(point.*value));
    }
  }
  return curves;
}

// Writes one line per run: its letter, its name, the last value of each of its curves, and whether
// it diverged.
std::string legend(const std::vector<fs::path>& runs,
                   const std::vector<std::pair<std::string, std::vector<Curve>>>& kinds) {
  std::string text;
  for (std::size_t i = 0; i < kinds.front().second.size(); ++i) {
    text += fmt::format("  {} {}", letter_of(i), printable_line(kinds.front().second[i].name));
    for (const auto& [kind, curves] : kinds) {
      if (curves[i].points.empty()) continue;
      text += fmt::format("  {} {:.4g}", kind, curves[i].points.back().second);
    }
    const std::optional<RunSummary> summary = read_summary(RunFolder(runs[i]).summary());
    if (summary && summary->status == RunStatus::diverged) text += "  diverged";
    text += "\n";
  }
  return text;
}

}  // namespace

std::string plot(const std::string& title, const std::vector<Curve>& curves, int width,
                 int height) {
  Range steps, values;
  for (const Curve& curve : curves) {
    for (const auto& [step, value] : curve.points) {
      steps.include(step);
      values.include(value);
    }
  }
  if (steps.is_empty()) return title + ": nothing yet\n";
  constexpr int beside = 13, least_width = 6, least_height = 6;
  const auto columns = static_cast<std::size_t>(std::max(width - beside, least_width));
  const auto rows = static_cast<std::size_t>(std::max(height, least_height));
  std::vector<std::string> cells(rows, std::string(columns, ' '));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    draw(cells, curves[i], letter_of(i), steps, values);
  }
  return title + "\n" + framed(cells, steps, values);
}

std::vector<fs::path> watched_runs(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw ConfigError("{}: is not a folder", folder.string());
  if (holds_run(folder)) return {folder};
  std::vector<fs::path> runs = entries_of(folder);
  std::erase_if(runs, [](const fs::path& entry) { return !holds_run(entry); });
  return runs;
}

std::string watch_screen(const std::vector<fs::path>& runs, int width, int height) {
  std::vector<std::vector<MetricsPoint>> metrics;
  for (const fs::path& run : runs) metrics.push_back(read_metrics(RunFolder(run).metrics()));
  const int room = height - static_cast<int>(runs.size()) - 1;
  const std::vector<Curve> loss = curves_of(runs, metrics, "test", &MetricsPoint::loss);
  const std::vector<Curve> accuracy = curves_of(runs, metrics, "test", &MetricsPoint::accuracy);
  if (std::ranges::any_of(loss, [](const Curve& curve) { return !curve.points.empty(); })) {
    constexpr int around = 2;  // a title and the steps
    return plot("test loss", loss, width, room / 2 - around) +
           plot("test accuracy", accuracy, width, room / 2 - around) +
           legend(runs, {{"loss", loss}, {"accuracy", accuracy}});
  }
  const std::vector<Curve> train = curves_of(runs, metrics, "train", &MetricsPoint::loss);
  return plot("loss in training", train, width, room - 2) + legend(runs, {{"loss", train}});
}

bool has_ended(const std::vector<fs::path>& runs) {
  return !runs.empty() && std::all_of(runs.begin(), runs.end(), [](const fs::path& run) {
    std::error_code no_summary, no_metrics;
    const auto ended = fs::last_write_time(RunFolder(run).summary(), no_summary);
    const auto written = fs::last_write_time(RunFolder(run).metrics(), no_metrics);
    return !no_summary && (no_metrics || ended >= written);
  });
}

}  // namespace mobius
