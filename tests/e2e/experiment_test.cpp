// `mobius experiment` as a user runs it. The program of tests/distributed/ has one study, which
// waits as long as it is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/browser.h"
#include "tests/e2e/process.h"
#include "tests/e2e/run_test.h"

namespace mobius::experiment_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ExperimentTest : public ::testing::Test {
 protected:
  std::vector<std::string> command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words = {MOBIUS_RANK_PROGRAM, "experiment"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    words.insert(words.end(), {"--out", out_});
    return words;
  }
  Outcome run(const std::vector<std::string>& arguments) const {
    return Process(command(arguments)).wait();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const fs::path& path : entries_of(out_)) names.push_back(path.filename());
    return names;
  }

  TemporaryFolder folder_;
  const std::string out_ = folder_ / "results/here";
};

TEST_F(ExperimentTest, RunsByName) {
  const Outcome outcome = run({"counting", "n_parts=4", "--seed", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("counting took 0:00.\nHow far does one get?\n"),
                                 HasSubstr("- One gets to 4.\n"),
                                 HasSubstr("counting.html is in " + out_ + "\n")));
  EXPECT_THAT(outcome.err, HasSubstr("3/4  counting: number 3  0:00 left\n"));
  EXPECT_THAT(files(), ElementsAre("counting-curve.svg", "counting.html", "counting.json"));
  EXPECT_THAT(read_text(out_ + "/counting.json"),
              HasSubstr("\"command\": \"mobius experiment counting n_parts=4 seed=2\""));
}

TEST_F(ExperimentTest, RunsAFile) {
  const std::string file = folder_ / "mine.yaml";
  write_text(file, "experiment: counting\nn_parts: 5\nseed: 3\n");
  const Outcome outcome = run({file, "--seed", "4"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("One gets to 5."));
  EXPECT_THAT(read_text(out_ + "/counting.json"), HasSubstr("\"seed\": 4,"));

  write_text(file, "experiment: counting\nn_part: 5\n");
  const Outcome wrong = run({file});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err,
              HasSubstr("mine.yaml:2:1: n_part: unknown key; did you mean 'n_parts'?\n"));
}

TEST_F(ExperimentTest, RefusesWhatItDoesNotKnow) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"countin"}, "unknown experiment 'countin'; did you mean 'counting'?"},
      {{"counting", "n_part=3"}, "override n_part=3: n_part: unknown key; did you mean 'n_parts'?"},
      {{"counting", "--seed", "x"}, "override seed=x: seed: expected integer, got 'x'"},
      {{}, "experiment: NAME is missing; known: counting; or --all"},
      {{"--all", "counting"}, "--all: runs every experiment with its defaults; drop 'counting'"},
      {{"nowhere.yaml"}, "nowhere.yaml"},
      {{"counting", "--sed", "1"}, "unknown option '--sed'; did you mean '--seed'?"}};
  for (const auto& [arguments, message] : cases) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_FALSE(fs::exists(out_)) << message;
  }
}

TEST_F(ExperimentTest, ListsStudiesAndTheirKeys) {
  const Outcome studies = run({"--list"});
  EXPECT_EQ(studies.exit_code, 0) << studies.err;
  EXPECT_EQ(studies.out, "counting  How far does one get?\n");
  const Outcome keys = run({"counting", "--list"});
  EXPECT_EQ(keys.exit_code, 0) << keys.err;
  EXPECT_THAT(keys.out, AllOf(HasSubstr("n_parts"), HasSubstr("how far to count")));
  EXPECT_THAT(mobius({"experiment", "--list"}).out, HasSubstr("e3_kernels  "));
}

TEST_F(ExperimentTest, HelpTeaches) {
  const Outcome outcome = Process(command({"--help"})).wait();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("mobius experiment e3_kernels d=128 --seed 2"),
                                 HasSubstr("exit code 4")));
}

