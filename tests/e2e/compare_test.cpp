#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/e2e/run_comparison.h"

namespace mobius::compare_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CompareTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "tiny.yaml", kTinyRun);
    write_text(comparison_, R"(
base: tiny.yaml
variations:
  - name: softmax
    attention.kind: softmax
  - name: conformal
    attention: {kind: conformal, alpha: 2.0}
)");
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"compare", comparison_, "--out", folder_ / "out"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  static std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    std::istringstream text(read_text(fmt::format("/proc/{}/task/{}/children", parent, parent)));
    for (pid_t child = 0; text >> child;) children.push_back(child);
    return children;
  }
  std::vector<std::string> rows() const {
    return lines_of(read_text(folder_ / "out" / "comparison.csv"));
  }

  TemporaryFolder folder_;
  const std::string comparison_ = folder_ / "comparison.yaml";
};

TEST_F(CompareTest, TrainsEachAndPrintsATable) {
  const Outcome outcome = mobius(arguments());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("accuracy"), HasSubstr("\nsoftmax   "), HasSubstr("\nconformal ")));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("softmax: running"), HasSubstr("conformal: finished")));
  const std::vector<std::string> csv = rows();
  ASSERT_EQ(csv.size(), 5u);
  EXPECT_THAT(csv[0], StartsWith("level,name,variant,learning_rate,runs,complete_runs,status,"
                                 "accuracy,accuracy_deviation,loss,loss_deviation,perplexity,"));
  EXPECT_THAT(csv[3], StartsWith("run,conformal,conformal,"));
  EXPECT_THAT(csv[4], StartsWith("run,softmax,softmax,"));
  EXPECT_THAT(read_text(folder_ / "out" / "conformal" / "config.yaml"),
              AllOf(HasSubstr("kind: conformal"), HasSubstr("alpha: 2.0")));
}

TEST_F(CompareTest, ARunOfAComparisonIsThatOfTrain) {
  ASSERT_EQ(mobius(arguments({"--jobs", "2"})).exit_code, 0);
  const Outcome alone = mobius({"train", folder_ / "tiny.yaml", "attention.kind=conformal",
                                "attention.alpha=2.0", "--out", folder_ / "alone"});
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  expect_same_run(folder_ / "alone", folder_ / "out" / "conformal", 6);
}

TEST_F(CompareTest, SkipsWhatIsFinished) {
  ASSERT_EQ(mobius(arguments()).exit_code, 0);
  const std::vector<std::string> before = rows();
  fs::remove(folder_ / "out" / "comparison.csv");
  fs::remove_all(folder_ / "out" / "conformal");
  const Outcome again = mobius(arguments());
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.err, HasSubstr("softmax: finished before, skipped"));
  EXPECT_THAT(again.err, Not(HasSubstr("conformal: finished before")));
  EXPECT_EQ(rows().at(4), before.at(4));  // including step_ms
}

TEST_F(CompareTest, GoesOnWithInterruptedVariations) {
  const std::vector<std::string> longer = {"train.max_steps=300", "eval.every=0", "--jobs", "2"};
  auto straight = arguments(longer);
  straight[3] = folder_ / "straight";
  ASSERT_EQ(mobius(straight).exit_code, 0);

  Process process(mobius_command(arguments(longer)));
  for (const char* name : {"softmax", "conformal"}) {
    ASSERT_TRUE(wait_until(
        [&] { return lines_of(read_text(folder_ / "out" / name / "metrics.jsonl")).size() > 5; }));
  }
  process.kill(SIGTERM);
  const Outcome stopped = process.wait();
  EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("softmax: saved"), HasSubstr("conformal: saved")));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "comparison.csv"));

  const Outcome outcome = mobius(arguments(longer));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* name : {"softmax", "conformal"}) {
    EXPECT_THAT(read_text(folder_ / "out" / name / "log.txt"), HasSubstr("resume: step "));
    expect_same_run(folder_ / "straight" / name, folder_ / "out" / name, 300);
  }
}

