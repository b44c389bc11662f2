#include "train/results/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stack>

#include "train/results/numbers.h"

namespace mobius::svg_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns what is wrong with the elements of a document: "" if every one is closed in its order and
// no text has a bare < or &.
std::string fault_in(const std::string& xml) {
  std::stack<std::string> open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&') {
      const std::size_t end = xml.find(';', i);
      if (end == std::string::npos || end > i + 5) return "bare & at " + xml.substr(i, 20);
    }
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos) return "unclosed tag";
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag.find('<') != std::string::npos) return "bare < in " + tag;
    i = end;
    if (tag.starts_with("!--") || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.top() != tag.substr(1)) {
      return "unexpected </" + tag.substr(1);
    } else {
      open.pop();
    }
  }
  return open.empty() ? "" : "unclosed " + open.top();
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t i = 0; (i = text.find(part, i)) != std::string::npos; ++i) ++n;
  return n;
}

Figure figure_of(std::vector<Series> series) {
  return {.name = "f", .title = "T", .x_label = "X", .y_label = "Y", .series = std::move(series)};
}

TEST(Svg, ShowsEverySeriesAndLabel) {
  Figure figure = figure_of({{"first", {0, 1, 2}, {1, 2, 4}}, {"second", {0, 1, 2}, {4, 2, 1}}});
  for (const Mark mark : {Mark::lines, Mark::points}) {
    figure.mark = mark;
    const std::string svg = to_svg(figure);
    EXPECT_EQ(fault_in(svg), "");
    EXPECT_THAT(svg, AllOf(HasSubstr(">T</text>"), HasSubstr(">X</text>"), HasSubstr(">Y</text>"),
                           HasSubstr(">first</text>"), HasSubstr(">second</text>"),
                           HasSubstr("<title>first</title>"), HasSubstr("<title>second</title>")));
    EXPECT_THAT(svg, AllOf(HasSubstr("#0072b2"), HasSubstr("#e69f00")));
  }
}

TEST(Svg, PutsPointsWhereTheyBelong) {
  const std::string svg = to_svg(figure_of({{"a", {0, 1, 2}, {0, 1, 2}}}));
  const std::size_t path = svg.find("<path d=\"M");
  ASSERT_NE(path, std::string::npos);
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  ASSERT_EQ(std::sscanf(svg.c_str() + path, "<path d=\"M%lf,%lfL%lf,%lfL%lf,%lf", &x0, &y0, &x1,
                        &y1, &x2, &y2),
            6);
  EXPECT_NEAR(x1 - x0, x2 - x1, 0.11);
  EXPECT_NEAR(y1 - y0, y2 - y1, 0.11);
  EXPECT_GT(x2, x0);
  EXPECT_LT(y2, y0);  // upwards
}

TEST(Svg, ALogarithmicAxisHasEqualDecades) {
  Figure figure = figure_of({{"a", {1, 10, 100}, {1e-5, 1, 1e5}}});
  figure.x_axis = figure.y_axis = Axis::logarithmic;
  const std::string svg = to_svg(figure);
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("<path d=\"M"), "<path d=\"M%lf,%lfL%lf,%lfL%lf,%lf",
                        &x0, &y0, &x1, &y1, &x2, &y2),
            6);
  EXPECT_NEAR(x1 - x0, x2 - x1, 0.11);
  EXPECT_NEAR(y1 - y0, y2 - y1, 0.11);
  EXPECT_THAT(svg, AllOf(HasSubstr(">10</text>"), HasSubstr(">100</text>"), HasSubstr(">0.0001<")));
}

TEST(Svg, ALogarithmicAxisLeavesOutWhatItCannotShow) {
  Figure figure = figure_of({{"a", {0, 1, 2, 3}, {-1, 2, 0, 3}}});
  figure.y_axis = Axis::logarithmic;
  const std::string svg = to_svg(figure);
  EXPECT_EQ(fault_in(svg), "");
  EXPECT_THAT(svg, AllOf(HasSubstr("2 points at or below 0 are not shown on a logarithmic axis."),
                         Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(Svg, SaysWhereThereIsNothing) {
  Figure figure = figure_of({{"a", {0, 1}, {-1, 0}}});
  figure.y_axis = Axis::logarithmic;
  for (const Figure& empty : {figure, figure_of({}), figure_of({{"a", {NAN}, {1}}})}) {
    const std::string svg = to_svg(empty);
    EXPECT_EQ(fault_in(svg), "");
    EXPECT_THAT(svg, AllOf(HasSubstr(">no data</text>"), Not(HasSubstr("nan"))));
  }
}

TEST(Svg, LinesBreakAtGaps) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::string svg =
      to_svg(figure_of({{"a", {0, 1, 2, 3, 4, 5, 6}, {1, 2, NAN, 3, 1, -inf, 2}}}));
  const std::size_t begin = svg.find("<path d=\"M");
  const std::string path = svg.substr(begin, svg.find('>', begin) - begin);
  EXPECT_EQ(count(path, "M"), 3u) << path;
  EXPECT_EQ(count(path, "L"), 2u) << path;
}

TEST(Svg, EscapesText) {
  Figure figure = figure_of({{"<b> & \"c\"\x1b", {0, 1}, {0, 1}}});
  figure.title = "</svg><script>alert(1)</script>";
  const std::string svg = to_svg(figure);
  EXPECT_EQ(fault_in(svg), "");
  EXPECT_THAT(svg,
              AllOf(HasSubstr("&lt;b&gt; &amp; &quot;c&quot;\\x1b"), Not(HasSubstr("<script"))));
}

TEST(Svg, TakesASinglePointAndEqualValues) {
  for (const Axis axis : {Axis::linear, Axis::logarithmic}) {
    for (const double value : {1e-300, 1.0, 1e300}) {
      Figure figure = figure_of({{"a", {value, value}, {value, value}}});
      figure.x_axis = figure.y_axis = axis;
      const std::string svg = to_svg(figure);
      EXPECT_EQ(fault_in(svg), "");
      EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), HasSubstr("<circle"))) << value;
    }
  }
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(short_number(64), "64");
  EXPECT_EQ(short_number(-0.0), "0");
  EXPECT_EQ(short_number(1000000), "1000000");
  EXPECT_EQ(short_number(1048576.0 * 16), "1.678e7");
  EXPECT_EQ(short_number(0.06424980), "0.06425");
  EXPECT_EQ(short_number(1.23456e-5), "1.235e-5");
  EXPECT_EQ(short_number(-1e100), "-1e100");
  EXPECT_EQ(short_number(INFINITY), "inf");
  EXPECT_EQ(short_number(-std::nan("")), "nan");
}

}  // namespace
}  // namespace mobius::svg_test