TEST_F(ExperimentTest, AllWritesAPageAndAnOverview) {
  const Outcome outcome = run({"--all"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(files(),
              ElementsAre("README.md", "counting-curve.svg", "counting.json", "index.html"));
  EXPECT_THAT(read_text(out_ + "/README.md"), HasSubstr("![Heights & more](counting-curve.svg)"));
}

TEST_F(ExperimentTest, EveryFigureIsDrawnInABrowser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium to open the page in";
  ASSERT_EQ(run({"counting"}).exit_code, 0);
  ASSERT_EQ(mobius({"experiment", "e3_kernels", "--out", out_}).exit_code, 0);
  for (const auto& [page, figures] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"counting", {"curve"}}, {"e3_kernels", {"shapes", "logs", "weights", "widths"}}}) {
    const ShownPage shown = shown_in_browser(out_ + "/" + page + ".html");
    EXPECT_THAT(shown.text, AllOf(HasSubstr("data-ready=\"true\""), HasSubstr("data-errors=\"0\"")))
        << shown.console;
    EXPECT_THAT(shown.console, Not(HasSubstr("CONSOLE")));
    for (const std::string& figure : figures) {
      EXPECT_THAT(shown.text,
                  HasSubstr("<figure id=\"" + page + "-" + figure + "\" data-drawn=\"true\""));
    }
  }
}

TEST_F(ExperimentTest, AllLeavesAReadmeOfOthersAlone) {
  fs::create_directories(out_);
  write_text(out_ + "/README.md", "# Mine\n");
  const Outcome outcome = run({"--all"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("README.md: was not written by an experiment"));
  EXPECT_THAT(files(), ElementsAre("README.md"));
  EXPECT_EQ(read_text(out_ + "/README.md"), "# Mine\n");
}

TEST_F(ExperimentTest, AllLeavesTheOverviewWhereAStudyFails) {
  ASSERT_EQ(run({"--all"}).exit_code, 0);
  const std::string before = read_text(out_ + "/README.md");
  const Outcome outcome =
      Process(command({"--all", "--seed", "2"}), {.environment = {{"COUNTING_FAILURE", "1"}}})
          .wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("mobius: error: counting: cannot count\n"),
                                 HasSubstr("1 of 1 experiments failed")));
  EXPECT_EQ(read_text(out_ + "/README.md"), before);
}

TEST_F(ExperimentTest, StopsBetweenPartsAndLeavesEarlierResults) {
  ASSERT_EQ(run({"counting"}).exit_code, 0);
  const std::string before = read_text(out_ + "/counting.json");
  for (const int signal : {SIGINT, SIGTERM}) {
    Process process(command({"counting", "n_parts=100000", "part_ms=5"}));
    ASSERT_TRUE(wait_until([&] { return process.err().find("number 0") != std::string::npos; }));
    process.kill(signal);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("mobius: stopped"));
    EXPECT_THAT(files(), ElementsAre("counting-curve.svg", "counting.html", "counting.json"));
    EXPECT_EQ(read_text(out_ + "/counting.json"), before);
    EXPECT_TRUE(temporary_files_below(out_).empty());
  }
}

TEST_F(ExperimentTest, AFailureIsSaidAndNothingIsWritten) {
  const Outcome broken = run({"counting", "is_broken=true"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("counting: figure curve: series 'heights' has 2 x and 3 y"));
  EXPECT_FALSE(fs::exists(out_));

  fs::create_directories(fs::path(out_).parent_path());
  write_text(out_, "a file");
  const Outcome in_the_way = run({"counting"});
  EXPECT_EQ(in_the_way.exit_code, 1);
  EXPECT_THAT(in_the_way.err, HasSubstr(out_ + ": cannot be made"));
}

TEST_F(ExperimentTest, DrawsABarOnATerminal) {
  const std::string shown = mobius_on_terminal({"experiment", "e3_kernels", "--out", out_});
  EXPECT_THAT(shown, AllOf(HasSubstr("[====="), HasSubstr("] 2/3  e3_kernels: widths"),
                           HasSubstr("\r\x1b[K"), HasSubstr("does not hold")));
}

// What the studies that take no time find does not depend on the run.
TEST_F(ExperimentTest, TheSameSeedGivesTheSameBytes) {
  const std::string one = folder_ / "one", two = folder_ / "two";
  ASSERT_EQ(mobius({"experiment", "e3_kernels", "--out", one}).exit_code, 0);
  ASSERT_EQ(mobius({"experiment", "e3_kernels", "--out", two},
                   {.environment = {{"OMP_NUM_THREADS", "1"}}})
                .exit_code,
            0);
  EXPECT_EQ(read_text(one + "/e3_kernels.json"), read_text(two + "/e3_kernels.json"));
}

}  // namespace
}  // namespace mobius::experiment_test