// The signal may arrive at any time, even before a run handles signals, at the parent alone or also
// at its runs.
TEST_F(CompareTest, ASignalAtAnyMomentSavesEveryRun) {
  const std::vector<std::string> longer = {"train.max_steps=200", "eval.every=0", "--jobs", "2"};
  auto straight = arguments(longer);
  straight[3] = folder_ / "straight";
  ASSERT_EQ(mobius(straight).exit_code, 0);
  std::mt19937 random(3);
  for (int stop = 0; stop < 12; ++stop) {
    Process process(mobius_command(arguments(longer)));
    ASSERT_TRUE(wait_until(
        [&] { return process.err().find("running") != std::string::npos || process.has_ended(); }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    process.kill(stop % 2 == 0 ? SIGTERM : SIGHUP);
    if (stop % 3 == 0) {
      for (const pid_t run : children_of(process.pid())) ::kill(run, SIGTERM);
    }
    const Outcome stopped = process.wait();
    ASSERT_TRUE(stopped.exit_code == 4 || stopped.exit_code == 0) << stopped.err;
    EXPECT_THAT(stopped.err, Not(HasSubstr("failed")));
  }
  ASSERT_EQ(mobius(arguments(longer)).exit_code, 0);
  for (const char* name : {"softmax", "conformal"}) {
    expect_same_run(folder_ / "straight" / name, folder_ / "out" / name, 200);
  }
}

TEST_F(CompareTest, StopsWhenNobodyReadsWhatItSays) {
  const Outcome outcome =
      Process({"sh", "-c", "exec 3>&1; { \"$@\"; echo $? >&3; } 2>&1 >&3 | head -n 1 >&2", "sh",
               MOBIUS_BINARY, "compare", comparison_, "--out", folder_ / "out",
               "train.max_steps=100", "eval.every=0"})
          .wait();
  EXPECT_EQ(outcome.out, "4\n");
  EXPECT_EQ(outcome.err, "softmax: running\n");
}

// The run, which the test stops, outlives the killed comparison.
TEST_F(CompareTest, WaitsForTheRunsOfAComparisonThatWasKilled) {
  const std::vector<std::string> longer = {"train.max_steps=300", "eval.every=0"};
  auto straight = arguments(longer);
  straight[3] = folder_ / "straight";
  ASSERT_EQ(mobius(straight).exit_code, 0);

  Process killed(mobius_command(arguments(longer)));
  const fs::path metrics = folder_ / "out" / "softmax" / "metrics.jsonl";
  ASSERT_TRUE(wait_until([&] { return lines_of(read_text(metrics)).size() > 5; }));
  const std::vector<pid_t> runs = children_of(killed.pid());
  ASSERT_EQ(runs.size(), 1u);
  ::kill(runs[0], SIGSTOP);
  killed.kill(SIGKILL);
  killed.wait();

  Process process(mobius_command(arguments(longer)));
  EXPECT_TRUE(wait_until([&] {
    return process.err().find("softmax: waiting for a process of an earlier comparison") !=
               std::string::npos ||
           process.has_ended();
  }));
  ::kill(runs[0], SIGCONT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("failed")));
  for (const char* name : {"softmax", "conformal"}) {
    expect_same_run(folder_ / "straight" / name, folder_ / "out" / name, 300);
  }
}

// The third field of /proc/PID/stat.
char state_of(pid_t pid) {
  const std::string status = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = status.rfind(") ");
  return at == std::string::npos ? '?' : status[at + 2];
}

TEST_F(CompareTest, CtrlZStopsItsRunsUntilItGoesOn) {
  Process process(mobius_command(arguments({"train.max_steps=300", "eval.every=0"})),
                  {.has_own_group = true});
  const fs::path metrics = folder_ / "out" / "softmax" / "metrics.jsonl";
  ASSERT_TRUE(wait_until([&] { return lines_of(read_text(metrics)).size() > 5; }));
  const std::vector<pid_t> runs = children_of(process.pid());
  ASSERT_EQ(runs.size(), 1u);
  process.kill(SIGTSTP);
  EXPECT_TRUE(
      wait_until([&] { return state_of(runs[0]) == 'T' && state_of(process.pid()) == 'T'; }));
  process.kill(SIGCONT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("failed")));
}

