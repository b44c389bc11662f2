#include "train/results/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "train/io/printable.h"
#include "train/results/numbers.h"

namespace mobius {

namespace {

// The place of the plot in the file, in pixels.
constexpr double width = 760, left = 84, right = width - 24, top = 44, bottom = top + 340;
constexpr double line_height = 20;
constexpr double character_width = 6.6;  // of the legend's letters, on average

// Those of Okabe and Ito, as in train/page/parts.js.
constexpr std::array colours = {"#0072b2", "#e69f00", "#009e73", "#d55e00",
                                "#cc79a7", "#56b4e9", "#000000", "#999900"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else {
      result += c;
    }
  }
  return result;
}

// Text at a place; `anchor` is start, middle or end.
std::string text_at(double x, double y, std::string_view anchor, const std::string& text,
                    std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(text));
}

std::string line_between(double x0, double y0, double x1, double y1, std::string_view colour) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x0, y0, x1,
      y1, colour);
}

struct Tick {
  double value;
  std::string label;
};

// Values on an axis become pixels.
class Scale {
 public:
  Scale(Axis axis, double margin, double first_pixel, double last_pixel)
      : axis_(axis), margin_(margin), first_(first_pixel), last_(last_pixel) {}

  bool shows(double value) const {
    return std::isfinite(value) && (axis_ == Axis::linear || value > 0);
  }
  void include(double value) {
    low_ = std::min(low_, inner(value));
    high_ = std::max(high_, inner(value));
  }
  // Must be called when all values have been included.
  void close() {
    if (!(high_ > low_)) {
      const double around = axis_ == Axis::logarithmic ? 0.3 : std::max(0.5, std::abs(low_) / 10);
      low_ -= around;
      high_ += around;
    }
    const double more = margin_ * (high_ - low_);
    low_ -= more;
    high_ += more;
  }
  double pixel(double value) const {
    return first_ + (inner(value) - low_) / (high_ - low_) * (last_ - first_);
  }
  std::vector<Tick> ticks() const {
    if (axis_ == Axis::linear) return linear_ticks(low_, high_);
    std::vector<Tick> ticks = decades();
    if (ticks.size() < 2) ticks = parts_of_decades();
    return ticks.size() < 2 ? linear_ticks(std::pow(10, low_), std::pow(10, high_)) : ticks;
  }

 private:
  double inner(double value) const {
    return axis_ == Axis::logarithmic ? std::log10(value) : value;
  }

  static std::vector<Tick> linear_ticks(double low, double high) {
    constexpr int about = 6;
    const double raw = (high - low) / about;
    const double decade = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * decade;
    for (const double nice : {5.0, 2.0, 1.0}) {
      if (nice * decade >= raw) step = nice * decade;
    }
    std::vector<Tick> ticks;
    for (double i = std::ceil(low / step); i * step <= high && ticks.size() < 3 * about; ++i)
      ticks.push_back({i * step, short_number(std::abs(i) < 0.5 ? 0 : i * step)});
    return ticks;
  }
  std::vector<Tick> decades() const {
    constexpr double most = 8;
    const double step = std::max(1.0, std::ceil((high_ - low_) / most));
    std::vector<Tick> ticks;
    for (double k = std::ceil(low_ / step) * step; k <= high_; k += step)
      ticks.push_back({std::pow(10, k), short_number(std::pow(10, k))});
    return ticks;
  }
  std::vector<Tick> parts_of_decades() const {
    std::vector<Tick> ticks;
    for (double k = std::floor(low_); k <= high_; ++k) {
      for (const double part : {1.0, 2.0, 5.0}) {
        const double value = part * std::pow(10, k);
        const double at = std::log10(value);
        if (at >= low_ && at <= high_) ticks.push_back({value, short_number(value)});
      }
    }
    return ticks;
  }

  Axis axis_;
  double margin_, first_, last_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

// The mark of the series at a place: circles, squares, triangles, diamonds.
std::string mark_at(double x, double y, std::size_t index) {
  constexpr double r = 3.2;
  const char* colour = colours[index % colours.size()];
  switch (index % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, r,
                         colour);
    case 1:
      return fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x - r,
          y - r, 2 * r, 2 * r, colour);
    case 2:
      return fmt::format("<path d=\"M{:.1f},{:.1f}l{},{}h{}z\" fill=\"{}\"/>\n", x, y - r - 1,
                         r + 1, 2 * r + 1, -2 * (r + 1), colour);
    default:
      return fmt::format("<path d=\"M{:.1f},{:.1f}l{},{}l{},{}l{},{}z\" fill=\"{}\"/>\n", x,
                         y - r - 1, r + 1, r + 1, -r - 1, r + 1, -r - 1, -r - 1, colour);
  }
}

std::string stroke_of(std::size_t index) {
  const std::size_t round = index / colours.size();
  return fmt::format("fill=\"none\" stroke-width=\"1.8\" stroke=\"{}\"{}",
                     colours[index % colours.size()],
                     round == 0 ? "" : fmt::format(" stroke-dasharray=\"{} 3\"", 4 * round));
}

