#include "train/results/study_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/input_file.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"
#include "tests/train/counting_study.h"
#include "train/config/writer.h"
#include "train/io/file.h"

namespace mobius::study_run_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Registry<Study> kStudies = registry_with_counting_study();
const StudyProgress kSilent = [](const std::string&, std::int64_t, std::int64_t) {};

StudyRun run_of(const std::string& text) {
  return {ConfigDocument::from_text(text, "run.yaml"), kStudies};
}

TEST(StudyRun, TellsItsParts) {
  std::vector<std::string> parts;
  const auto note = [&parts](const std::string& what, std::int64_t done, std::int64_t total) {
    parts.push_back(what + ": " + std::to_string(done) + "/" + std::to_string(total));
  };
  const StudyReport report = run_of("experiment: counting\nn_parts: 2").run(note);
  EXPECT_THAT(parts, ElementsAre("number 0: 0/2", "number 1: 1/2"));
  EXPECT_EQ(report.name, "counting");
  EXPECT_EQ(report.question, "How far does one get?");
  EXPECT_THAT(report.result.findings, ElementsAre("One gets to 2."));
}

TEST(StudyRun, SaysHowToRepeatIt) {
  EXPECT_EQ(run_of("experiment: counting").run(kSilent).command, "mobius experiment counting");
  EXPECT_EQ(
      run_of("{experiment: counting, seed: 7, heights: [1.5, 2], n_parts: 3}").run(kSilent).command,
      "mobius experiment counting 'heights=[1.5, 2.0]' seed=7");
}

TEST(StudyRun, HasAllOptions) {
  const StudyReport report = run_of("{experiment: counting, seed: 7}").run(kSilent);
  EXPECT_EQ(report.seed, 7u);
  std::vector<std::string> keys;
  for (const auto& [key, value] : report.options) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("n_parts", "part_ms", "heights", "is_broken"));
}

TEST(StudyRun, TheSeedDecides) {
  const auto drawn = [](int seed) {
    const StudyRun run = run_of("{experiment: counting, seed: " + std::to_string(seed) + "}");
    return std::get<double>(run.run(kSilent).result.tables[0].rows[0][1]);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(StudyRun, RefusesAnIncompleteResult) {
  EXPECT_EQ(error_of([] { run_of("{experiment: counting, is_broken: true}").run(kSilent); }),
            "counting: figure curve: series 'heights' has 2 x and 3 y");
}

TEST(StudyRun, ReadsStrictly) {
  EXPECT_EQ(error_of([] { run_of("experiment: counting\nn_part: 3\n"); }),
            "run.yaml:2:1: n_part: unknown key; did you mean 'n_parts'?");
  EXPECT_EQ(error_of([] { run_of("experiment: counting\nn_parts: 0\n"); }),
            "run.yaml:2:10: n_parts: must be > 0, got 0");
  EXPECT_EQ(error_of([] { run_of("experiment: countin\n"); }),
            "run.yaml:1:13: experiment: unknown name 'countin'; did you mean 'counting'?");
  EXPECT_THAT(error_of([] { run_of("n_parts: 3\n"); }), HasSubstr("experiment: missing"));
}

TEST(StudyDocument, IsOfANameOrAFile) {
  const TemporaryFolder folder;
  write_text(folder / "mine.yaml", "{experiment: counting, n_parts: 5}\n");
  const auto parts = [](const std::string& experiment) {
    const ConfigDocument document = study_document(experiment, kStudies);
    return StudyRun(document, kStudies).run(kSilent).result.findings[0];
  };
  EXPECT_EQ(parts("counting"), "One gets to 3.");
  EXPECT_EQ(parts(folder / "mine.yaml"), "One gets to 5.");
  EXPECT_EQ(error_of([&] { parts("count"); }),
            "unknown experiment 'count'; did you mean 'counting'?");
  EXPECT_EQ(error_of([&] { parts("ident\x1b"); }),
            "unknown experiment 'ident\\x1b'; known: counting");
  EXPECT_THAT(error_of([&] { parts(folder / "none.yaml"); }), HasSubstr("none.yaml"));
}

// Every study has a configuration that sets its defaults, for readers to change.
TEST(ShippedExperiments, HaveTheDefaults) {
  const Registry<Study> studies = builtin_studies();
  const auto values = [&](const ConfigDocument& document) {
    std::string text;
    StudyRun run(document, studies);
    for (const auto& [key, value] : run.options()) text += key + "=" + to_yaml(value) + "\n";
    return run.name() + ", seed " + std::to_string(run.seed()) + "\n" + text;
  };
  const fs::path folder = fs::path(MOBIUS_SOURCE_DIR) / "configs" / "experiments";
  std::vector<std::string> names;
  for (const fs::path& path : entries_of(folder)) {
    names.push_back(path.stem());
    ASSERT_TRUE(studies.contains(path.stem().string())) << path;
    EXPECT_EQ(values(ConfigDocument::from_file(path)), values(study_document(path.stem(), studies)))
        << path;
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(studies.names()));
}

TEST(ShippedExperiments, AskAQuestion) {
  const Registry<Study> studies = builtin_studies();
  for (const auto& study : studies.kinds()) {
    EXPECT_EQ(study.make()->name(), study.name);
    EXPECT_THAT(study.help, ::testing::EndsWith("?"));
  }
}

}  // namespace
}  // namespace mobius::study_run_test
