// Runs, data and checkpoints can be moved, and existing files are not lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "tests/data/some_text.h"
#include "tests/e2e/run_comparison.h"

namespace mobius::places_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kTextRun = R"(
task: {name: lm, text: small.txt, tokenizer: char, seq_len: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
schedule: {kind: constant}
train: {max_steps: 6, batch_size: 4, log_every: 1, threads: 1}
eval: {every: 3}
checkpoint: {every: 2}
)";

// Runs a command with the working directory `folder`.
Outcome mobius_in(const fs::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"sh", "-c", "cd \"$0\" && exec \"$@\"", folder.string()};
  for (const std::string& word : mobius_command(arguments)) command.push_back(word);
  return Process(command).wait();
}

class PlacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(home_);
    write_text(home_ / "small.txt", some_text(80));
    write_text(home_ / "text.yaml", kTextRun);
    write_text(home_ / "tiny.yaml", kTinyRun);
  }

  // Runs a command in home_ and expects success.
  Outcome run(const std::vector<std::string>& arguments) const { return run_in(home_, arguments); }
  static Outcome run_in(const fs::path& folder, const std::vector<std::string>& arguments) {
    Outcome outcome = mobius_in(folder, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    return outcome;
  }
  static void expect_error(const Outcome& outcome, int exit_code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  std::int64_t step_of(const fs::path& checkpoint) const {
    return read_checkpoint_header(checkpoint).step;
  }

  TemporaryFolder folder_;
  const fs::path home_ = folder_ / "home";
};

// ---- data

TEST_F(PlacesTest, TheSameTextUnderAnotherPathIsTheSameText) {
  run({"train", "text.yaml", "--out", "straight", "train.max_steps=10"});
  run({"train", "text.yaml", "--out", "run"});
  const std::string score = run({"eval", "run"}).out;
  fs::rename(home_ / "small.txt", home_ / "moved.txt");
  expect_error(mobius_in(home_, {"eval", "run"}), 1,
               "task.text: small.txt: no such file; say where it lies by task.text=PATH");
  expect_error(mobius_in(home_, {"train", "run/config.yaml", "--resume", "auto"}), 1,
               "say where it lies by task.text=PATH");

  const Outcome evaluated = run({"eval", "run", "task.text=moved.txt"});
  EXPECT_EQ(evaluated.out, score);
  EXPECT_THAT(evaluated.err, IsEmpty()) << "it is the same text";
  EXPECT_THAT(run({"generate", "run", "--tokens", "5", "--prompt", "a"}).out, StartsWith("a"));

  const Outcome resumed = run({"train", "text.yaml", "--out", "run", "train.max_steps=10",
                               "task.text=moved.txt", "--resume", "auto"});
  EXPECT_THAT(resumed.out, HasSubstr("resume: task.text was small.txt, now moved.txt"));
  EXPECT_EQ(metrics_in(home_ / "run"), metrics_in(home_ / "straight"));
  run({"train", "run/config.yaml", "train.max_steps=12", "--resume", "auto"});
}

TEST_F(PlacesTest, AnotherTextUnderThePathIsAnotherText) {
  run({"train", "text.yaml", "--out", "run"});
  write_text(home_ / "other.txt", some_text(79));
  expect_error(mobius_in(home_, {"train", "text.yaml", "--out", "run", "task.text=other.txt",
                                 "--resume", "auto"}),
               2, "step-00000006.h5: was made with ");
  EXPECT_THAT(run({"eval", "run", "task.text=other.txt"}).err,
              AllOf(StartsWith("mobius: warning: "), HasSubstr("but now there are")));
  expect_error(mobius_in(home_, {"eval", "run", "model.d_model=32"}), 2,
               "override model.d_model=32: a checkpoint is scored as it is");
}

// They start at the working directory, then at the folder of the run and those above it, or at the
// folder of the configuration.
TEST_F(PlacesTest, RelativePathsHoldInOtherWorkingDirectories) {
  run({"train", "text.yaml", "--out", "runs/run"});
  const std::string score = run({"eval", "runs/run"}).out;
  EXPECT_EQ(run_in("/", {"eval", home_ / "runs" / "run"}).out, score);
  fs::create_directory(home_ / "here");
  write_text(home_ / "here" / "small.txt", some_text(60));
  EXPECT_THAT(run_in(home_ / "here", {"eval", "../runs/run"}).err, HasSubstr("warning"))
      << "the one in the working directory comes first";
  run_in("/", {"train", home_ / "runs" / "run" / "config.yaml", "train.max_steps=8", "--resume",
               "auto"});
  EXPECT_EQ(step_of(step_file(home_ / "runs" / "run", 8)), 8);
  run_in("/", {"train", home_ / "text.yaml", "--out", home_ / "second"});
  write_text(home_ / "cmp.yaml", "base: text.yaml\nvariations:\n  - name: a\n");
  run_in("/", {"compare", home_ / "cmp.yaml", "--out", home_ / "compared"});
  run_in("/", {"compare", home_ / "cmp.yaml", "--out", home_ / "compared"});
}

// ---- runs

TEST_F(PlacesTest, AMovedRunGoesOnWhereItIs) {
  run({"train", "tiny.yaml", "--out", "straight", "schedule.kind=constant", "train.max_steps=10"});
  run({"train", "tiny.yaml", "--out", "d", "schedule.kind=constant"});
  fs::rename(home_ / "d", home_ / "e");
  EXPECT_THAT(run({"train", "e/config.yaml", "train.max_steps=9", "--resume", "auto"}).out,
              HasSubstr("resume: step 6 from e/checkpoints/step-00000006.h5"));
  fs::rename(home_ / "e", folder_ / "f");
  run_in(folder_ / "f", {"train", "config.yaml", "train.max_steps=10", "--resume", "auto"});
  EXPECT_FALSE(fs::exists(home_ / "d"));
  EXPECT_FALSE(fs::exists(home_ / "e"));
  expect_same_run(home_ / "straight", folder_ / "f", 10);
  expect_error(mobius_in(folder_.path(), {"train", "f/config.yaml"}), 2, "f: holds a run");
}

TEST_F(PlacesTest, AMovedComparisonGoesOnWhereItIs) {
  write_text(home_ / "cmp.yaml",
             "base: text.yaml\nvariations:\n  - name: a\n  - {name: b, optimizer.lr: 1.0e-2}\n");
  run({"compare", "cmp.yaml", "--out", "d"});
  fs::rename(home_ / "d", home_ / "e");
  fs::rename(home_ / "small.txt", home_ / "moved.txt");
  const Outcome again = run({"compare", "cmp.yaml", "--out", "e", "task.text=moved.txt"});
  EXPECT_THAT(again.err, AllOf(HasSubstr("a: finished before"), HasSubstr("b: finished before")));
  fs::remove(home_ / "e" / "b" / "summary.json");
  EXPECT_THAT(run({"compare", "cmp.yaml", "--out", "e", "task.text=moved.txt"}).err,
              HasSubstr("b: finished"));
  EXPECT_FALSE(fs::exists(home_ / "d"));
  write_text(home_ / "moved.txt", some_text(79));
  expect_error(mobius_in(home_, {"compare", "cmp.yaml", "--out", "e", "task.text=moved.txt"}), 2,
               "holds a finished run with task.text = ");
}

// ---- checkpoints

TEST_F(PlacesTest, ARunsFolderStandsForItsCheckpoint) {
  run({"train", "text.yaml", "--out", "run"});
  fs::create_symlink("run", home_ / "alias");
  const auto step = [&](const std::string& place) {
    return lines_of(run({"eval", place}).out).front();
  };
  const std::string best =
      fmt::format("step {}", step_of(best_checkpoint(home_ / "run" / "checkpoints")));
  for (const char* place : {"run", "run/", "./run", "alias", "run/checkpoints"}) {
    EXPECT_EQ(step(place), best) << place;
  }
  EXPECT_THAT(run({"inspect", "run"}).out, StartsWith(best + ","));
  EXPECT_THAT(run({"export", "run", "out.safetensors"}).out, HasSubstr(best));
  run({"generate", "run", "--tokens", "3", "--prompt", "a"});

  fs::remove(best_checkpoint(home_ / "run" / "checkpoints"));
  EXPECT_EQ(step("run"), "step 6") << "the newest";
  fs::create_symlink("step-00000004.h5", home_ / "run" / "checkpoints" / "latest.h5");
  EXPECT_EQ(step("run/checkpoints/latest.h5"), "step 4");
  expect_error(mobius_in(home_, {"eval", "."}), 1, ".: holds no checkpoint");
  write_text(step_file(home_ / "run", 4), "");
  write_text(step_file(home_ / "run", 6), "");
  expect_error(mobius_in(home_, {"eval", "run"}), 1, "run: holds no complete checkpoint: ");
}

TEST_F(PlacesTest, ARunGoesOnFromItsFolderOrAnyPathToIts) {
  const auto resume = [&](const fs::path& from, int steps, const std::string& path) {
    return run_in(from, {"train", home_ / "tiny.yaml", "--out", home_ / "run",
                         fmt::format("train.max_steps={}", steps), "--resume", path})
        .out;
  };
  run({"train", "tiny.yaml", "--out", "run"});
  EXPECT_THAT(resume(home_, 7, "run"), HasSubstr("resume: step 6 from run/checkpoints/step-"));
  EXPECT_THAT(resume(home_ / "run" / "checkpoints", 8, "./step-00000007.h5"),
              HasSubstr("resume: step 7"));
  EXPECT_THAT(resume(home_ / "run" / "checkpoints", 9, "step-00000008.h5"),
              HasSubstr("resume: step 8"));
  EXPECT_THAT(resume(home_ / "run", 10, "../run/checkpoints"), HasSubstr("resume: step 9"));
  fs::create_symlink("step-00000010.h5", home_ / "run" / "checkpoints" / "latest.h5");
  EXPECT_THAT(resume("/", 11, home_ / "run/checkpoints/latest.h5"), HasSubstr("resume: step 10"));
  EXPECT_EQ(metrics_in(home_ / "run", "train").size(), 11u);
  expect_error(mobius_in(home_, {"train", "tiny.yaml", "--out", "x", "--resume", "."}), 1,
               ".: holds no checkpoint");
}

// ---- foreign files

TEST_F(PlacesTest, FilesOfOthersStayInARunsFolder) {
  fs::create_directory(home_ / "run");
  const std::string script = "cd \"$0\" && \"$1\" train tiny.yaml --out run > run/out.log";
  EXPECT_EQ(Process({"sh", "-c", script, home_, MOBIUS_BINARY}).wait().exit_code, 0);
  EXPECT_THAT(read_text(home_ / "run" / "out.log"), HasSubstr("finished"));
  write_text(home_ / "run" / "slurm-4711.out", "of others");
  write_text(home_ / "run" / "checkpoints" / "step-1.h5", "of others");
  fs::create_directory(home_ / "run" / ".DS_Store");
  run({"train", "tiny.yaml", "--out", "run", "train.max_steps=20", "--resume", "auto"});
  EXPECT_EQ(read_text(home_ / "run" / "slurm-4711.out"), "of others");
  EXPECT_EQ(read_text(home_ / "run" / "checkpoints" / "step-1.h5"), "of others");
  EXPECT_THAT(read_text(home_ / "run" / "out.log"), HasSubstr("finished"));
}

TEST_F(PlacesTest, AConfigurationByHandIsNotWrittenOver) {
  fs::create_directory(home_ / "a");
  write_text(home_ / "a" / "config.yaml", std::string("# by hand\n") + kTinyRun);
  for (const char* resume : {"", "auto"}) {
    expect_error(mobius_in(home_, {"train", "a/config.yaml", "--out", "a", "--resume", resume}), 2,
                 "a/config.yaml: would be written over");
  }
  write_text(home_ / "cmp.yaml", "base: tiny.yaml\nvariations: [{name: a}]\n");
  expect_error(mobius_in(home_, {"compare", "cmp.yaml", "--out", "."}), 2,
               "a/config.yaml: would be written over");
  EXPECT_THAT(read_text(home_ / "a" / "config.yaml"), StartsWith("# by hand"));
}

TEST_F(PlacesTest, APageOfOthersIsNotWrittenOver) {
  run({"train", "tiny.yaml", "--out", "run"});
  run({"compare", "--report", "run", "--out", "page"});
  run({"compare", "--report", "run", "--out", "page"});
  for (const char* name : {"report.html", "comparison.csv", "comparison.json"}) {
    write_text(home_ / "page" / name, "of others");
    expect_error(mobius_in(home_, {"compare", "--report", "run", "--out", "page"}), 2,
                 fmt::format("page/{}: was not written by a comparison", name));
    EXPECT_EQ(read_text(home_ / "page" / name), "of others");
    fs::remove(home_ / "page" / name);
  }
}

TEST_F(PlacesTest, PlantedLinksLeadNowhere) {
  run({"train", "tiny.yaml", "--out", "run"});
  write_text(home_ / "victim", "of others");
  std::vector<fs::path> links;
  for (const char* name :
       {"config.yaml", "metrics.jsonl", "summary.json", "tensorboard/events.out.tfevents.mobius",
        "checkpoints/best.h5", "checkpoints/step-00000008.h5", "checkpoints/step-00000010.h5"}) {
    links.push_back(home_ / "run" / (std::string(name) + ".tmp"));
    fs::create_symlink(home_ / "victim", links.back());
  }
  run({"train", "tiny.yaml", "--out", "run", "train.max_steps=10", "--resume", "auto"});
  EXPECT_EQ(read_text(home_ / "victim"), "of others");
  for (const fs::path& link : links) EXPECT_TRUE(fs::is_symlink(link)) << link;
}

// ---- the best state

class BestTest : public PlacesTest {
 protected:
  Outcome train(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train",
                                          "tiny.yaml",
                                          "--out",
                                          name,
                                          "eval.every=1",
                                          "checkpoint.every=1",
                                          "checkpoint.keep_last=20"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  fs::path best(const std::string& name) const {
    return best_checkpoint(home_ / name / "checkpoints");
  }
  std::string step(const std::string& name, int step) const {
    return step_file(home_ / name, step).string();
  }
  // The newest checkpoint, the summary and the file must agree.
  void expect_together(const std::string& name) const {
    const auto newest = newest_checkpoint(home_ / name / "checkpoints").path;
    const auto record = read_checkpoint_header(newest.value()).progress;
    const auto summary = read_summary(home_ / name / "summary.json").value();
    ASSERT_EQ(record.contains("best_step"), fs::exists(best(name))) << name;
    EXPECT_EQ(summary.best_step.has_value(), fs::exists(best(name)));
    if (!fs::exists(best(name))) return;
    const CheckpointHeader header = read_checkpoint_header(best(name));
    EXPECT_EQ(record.at("best_step"), static_cast<double>(header.step));
    EXPECT_EQ(record.at("best_value"), header.progress.at("best_value"));
    EXPECT_EQ(summary.best_step, header.step);
  }
  // Damages the model: no later state is better than the earlier best.
  const std::vector<std::string> spoilt_ = {"optimizer.lr=1", "schedule.kind=constant",
                                            "train.max_steps=8"};
  Outcome branch(const std::string& name, const std::string& from,
                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = spoilt_;
    arguments.insert(arguments.end(), {"--resume", from});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return train(name, arguments);
  }
};

TEST_F(BestTest, TravelsWithABranch) {
  train("run");
  const std::string content = read_text(best("run"));
  branch("from-best", best("run"));
  EXPECT_EQ(read_text(best("from-best")), content);
  expect_together("from-best");
  branch("from-last", step("run", 6));
  EXPECT_EQ(read_text(best("from-last")), content);
  expect_together("from-last");
}

TEST_F(BestTest, IsForgottenWhereTheFileIsGone) {
  train("run");
  branch("run", "auto");
  ASSERT_LE(step_of(best("run")), 6);
  const std::string alone = (home_ / "alone.h5").string();
  fs::copy_file(step("run", 8), alone);
  const Outcome outcome = branch("branch", alone, {"train.max_steps=10"});
  EXPECT_THAT(outcome.out, HasSubstr("resume: the best state, of step"));
  EXPECT_GT(step_of(best("branch")), 8);
  expect_together("branch");
}

// best.h5 is written before the checkpoint of its step, so a kill between them leaves it ahead.
TEST_F(BestTest, FollowsAFileThatIsAhead) {
  train("run");
  const std::int64_t ahead = step_of(best("run"));
  ASSERT_GT(ahead, 1) << "learning makes it better";
  for (std::int64_t later = ahead; later <= 6; ++later) fs::remove(step_file(home_ / "run", later));
  const std::string content = read_text(best("run"));
  train("run", {"optimizer.lr=1", "schedule.kind=constant", "--resume", "auto"});
  EXPECT_EQ(read_text(best("run")), content) << "nothing later is better";
  expect_together("run");
}

// A run that was killed after saving its best state resumes from an earlier step, and may save
// before it reaches that state again.
TEST_F(BestTest, MayBeOfAStepThatIsDoneAgain) {
  train("run");
  const std::int64_t ahead = step_of(best("run"));
  ASSERT_GT(ahead, 2) << "learning makes it better";
  for (std::int64_t later = 2; later <= 6; ++later) fs::remove(step_file(home_ / "run", later));
  train("run", {"train.max_steps=2", "schedule.warmup_steps=0", "--resume", "auto"});
  EXPECT_THAT(train("run", {"--resume", "auto"}).out, HasSubstr("resume: step 2 from"));
  expect_together("run");
}

TEST_F(BestTest, IsJudgedAnewByAnotherMetric) {
  train("run");
  branch("run", "auto", {"checkpoint.metric=accuracy"});
  EXPECT_GT(step_of(best("run")), 6);
  expect_together("run");
}

TEST_F(BestTest, IsKeptFromWhereThatIsAskedFor) {
  train("run", {"checkpoint.keep_best=false"});
  EXPECT_FALSE(fs::exists(best("run")));
  EXPECT_TRUE(read_summary(home_ / "run" / "summary.json").value().best_step.has_value())
      << "it names the best run of a comparison";
  branch("on", step("run", 5));
  expect_together("on");
  EXPECT_TRUE(fs::exists(best("on")));
  branch("off", step("on", 7), {"checkpoint.keep_best=false"});
  EXPECT_FALSE(fs::exists(best("off")));
}

// ---- writing

class WritingTest : public PlacesTest {
 protected:
  void SetUp() override {
    PlacesTest::SetUp();
    run({"train", "tiny.yaml", "--out", "run"});
    run({"export", "run", "model.safetensors"});
    fs::copy_file(step_file(home_ / "run", 6), home_ / "c.h5");
  }
};

TEST_F(WritingTest, WhatIsReadIsNotWritten) {
  fs::create_symlink("c.h5", home_ / "link.h5");
  fs::create_hard_link(home_ / "c.h5", home_ / "hard.h5");
  const std::string before = read_text(home_ / "c.h5");
  for (const char* out : {"c.h5", "./c.h5", "link.h5", "hard.h5"}) {
    expect_error(mobius_in(home_, {"export", "c.h5", out, "--force"}), 2, "but is read");
    EXPECT_TRUE(read_text(home_ / "c.h5") == before);
  }
  for (const char* out : {"tiny.yaml", "model.safetensors"}) {
    const std::string content = read_text(home_ / out);
    expect_error(mobius_in(home_, {"import", "tiny.yaml", "model.safetensors", out, "--force"}), 2,
                 "but is read");
    EXPECT_TRUE(read_text(home_ / out) == content);
  }
  expect_error(
      mobius_in(home_, {"import", "text.yaml", "model.safetensors", "small.txt", "--force"}), 2,
      "but is read");
  EXPECT_EQ(read_text(home_ / "small.txt"), some_text(80));
  expect_error(mobius_in(home_, {"export", "run", best_checkpoint("run/checkpoints"), "--force"}),
               2, "but is read");
}

TEST_F(WritingTest, AFileIsReplacedOnlyByForce) {
  write_text(home_ / "thesis", "of others");
  const std::vector<std::vector<std::string>> commands = {
      {"export", "c.h5", "thesis"}, {"import", "tiny.yaml", "model.safetensors", "thesis"}};
  for (std::vector<std::string> command : commands) {
    expect_error(mobius_in(home_, command), 2, "thesis: exists already; replace it by --force");
    EXPECT_EQ(read_text(home_ / "thesis"), "of others");
    command.push_back("--force");
    run(command);
    EXPECT_NE(read_text(home_ / "thesis"), "of others");
    write_text(home_ / "thesis", "of others");
  }
}

TEST_F(WritingTest, LinksAndPipesAreWrittenThrough) {
  fs::create_symlink("far.safetensors", home_ / "near.safetensors");
  run({"export", "c.h5", "near.safetensors"});
  EXPECT_TRUE(fs::is_symlink(home_ / "near.safetensors"));
  EXPECT_TRUE(read_text(home_ / "far.safetensors") != "");

  ASSERT_EQ(::mkfifo((home_ / "pipe").c_str(), 0666), 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"export", "c.h5", "pipe"},
        {"import", "tiny.yaml", "model.safetensors", "pipe"}}) {
    std::string got;
    std::thread reader([&] { got = read_text(home_ / "pipe"); });
    run(command);
    reader.join();
    EXPECT_GT(got.size(), 1000u);
    EXPECT_TRUE(fs::is_fifo(home_ / "pipe"));
  }
  const std::string script = "cd \"$0\" && \"$1\" export c.h5 /dev/stdout | cmp - far.safetensors";
  EXPECT_EQ(Process({"sh", "-c", script, home_, MOBIUS_BINARY}).wait().exit_code, 0);
  fs::create_symlink("/dev/full", home_ / "full");
  expect_error(mobius_in(home_, {"export", "c.h5", "full"}), 1,
               "full: cannot write: No space left on device");
}

