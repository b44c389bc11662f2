#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.h"
#include "tests/temporary_folder.h"
#include "tests/train/counting_study.h"
#include "train/io/file.h"
#include "train/results/result_files.h"
#include "train/results/results_json.h"
#include "train/results/results_markdown.h"
#include "train/results/results_page.h"

namespace mobius::results_test {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

StudyReport report_of(const std::string& more = "") {
  const Registry<Study> studies = registry_with_counting_study();
  const StudyRun run(ConfigDocument::from_text("{experiment: counting" + more + "}", "run.yaml"),
                     studies);
  return run.run([](const std::string&, std::int64_t, std::int64_t) {});
}

TEST(ResultsJson, HasEverything) {
  const Json json = Json::parse(to_json(report_of(", seed: 3")));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys,
              ElementsAre("made_by", "version", "experiment", "question", "command", "options",
                          "seed", "processor", "findings", "claims", "tables", "figures"));
  EXPECT_EQ(json["experiment"], "counting");
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["options"].dump(),
            R"({"n_parts":3,"part_ms":0,"heights":[1.0,2.0],"is_broken":false})");
  EXPECT_EQ(json["findings"][0], "One gets to 3.");
  EXPECT_EQ(json["claims"][0].dump(),
            R"({"statement":"One gets to 3","measured":"3","holds":true})");
  EXPECT_EQ(json["tables"][0]["columns"].dump(), R"(["name","value"])");
  EXPECT_EQ(json["figures"][0]["x"].dump(), R"({"label":"number","axis":"linear"})");
  EXPECT_EQ(json["figures"][0]["series"][0]["x"].dump(), "[1.0,2.0,3.0]");
}

TEST(ResultsJson, NumbersThatAreNotFiniteAreNull) {
  const Json json = Json::parse(to_json(report_of()));
  EXPECT_TRUE(json["tables"][0]["rows"][1][1].is_null());
  EXPECT_TRUE(json["figures"][0]["series"][0]["y"][1].is_null());
  EXPECT_TRUE(json["figures"][0]["series"][0]["y"][2].is_number());
}

TEST(ResultsJson, TheSameRunGivesTheSameBytes) {
  EXPECT_EQ(to_json(report_of()), to_json(report_of()));
  EXPECT_NE(to_json(report_of()), to_json(report_of(", seed: 2")));
}

TEST(ResultsJson, KeepsTextThatIsNoUtf8Apart) {
  StudyReport report = report_of();
  report.result.findings = {"\xff"};
  EXPECT_NO_THROW(Json::parse(to_json(report)));
}

TEST(ResultsMarkdown, ShowsAllAndHoldsMarkup) {
  StudyReport other = report_of(", n_parts: 5, seed: 2");
  other.name = "other";
  const std::string page = to_markdown({report_of(), other});
  EXPECT_THAT(
      page,
      AllOf(HasSubstr("| [counting](#counting) | How far does one get? | 2 of 2 hold |\n"),
            HasSubstr("| [other](#other) | How far does one get? | 1 of 2 hold |\n"),
            HasSubstr("\n## counting\n\n*How far does one get?*\n\n- One gets to 3.\n"),
            HasSubstr("| claimed | measured | holds |\n| --- | --- | --- |\n| One gets to 3 | 3 | "
                      "yes |\n"),
            HasSubstr("| One gets to 3 | 5 | **no** |\n"),
            HasSubstr("| 0 &lt; 1 \\| yes | yes | yes |\n")));
  EXPECT_THAT(page, AllOf(HasSubstr("![Heights & more](counting-curve.svg)\n"),
                          HasSubstr("**Numbers &lt;b>**\n\n| name | value |\n"),
                          HasSubstr("| none | nan |\n"),
                          HasSubstr("\n    build/mobius experiment counting\n"),
                          HasSubstr("build/mobius experiment counting n_parts=5 seed=2\n")));
}

TEST(ResultsText, SaysWhatHolds) {
  EXPECT_THAT(to_text(report_of(", n_parts: 5")),
              AllOf(HasSubstr("- One gets to 5.\n"),
                    HasSubstr("this claim does not hold: One gets to 3; measured: 5\n"),
                    HasSubstr("this claim holds: 0 < 1 | yes; measured: yes\n")));
}

TEST(ResultsPage, NeedsNothingElseAndHoldsItsData) {
  StudyReport report = report_of();
  report.result.findings = {"</script><script>alert(1)</script>"};
  const std::string page = to_html({report});
  EXPECT_THAT(page, AllOf(HasSubstr("<title>Mobius: experiments</title>"),
                          HasSubstr("Made by mobius experiment."), Not(HasSubstr("<script src")),
                          Not(HasSubstr("<link")), Not(HasSubstr("{{"))));
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const std::size_t first = page.find(begin) + begin.size();
  const std::string data = page.substr(first, page.find("</script>", first) - first);
  EXPECT_EQ(Json::parse(data)[0]["findings"][0], report.result.findings[0]);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& path : entries_of(folder)) names.push_back(path.filename());
  return names;
}

TEST(ResultFiles, AreWrittenIntoANewFolder) {
  const TemporaryFolder folder;
  write_results(folder / "a/b", report_of());
  EXPECT_THAT(names_in(folder / "a/b"), ElementsAre("counting-curve.svg", "counting.json"));
  EXPECT_EQ(read_text(folder / "a/b/counting.json"), to_json(report_of()));
  write_results(folder / "a/b", report_of(", seed: 2"));
  EXPECT_EQ(read_text(folder / "a/b/counting.json"), to_json(report_of(", seed: 2")));
  EXPECT_NO_THROW(
      require_own_results(folder / "a/b", {"counting.json", "counting-curve.svg", "none"}));
}

TEST(ResultFiles, LeaveOthersFilesAlone) {
  const TemporaryFolder folder;
  write_text(folder / "counting-curve.svg", "<svg>mine</svg>");
  EXPECT_THAT(error_of([&] { write_results(folder.path(), report_of()); }),
              HasSubstr("counting-curve.svg: was not written by an experiment; choose another "
                        "folder by --out DIR"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("counting-curve.svg"));
  EXPECT_EQ(read_text(folder / "counting-curve.svg"), "<svg>mine</svg>");
}

}  // namespace
}  // namespace mobius::results_test