TEST_F(CompareTest, RefusesTheFolderOfASingleRun) {
  ASSERT_EQ(mobius({"train", folder_ / "tiny.yaml", "--out", folder_ / "out"}).exit_code, 0);
  const Outcome outcome = mobius(arguments({}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("out: holds a run, not a comparison; choose another folder"));
  EXPECT_FALSE(fs::exists(folder_ / "out" / "softmax"));
}

TEST_F(CompareTest, BlamesNoOldErrorForAKilledRun) {
  const fs::path run = folder_ / "out" / "softmax";
  ASSERT_TRUE(fs::create_directories(run));
  write_text(run / "log.txt", "mobius: error: an old one\n");
  Process process(mobius_command(arguments({"train.max_steps=2000", "eval.every=0"})));
  ASSERT_TRUE(wait_until([&] { return lines_of(read_text(run / "metrics.jsonl")).size() > 5; }));
  for (const pid_t child : children_of(process.pid())) ::kill(child, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return process.err().find("failed") != std::string::npos; }));
  process.kill(SIGTERM);  // the other run does not matter
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("softmax: killed by signal 9 (Killed); see " + (run / "log.txt").string()));
  EXPECT_THAT(outcome.err, Not(HasSubstr("an old one")));
}

TEST_F(CompareTest, AFolderMayBeginWithADash) {
  for (const std::string last : {"", " --list"}) {
    const Outcome outcome =
        Process({"sh", "-c",
                 "cd " + folder_.path().string() +
                     " && " MOBIUS_BINARY " compare comparison.yaml --out=-dash" + last})
            .wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(fs::exists(folder_ / "-dash" / "comparison.csv"));
  }
  fs::remove_all(folder_ / "-dash" / "softmax");
  const Outcome list =
      Process({"sh", "-c",
               "cd " + folder_.path().string() +
                   " && " MOBIUS_BINARY " compare comparison.yaml --out=-dash --list | sh"})
          .wait();
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_TRUE(fs::exists(folder_ / "-dash" / "softmax" / "summary.json"));
}

TEST_F(CompareTest, RefusesAFolderThatNoLineCanName) {
  for (const auto& [name, shown] : {std::pair("a\nb", "a\\nb"), {"a\xff", "a\\xff"}}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"compare", comparison_},
          {"compare", comparison_, "--list"},
          {"train", folder_ / "tiny.yaml"}}) {
      auto words = command;
      words.push_back("--out=" + (folder_ / name).string());
      const Outcome outcome = mobius(words);
      EXPECT_EQ(outcome.exit_code, 2);
      EXPECT_EQ(outcome.err,
                "mobius: error: " + (folder_ / shown).string() +
                    ": expected a folder's name in UTF-8, without control characters\n");
      EXPECT_FALSE(fs::exists(folder_ / name));
    }
  }
}

TEST_F(CompareTest, RunsSaveAndEndWhenTheComparisonIsKilled) {
  const fs::path metrics = folder_ / "out" / "softmax" / "metrics.jsonl";
  Process process(mobius_command(arguments({"train.max_steps=1000000", "eval.every=0"})));
  ASSERT_TRUE(wait_until([&] { return lines_of(read_text(metrics)).size() > 5; }));
  process.kill(SIGKILL);
  process.wait();
  EXPECT_TRUE(wait_until([&] {
    const auto summary = read_summary(folder_ / "out" / "softmax" / "summary.json");
    return summary && summary->status == RunStatus::interrupted;
  }));
}

