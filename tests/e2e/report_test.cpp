// report.html as a browser shows it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/e2e/browser.h"
#include "tests/e2e/process.h"

namespace mobius::report_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override { write_text(folder_ / "tiny.yaml", kTinyRun); }

  // Returns the page after its scripts have run, without the scripts.
  std::string shown(const std::string& comparison, const std::vector<std::string>& more = {}) {
    write_text(folder_ / "comparison.yaml", comparison);
    std::vector<std::string> arguments = {"compare", folder_ / "comparison.yaml", "--out",
                                          folder_ / "out"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome trained = mobius(arguments);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    const ShownPage page = shown_in_browser(folder_ / "out" / "report.html");
    console_ = page.console;
    return page.text;
  }

  static std::string drawn(const std::string& id) {
    return "<figure id=\"" + id + "\" data-drawn=\"true\"";
  }

  TemporaryFolder folder_;
  std::string console_;
};

TEST_F(ReportTest, EveryFigureIsDrawnInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium to open the report in";
  const std::string page = shown(R"(
base: tiny.yaml
checkpoint: {metric: accuracy}
eval: {every: 2, diagnostics: true, attention_maps: true, map_heads: [2]}
variations:
  - name: softmax
  - name: conformal
    attention: {kind: conformal, alpha: 2.0}
grid:
  model.d_model: [16, 24]
  task.n_pairs: [2, 3]
  optimizer.lr: [1e-3, 1e-2]
)",
                                 {"--jobs", "2"});
  ASSERT_THAT(page, AllOf(HasSubstr("data-ready=\"true\""), HasSubstr("data-errors=\"0\"")))
      << console_;
  EXPECT_THAT(console_, Not(HasSubstr("CONSOLE")));
  for (const char* id : {"curves-accuracy", "curves-loss", "curves-train", "pairs", "width",
                         "cost-time", "cost-parameters", "learning-rates", "attention-entropy",
                         "attention-alpha", "maps-0", "maps-7"}) {
    EXPECT_THAT(page, HasSubstr(drawn(id)));
  }
  EXPECT_THAT(page, AllOf(HasSubstr("conformal-d_model=24-n_pairs=3"),
                          HasSubstr("16 of 16 runs are complete"), HasSubstr("alpha: 2.0")));
  EXPECT_THAT(page, AllOf(HasSubstr("layer 1, head 2"), Not(HasSubstr("layer 1, head 1"))));
}

TEST_F(ReportTest, SaysWhyAFigureIsLeftOut) {
  if (browser().empty()) GTEST_SKIP() << "no chromium to open the report in";
  const std::string page = shown("base: tiny.yaml\nvariations: [{name: \"one\"}]\n");
  ASSERT_THAT(page, AllOf(HasSubstr("data-ready=\"true\""), HasSubstr("data-errors=\"0\"")))
      << console_;
  for (const char* id :
       {"pairs", "width", "cost-time", "cost-parameters", "learning-rates", "maps"}) {
    EXPECT_THAT(page, AllOf(HasSubstr("data-left-out=\"" + std::string(id) + "\""),
                            Not(HasSubstr("<figure id=\"" + std::string(id)))));
  }
  EXPECT_THAT(page, HasSubstr("all runs have the same model.d_model"));
}

TEST_F(ReportTest, NeedsNothingElse) {
  write_text(folder_ / "comparison.yaml", "base: tiny.yaml\nvariations: [{name: one}]\n");
  ASSERT_EQ(mobius({"compare", folder_ / "comparison.yaml", "--out", folder_ / "out"}).exit_code,
            0);
  const std::string page = read_text(folder_ / "out" / "report.html");
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script src")), Not(HasSubstr("<link")),
                          Not(HasSubstr("@import")), Not(HasSubstr("{{data}}"))));
}

// ---- names that contain scripts

constexpr const char* kDataBegin = "<script id=\"data\" type=\"application/json\">";
constexpr const char* kDataEnd = "</script>";