// ---- reading

TEST_F(WritingTest, DevicesAndPipesAreNotRead) {
  ASSERT_EQ(::mkfifo((home_ / "pipe").c_str(), 0666), 0);
  for (const char* file : {"/dev/zero", "pipe"}) {
    for (const char* command : {"eval", "inspect", "generate"})
      expect_error(mobius_in(home_, {command, file}), 1, std::string(file) + ": is not a file");
    expect_error(mobius_in(home_, {"export", file, "new"}), 1, "is not a file");
    expect_error(mobius_in(home_, {"import", "tiny.yaml", file, "new"}), 1, "is not a file");
    expect_error(mobius_in(home_, {"train", "tiny.yaml", "--resume", file}), 1, "is not a file");
    expect_error(mobius_in(home_, {"train", "text.yaml", std::string("task.text=") + file}), 1,
                 "is not a file");
  }
  expect_error(mobius_in(home_, {"train", "/dev/zero"}), 2, "/dev/zero: is not a file");
}

TEST_F(WritingTest, AConfigurationMayComeFromAPipe) {
  const std::string script = "cd \"$0\" && exec \"$1\" config show <(sleep 0.1; cat tiny.yaml)";
  const Outcome outcome = Process({"bash", "-c", script, home_, MOBIUS_BINARY}).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("seq_len: 16"));
}

TEST_F(WritingTest, AFailedReadNamesItsFile) {
  fs::create_symlink("loop", home_ / "loop");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "loop"}, {"train", "tiny.yaml", "--out", "loop"}}) {
    expect_error(mobius_in(home_, command), 1, "error: loop: Too many levels of symbolic links");
  }
  expect_error(mobius({"train", "/proc/self/mem"}), 2,
               "/proc/self/mem: cannot be read: Input/output error");
}

}  // namespace
}  // namespace mobius::places_test