TEST_F(CompareTest, GoesOnAfterAVariationThatDiverges) {
  write_text(comparison_, R"(
base: tiny.yaml
variations:
  - name: wild
    optimizer.lr: 1.0e+30
  - name: tame
    optimizer.lr: 1.0e-03
)");
  const Outcome outcome = mobius(arguments());
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("wild: diverged"), HasSubstr("tame: finished")));
  const std::vector<std::string> csv = rows();
  ASSERT_EQ(csv.size(), 5u);
  EXPECT_THAT(csv[1], StartsWith("variant,tame,tame,0.001,1,1,,0."));
  EXPECT_THAT(csv[2], HasSubstr(",1,0,diverged,,,"));
}

TEST_F(CompareTest, WhatIsNotFiniteIsSeenAndNeverWins) {
  write_text(comparison_, R"(
base: tiny.yaml
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 1}
train: {max_steps: 1}
eval: {every: 1}
checkpoint: {metric: accuracy}
grid:
  optimizer.lr: [1.0e-03, 1.0e+30]
)");
  const auto expect_seen = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("0.001"), HasSubstr("diverged")));
    const auto json = nlohmann::json::parse(read_text(folder_ / "out" / "comparison.json"));
    EXPECT_EQ(json.at("variants")[0].at("best").at("learning_rate"), "0.001");
    EXPECT_EQ(json.at("variants")[0].at("best").at("complete_runs"), 1);
    std::vector<std::string> statuses;
    for (const auto& run : json.at("runs")) statuses.push_back(run.at("status"));
    std::sort(statuses.begin(), statuses.end());
    EXPECT_EQ(statuses, (std::vector<std::string>{"diverged", "finished"}));
  };
  expect_seen(mobius(arguments()));
  std::vector<fs::path> complete;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    const auto summary = read_summary(entry.path() / "summary.json");
    if (summary && summary->is_complete()) complete.push_back(entry.path());
    if (summary && !summary->is_complete()) {
      EXPECT_FALSE(newest_checkpoint(entry.path() / "checkpoints").path.has_value());
    }
  }
  ASSERT_EQ(complete.size(), 1u);

  // An earlier version could leave a best value that was not finite; the run counts as finished.
  auto summary = nlohmann::json::parse(read_text(complete[0] / "summary.json"));
  summary["best_value"] = nullptr;
  write_text(complete[0] / "summary.json", summary.dump());
  const Outcome again = mobius(arguments());
  expect_seen(again);
  EXPECT_THAT(again.err, HasSubstr(complete[0].filename().string() + ": finished before, skipped"));
}

TEST_F(CompareTest, MeetsTheNumberOfJobsAsAConfiguration) {
  for (const auto& [jobs, problem] :
       {std::pair("0", "must be in [1, 4096], got 0"),
        std::pair("-1", "must be in [1, 4096], got -1"),
        std::pair("two", "expected integer, got 'two'"),
        std::pair("99999999999999999999",
                  "'99999999999999999999' does not fit in a 64-bit integer")}) {
    const Outcome outcome = mobius(arguments({"--jobs", jobs}));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err, std::string("mobius: error: --jobs: ") + problem + "\n");
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(CompareTest, ListsWhatFailsAndGoesOn) {
  const fs::path softmax = folder_ / "out" / "softmax";  // with checkpoints of another model
  ASSERT_EQ(
      mobius({"train", folder_ / "tiny.yaml", "--out", softmax, "model.d_model=32"}).exit_code, 0);
  fs::remove(softmax / "config.yaml");
  fs::remove(softmax / "summary.json");
  const Outcome outcome = mobius(arguments());
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("softmax: exit code 2: "),
                                 HasSubstr("was made with model.d_model = 32"),
                                 HasSubstr("conformal: finished")));
  EXPECT_THAT(outcome.out, HasSubstr("conformal"));
}