// The parts of a report.
struct Page {
  std::string around;  // the page without the data
  std::string data;
};

Page page_in(const fs::path& folder) {
  const std::string text = read_text(folder / "report.html");
  const std::size_t begin = text.find(kDataBegin) + std::string(kDataBegin).size();
  const std::size_t end = text.find(kDataEnd, begin);
  return {text.substr(0, begin) + text.substr(end), text.substr(begin, end - begin)};
}

class HostileNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tiny.yaml", kTinyRun);
    ASSERT_EQ(mobius({"train", folder_ / "tiny.yaml", "--out", folder_ / "run",
                      "eval.attention_maps=true"})
                  .exit_code,
              0);
  }
  fs::path copy_of_run(const fs::path& to) const {
    fs::create_directories(to.parent_path());
    fs::copy(folder_ / "run", to, fs::copy_options::recursive);
    return to;
  }
  Page report_of(const std::vector<std::string>& runs, const std::string& out) const {
    std::vector<std::string> arguments = {"compare", "--out", folder_ / out, "--report"};
    arguments.insert(arguments.end(), runs.begin(), runs.end());
    const Outcome outcome = mobius(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return page_in(folder_ / out);
  }

  TemporaryFolder folder_;
};

// The page differs only in its data, and the data cannot close their element.
TEST_F(HostileNamesTest, AreDataOfThePage) {
  const std::string script = "script><script>alert(1)<!--<script>";
  const std::string quotes = "'\"&amp;`${alert(2)}{{parts.js}}\\\u2028\u2029]]>-->";
  const std::vector<fs::path> runs = {
      copy_of_run(folder_ / "<" / script),  // displayed as "</script>..."
      copy_of_run(folder_ / "other" / script), copy_of_run(folder_ / quotes)};
  const std::string comment = "# </script><script>alert(3)</script>\n";
  write_text(runs[0] / "config.yaml", read_text(runs[0] / "config.yaml") + comment);
  const std::string group = "</SCRIPT><img src=x onerror=alert(4)>";
  auto summary = nlohmann::json::parse(read_text(runs[0] / "summary.json"));
  summary["groups"] = {{group, summary["test"]}, {"tame", summary["test"]}};
  write_text(runs[0] / "summary.json", summary.dump());

  const Page page = report_of({runs[0], runs[1], runs[2]}, "hostile");
  EXPECT_TRUE(page.around == report_of({folder_ / "run"}, "tame").around);
  EXPECT_EQ(page.data.find('<'), std::string::npos);
  const auto data = nlohmann::json::parse(page.data);
  std::vector<std::string> names;
  for (const auto& run : data.at("runs")) names.push_back(run.at("name"));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("</" + script, "other/" + script, quotes));
  const auto& hostile =
      *std::find_if(data.at("runs").begin(), data.at("runs").end(),
                    [&](const nlohmann::json& run) { return run.at("name") == "</" + script; });
  EXPECT_TRUE(hostile.at("groups").contains(group));
  EXPECT_THAT(hostile.at("config").get<std::string>(), HasSubstr(comment));
}

// The page sets names as text, never as elements or code.
TEST_F(HostileNamesTest, AreTextInThePage) {
  const fs::path sources = fs::path(MOBIUS_SOURCE_DIR) / "train";
  for (const char* file : {"page/frame.html", "page/parts.js", "compare/report_page/report.html",
                           "compare/report_page/report.js", "results/results_page/results.html",
                           "results/results_page/results.js"}) {
    const std::string text = read_text(sources / file);
    ASSERT_FALSE(text.empty());
    for (const char* way :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser",
          "createContextualFragment", "srcdoc", "eval(", "Function(", "javascript:", "\"on"}) {
      EXPECT_THAT(text, Not(HasSubstr(way))) << file;
    }
  }
}

}  // namespace
}  // namespace mobius::report_test