class Drawing {
 public:
  explicit Drawing(const Figure& figure)
      : figure_(figure),
        x_(figure.x_axis, figure.mark == Mark::points ? 0.03 : 0, left, right),
        y_(figure.y_axis, 0.04, bottom, top) {
    for (const Series& series : figure.series) {
      for (std::size_t i = 0; i < series.x.size(); ++i) measure(series.x[i], series.y[i]);
    }
    x_.close();
    y_.close();
  }

  std::string text() const {
    std::string body = has_points_ ? axes() : "";
    if (!has_points_) body += text_at((left + right) / 2, (top + bottom) / 2, "middle", "no data");
    body += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444\"/>\n",
        left, top, right - left, bottom - top);
    if (has_points_) {
      for (std::size_t i = 0; i < figure_.series.size(); ++i) body += curve(i);
    }
    double y = bottom + 2.9 * line_height;
    body += legend(y);
    body += note(y);
    return framed(body, y);
  }

 private:
  bool shows(double x, double y) const { return x_.shows(x) && y_.shows(y); }

  void measure(double x, double y) {
    if (shows(x, y)) {
      x_.include(x);
      y_.include(y);
      has_points_ = true;
    } else if (std::isfinite(x) && std::isfinite(y)) {
      ++hidden_;
    }
  }

  std::string axes() const {
    std::string text;
    for (const Tick& tick : x_.ticks()) {
      const double at = x_.pixel(tick.value);
      text += line_between(at, top, at, bottom, "#e0e0e0");
      text += text_at(at, bottom + 17, "middle", tick.label);
    }
    for (const Tick& tick : y_.ticks()) {
      const double at = y_.pixel(tick.value);
      text += line_between(left, at, right, at, "#e0e0e0");
      text += text_at(left - 7, at + 4, "end", tick.label);
    }
    text += text_at((left + right) / 2, bottom + 37, "middle", figure_.x_label);
    const double middle = (top + bottom) / 2;
    return text + text_at(18, middle, "middle", figure_.y_label,
                          fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", middle));
  }

  // Lines of few points have marks.
  bool has_marks() const {
    constexpr std::size_t few = 30;
    return figure_.mark == Mark::points ||
           std::ranges::all_of(figure_.series,
                               [](const Series& series) { return series.x.size() <= few; });
  }

  // Lines break at points that cannot be shown.
  std::string curve(std::size_t index) const {
    const Series& series = figure_.series[index];
    const bool is_line = figure_.mark == Mark::lines;
    std::string path, marks;
    bool is_open = false;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!shows(series.x[i], series.y[i])) {
        is_open = false;
        continue;
      }
      const double x = x_.pixel(series.x[i]), y = y_.pixel(series.y[i]);
      path += fmt::format("{}{:.1f},{:.1f}", is_open ? "L" : "M", x, y);
      is_open = true;
      if (has_marks()) marks += mark_at(x, y, index);
    }
    if (is_line && !path.empty())
      path = fmt::format("<path d=\"{}\" {}/>\n", path, stroke_of(index));
    return fmt::format("<g><title>{}</title>\n{}{}</g>\n", escaped(series.name),
                       is_line ? path : "", marks);
  }

  // Begins at `y` and moves it below.
  std::string legend(double& y) const {
    constexpr double sample = 26, gap = 18;
    std::string text;
    double x = left;
    for (std::size_t i = 0; i < figure_.series.size(); ++i) {
      const std::string& name = figure_.series[i].name;
      const double needed = sample + character_width * static_cast<double>(name.size()) + gap;
      if (x > left && x + needed > width) {
        x = left;
        y += line_height;
      }
      if (figure_.mark == Mark::lines)
        text += fmt::format("<path d=\"M{:.1f},{:.1f}h20\" {}/>\n", x, y - 4, stroke_of(i));
      if (has_marks()) text += mark_at(x + 10, y - 4, i);
      text += text_at(x + sample, y, "start", name);
      x += needed;
    }
    if (!figure_.series.empty()) y += line_height;
    return text;
  }

  std::string note(double& y) const {
    if (hidden_ == 0) return "";
    const std::string text =
        fmt::format("{} {} at or below 0 {} not shown on a logarithmic axis.", hidden_,
                    hidden_ == 1 ? "point" : "points", hidden_ == 1 ? "is" : "are");
    y += line_height;
    return text_at(left, y - line_height, "start", text, " font-style=\"italic\"");
  }

  std::string framed(const std::string& body, double height) const {
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"system-ui, sans-serif\" "
               "font-size=\"12\" fill=\"#1b1b1b\" role=\"img\" aria-label=\"{2}\">\n"
               "<!-- Made by mobius experiment. -->\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
               width, height, escaped(figure_.title)) +
           text_at(left, 26, "start", figure_.title, " font-size=\"16\"") + body + "</svg>\n";
  }

  const Figure& figure_;
  Scale x_, y_;
  bool has_points_ = false;
  int hidden_ = 0;
};

}  // namespace

std::string to_svg(const Figure& figure) { return Drawing(figure).text(); }

}  // namespace mobius