TEST_F(CompareTest, AveragesSeedsAndPicksTheBestLearningRate) {
  write_text(comparison_, R"(
base: tiny.yaml
train: {max_steps: 12}
grid:
  attention.kind: [softmax, linear]
  optimizer.lr: [1e-9, 1e-2]
  train.seed: [1, 2, 3]
)");
  const Outcome outcome = mobius(arguments({"--jobs", "3"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(read_text(folder_ / "out" / "comparison.json"));
  EXPECT_EQ(json.at("metric"), "loss");
  ASSERT_EQ(json.at("variants").size(), 2u);
  ASSERT_EQ(json.at("runs").size(), 12u);
  for (const auto& variant : json.at("variants")) {
    EXPECT_EQ(variant.at("best").at("learning_rate"), "0.01");
    EXPECT_EQ(variant.at("learning_rates").size(), 2u);
    double sum = 0, squares = 0;
    for (const auto& run : json.at("runs")) {
      if (run.at("variant") != variant.at("name") ||
          run.at("differences").at("optimizer.lr") != "0.01") {
        continue;
      }
      sum += run.at("loss").get<double>();
      squares += std::pow(run.at("loss").get<double>(), 2);
    }
    const auto& loss = variant.at("best").at("loss");
    EXPECT_EQ(loss.at("count"), 3);
    EXPECT_NEAR(loss.at("mean").get<double>(), sum / 3, 1e-12);
    EXPECT_NEAR(std::pow(loss.at("deviation").get<double>(), 2), (squares - sum * sum / 3) / 2,
                1e-9);
  }
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("best_lr"), HasSubstr(" +- "), HasSubstr("3/3 runs")));
}

TEST_F(CompareTest, AListedSweepRunsAnywhereAndIsGathered) {
  const Outcome list = mobius(arguments({"--list"}));
  ASSERT_EQ(list.exit_code, 0) << list.err;
  const std::vector<std::string> commands = lines_of(list.out);
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_NE(mobius({"compare", "--report", folder_ / "none"}).exit_code, 0);
  ASSERT_EQ(std::system(("cd / && (" + commands[1] + ") > /dev/null").c_str()), 0);
  EXPECT_EQ(lines_of(mobius(arguments({"--list"})).out), std::vector{commands[0]});

  const Outcome part = mobius({"compare", "--report", folder_ / "out"});
  EXPECT_EQ(part.exit_code, 0) << part.err;
  EXPECT_THAT(part.out, AllOf(HasSubstr("conformal"), HasSubstr("0/1 runs")));
  ASSERT_EQ(std::system(("cd / && (" + commands[0] + ") > /dev/null").c_str()), 0);
  ASSERT_EQ(mobius({"compare", "--report", folder_ / "out"}).exit_code, 0);
  const std::vector<std::string> gathered = rows();
  fs::remove(folder_ / "out" / "comparison.csv");
  ASSERT_EQ(mobius(arguments()).exit_code, 0);
  EXPECT_EQ(rows(), gathered);
}

TEST_F(CompareTest, ShowsALineARunOnATerminal) {
  const std::string shown = mobius_on_terminal(arguments());
  EXPECT_THAT(shown, AllOf(HasSubstr("softmax    finished"), HasSubstr("\x1b[2A"),
                           HasSubstr("conformal  waiting")));
}

TEST_F(CompareTest, RefusesResultsOfAnotherConfiguration) {
  ASSERT_EQ(mobius(arguments()).exit_code, 0);
  const Outcome outcome = mobius(arguments({"optimizer.lr=0.5"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("optimizer.lr = 0.001, but the comparison says 0.5"));
}

TEST_F(CompareTest, ChecksEveryVariationBeforeItStarts) {
  const Outcome outcome = mobius(arguments({"optimizer.lrr=0.5"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("optimizer.lrr"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace mobius::compare_test
