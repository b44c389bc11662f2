#include "train/run/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/backend.h"
#include "core/cpu/simd/isa.h"
#include "tests/hostile_checkpoint.h"
#include "tests/train/run_fixture.h"

namespace mobius::trainer_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainerTest : public ::testing::Test {
 protected:
  RunSummary train(const std::string& name, const std::vector<std::string>& overrides = {},
                   const std::string& resume = "") {
    return train_in(folder_ / name, known_, overrides, resume);
  }
  // Trains with a signal that comes before the first step.
  RunSummary train_with_signal(const std::string& name,
                               const std::vector<std::string>& overrides = {},
                               const std::string& resume = "") {
    StopSignal stop;
    stop.request();
    return train_in(folder_ / name, known_, stop, overrides, resume);
  }
  // Reads the record of the newest checkpoint without its time.
  std::map<std::string, double> measured(const std::string& name) {
    const auto newest = newest_checkpoint(folder_ / name / "checkpoints").path;
    std::map<std::string, double> values = read_checkpoint_header(newest.value()).progress;
    values.erase("train_seconds");
    return values;
  }
  std::vector<Json> metrics(const std::string& name, const std::string& split) {
    std::vector<Json> found;
    for (const std::string& line : lines_of(read_text(folder_ / name / "metrics.jsonl"))) {
      Json object = Json::parse(line);
      object.erase("tokens_per_s");
      if (object.at("split") == split) found.push_back(object);
    }
    return found;
  }
  std::vector<std::string> checkpoints(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / name / "checkpoints")) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const Registries known_;
  TemporaryFolder folder_;
};

TEST_F(TrainerTest, LeavesACompleteFolder) {
  const RunSummary summary = train("run");
  EXPECT_EQ(summary.status, RunStatus::finished);
  EXPECT_EQ(summary.step, 6);
  EXPECT_GT(summary.peak_bytes, 0u);
  EXPECT_EQ(metrics("run", "train").size(), 6u);
  EXPECT_EQ(metrics("run", "test").size(), 2u);
  EXPECT_EQ(checkpoints("run"),
            (std::vector<std::string>{"best.h5", "step-00000004.h5", "step-00000006.h5"}));
  EXPECT_EQ(read_summary(folder_ / "run" / "summary.json").value().step, 6);
  const auto config = parse_config(read_text(folder_ / "run" / "config.yaml"), "saved", known_);
  EXPECT_EQ(config->train.max_steps, 6);
}

TEST_F(TrainerTest, IsReproducible) {
  train("a");
  train("b");
  EXPECT_EQ(metrics("a", "train"), metrics("b", "train"));
  EXPECT_EQ(metrics("a", "test"), metrics("b", "test"));
  train("c", {"train.seed=2"});
  EXPECT_NE(metrics("a", "train"), metrics("c", "train"));
}

TEST_F(TrainerTest, DoesNotDependOnTheThreadCount) {
  train("one", {"train.threads=1"});
  train("three", {"train.threads=3"});
  EXPECT_EQ(metrics("one", "train"), metrics("three", "train"));
}

TEST_F(TrainerTest, EvaluationDoesNotTouchTheTraining) {
  train("often", {"eval.every=1"});
  train("never", {"eval.every=0"});
  EXPECT_EQ(metrics("often", "test").size(), 6u);
  EXPECT_EQ(metrics("never", "test").size(), 1u);
  EXPECT_EQ(metrics("often", "train"), metrics("never", "train"));
}

TEST_F(TrainerTest, AccumulationDoesNotChangeTheRun) {
  const auto losses_in = [&](const std::string& parts) {
    train(parts, {"train.accumulation_steps=" + parts, "model.dropout=0"});
    std::vector<double> losses;
    for (const Json& line : metrics(parts, "train")) losses.push_back(line.at("loss"));
    return losses;
  };
  const auto whole = losses_in("1"), parts = losses_in("4");
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-5);
}

TEST_F(TrainerTest, ResumesBitForBit) {
  train("straight");
  for (const char* half : {"3", "4", "5"}) {
    const std::string name = std::string("halves-") + half;
    train(name, {"schedule.kind=constant", "train.max_steps=" + std::string(half)});
    train(name, {"schedule.kind=constant"}, "auto");
    train("straight-constant-" + name, {"schedule.kind=constant"});
    EXPECT_EQ(metrics(name, "train"), metrics("straight-constant-" + name, "train")) << half;
  }
}

TEST_F(TrainerTest, ResumingAFinishedRunChangesNothing) {
  train("run");
  const std::string before = read_text(folder_ / "run" / "metrics.jsonl");
  const RunSummary summary = train("run", {}, "auto");
  EXPECT_EQ(summary.status, RunStatus::finished);
  EXPECT_EQ(summary.test.value().loss(), metrics("run", "test").back().at("loss"));
  EXPECT_EQ(read_text(folder_ / "run" / "metrics.jsonl"), before);
}

TEST_F(TrainerTest, StopsEarlyAndStaysStopped) {
  const std::vector<std::string> goal = {"train.early_stop.threshold=0.0"};
  RunSummary summary = train("run", goal);
  EXPECT_EQ(summary.status, RunStatus::early_stop);
  EXPECT_EQ(summary.step, 3);
  EXPECT_THAT(checkpoints("run"), ::testing::Contains("step-00000003.h5"));
  summary = train("run", goal, "auto");
  EXPECT_EQ(summary.status, RunStatus::early_stop);
  EXPECT_EQ(summary.step, 3);
  summary = train("run", {}, "auto");
  EXPECT_EQ(summary.status, RunStatus::finished);
  EXPECT_EQ(summary.step, 6);
}

TEST_F(TrainerTest, KeepsTheBestByItsMetric) {
  train("run", {"eval.every=1"});
  std::int64_t best_step = 0;
  double best = 1e9;
  for (const Json& line : metrics("run", "test")) {
    if (line.at("loss") < best) {
      best = line.at("loss");
      best_step = line.at("step");
    }
  }
  EXPECT_EQ(read_checkpoint_header(folder_ / "run" / "checkpoints" / "best.h5").step, best_step);
  train("none", {"checkpoint.keep_best=false", "checkpoint.every=0"});
  EXPECT_EQ(checkpoints("none"), (std::vector<std::string>{"step-00000006.h5"}));
  // The metric then still says which state was best, and which run of a comparison is.
  const RunSummary summary = train(
      "accuracy", {"eval.every=1", "checkpoint.keep_best=false", "checkpoint.metric=accuracy"});
  double accuracy = 0;
  for (const Json& line : metrics("accuracy", "test")) {
    accuracy = std::max(accuracy, line.at("accuracy").get<double>());
  }
  EXPECT_EQ(summary.best_value, accuracy);
}

TEST_F(TrainerTest, StopsWhereTheLossIsNotFinite) {
  const std::string error = error_of([&] {
    train("run", {"optimizer.lr=1e30", "schedule.kind=constant", "checkpoint.every=1"});
  });
  EXPECT_THAT(error, AllOf(HasSubstr("step 2: "), HasSubstr("finite"), HasSubstr("kept"),
                           HasSubstr("step-00000001.h5")));
  const RunSummary summary = read_summary(folder_ / "run" / "summary.json").value();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_EQ(summary.step, 1);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-00000001.h5"}));
}

// The loss of the step is finite, and its update makes that of the test sequences not.
TEST_F(TrainerTest, StopsWhereTheTestLossIsNotFinite) {
  std::vector<std::string> settings = {"schedule.kind=constant", "eval.every=1",
                                       "checkpoint.every=1", "checkpoint.keep_last=1"};
  settings.push_back("train.max_steps=2");
  train("run", settings);
  settings.back() = "optimizer.lr=1e30";
  const fs::path best = folder_ / "run" / "checkpoints" / "best.h5";
  const std::string best_before = read_text(best);
  const auto error = [&] {
    return error_of<TrainingDiverged>([&] { train("run", settings, "auto"); });
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("step 3: the test loss is "), HasSubstr("kept"),
                             HasSubstr("step-00000002.h5")));
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"best.h5", "step-00000002.h5"}));
  EXPECT_TRUE(read_text(best) == best_before);
  const Json line = metrics("run", "test").back();
  EXPECT_EQ(line.at("step"), 3);
  EXPECT_TRUE(line.at("loss").is_null());
  EXPECT_TRUE(line.at("accuracy").is_null());
  const RunSummary summary = read_summary(folder_ / "run" / "summary.json").value();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_EQ(summary.step, 3);
  EXPECT_LE(summary.best_step.value(), 2);
  EXPECT_TRUE(std::isfinite(summary.best_value.value()));

  // With the same rate it diverges again, with a lower one it goes on.
  EXPECT_THAT(error(), HasSubstr("step 3: the test loss is "));
  settings.pop_back();
  EXPECT_EQ(train("run", settings, "auto").status, RunStatus::finished);
  std::vector<int> tested;
  for (const Json& test : metrics("run", "test")) tested.push_back(test.at("step"));
  EXPECT_EQ(tested, (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TrainerTest, ATestLossThatIsNotFiniteReachesNoGoal) {
  EXPECT_THROW(train("run", {"optimizer.lr=1e30", "eval.every=1", "checkpoint.metric=accuracy",
                             "train.early_stop.threshold=0.0"}),
               TrainingDiverged);
  const RunSummary summary = read_summary(folder_ / "run" / "summary.json").value();
  EXPECT_EQ(summary.status, RunStatus::diverged);
  EXPECT_EQ(summary.step, 1);
  EXPECT_FALSE(summary.test.has_value());
  EXPECT_FALSE(summary.best_step.has_value());
  EXPECT_FALSE(summary.steps_to_99.has_value());
  EXPECT_FALSE(newest_checkpoint(folder_ / "run" / "checkpoints").path.has_value());
}

// The rate is infinite in f32: the update overflows, though loss and gradient are finite.
TEST_F(TrainerTest, NoCheckpointHoldsWhatIsNotFinite) {
  const std::vector<std::string> wild = {"optimizer.lr=1e39", "schedule.kind=constant",
                                         "eval.every=0", "checkpoint.every=1"};
  EXPECT_THAT(
      error_of<TrainingDiverged>([&] { train("run", wild); }),
      AllOf(HasSubstr("step 1: after the update, parameter '"), HasSubstr("no checkpoint")));
  EXPECT_THAT(error_of<TrainingDiverged>([&] { train_with_signal("stopped", wild); }),
              HasSubstr("step 1: after the update, "));
  for (const char* run : {"run", "stopped"}) {
    EXPECT_FALSE(newest_checkpoint(folder_ / run / "checkpoints").path.has_value());
    EXPECT_EQ(read_summary(folder_ / run / "summary.json").value().status, RunStatus::diverged);
  }
}

// On the CPU, which reads every step. Later reads: tests/guarded/step_test.cpp.
TEST_F(TrainerTest, ABadGradientIsNamedByItsStep) {
  const Registries known;
  const fs::path path = folder_ / "run";
  const auto config = config_of(
      kTinyRun,
      {"output.dir=" + path.string(), "train.log_every=100", "eval.every=0", "checkpoint.every=2"},
      known);
  Experiment experiment = build_experiment(*config);
  const std::shared_ptr<LanguageModel> model = experiment.model;
  const auto [name, value] = model->parameters()[3];
  int n_calls = 0;
  Variable(value).add_grad_hook([&n_calls](Variable& parameter) {
    const bool is_step_3 = ++n_calls == 2 * 3;  // two micro-batches a step
    if (is_step_3) parameter.mutable_grad().fill(std::numeric_limits<double>::infinity());
  });
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> quiet(std::tmpfile(), std::fclose);
  Progress progress(quiet.get());
  OneRank alone;
  const RunFolder folder = RunFolder::take(path);
  Trainer trainer(*config, std::move(experiment), folder, {}, known, progress, alone);
  EXPECT_THAT(error_of<TrainingDiverged>([&] { trainer.run(StopSignal()); }),
              AllOf(HasSubstr("step 3: the gradient of '" + name + "' is not finite"),
                    HasSubstr("step-00000002.h5")));
  EXPECT_EQ(n_calls, 2 * 3);
  EXPECT_EQ(read_summary(path / "summary.json").value().step, 2);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-00000002.h5"}));
  const std::vector<float> stopped = value.data().to_vector<float>();
  load_checkpoint(path / "checkpoints" / "step-00000002.h5", tensors_of(*model));
  EXPECT_EQ(stopped, value.data().to_vector<float>());
}

TEST(TrainingRecord, TakesNoBestThatIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto record = TrainingRecord::from_map({{"best_step", 3}, {"best_value", nan}});
  EXPECT_FALSE(record.best.has_value());
  EXPECT_EQ(TrainingRecord::from_map({{"best_step", 3}, {"best_value", 0.5}}).best,
            (BestState{3, 0.5}));
}

TEST_F(TrainerTest, ACheckpointNamesItsInstructionSet) {
  train("run");
  const fs::path newest = newest_checkpoint(folder_ / "run" / "checkpoints").path.value();
  EXPECT_EQ(read_checkpoint_header(newest).instruction_set, instruction_set());
}

TEST_F(TrainerTest, RefusesAFolderWithARun) {
  train("run");
  const std::string before = read_text(folder_ / "run" / "metrics.jsonl");
  EXPECT_THAT(error_of([&] { train("run"); }),
              AllOf(HasSubstr("holds a run"), HasSubstr("--resume auto"), HasSubstr("--out")));
  EXPECT_EQ(read_text(folder_ / "run" / "metrics.jsonl"), before);
}

TEST_F(TrainerTest, ResumeStartsWhereThereIsNothingYet) {
  EXPECT_EQ(train("run", {}, "auto").step, 6);
}

TEST_F(TrainerTest, ResumeRefusesAnotherRun) {
  train("run");
  EXPECT_THAT(error_of([&] { train("run", {"train.seed=2"}, "auto"); }),
              HasSubstr("was made with train.seed = 1, but the configuration says 2"));
  EXPECT_THAT(error_of([&] { train("run", {"task.vocab=40"}, "auto"); }),
              HasSubstr("task.vocab = 32"));
  EXPECT_THAT(
      error_of([&] { train("run", {"task={name: recall, vocab: 32, seq_len: 16}"}, "auto"); }),
      HasSubstr("was made with task.name = mqar, but the configuration says recall"));
}

TEST_F(TrainerTest, BranchesOffFromACheckpoint) {
  train("run");
  const std::string from = (folder_ / "run" / "checkpoints" / "step-00000004.h5").string();
  EXPECT_THAT(error_of([&] { train("run", {}, from); }), HasSubstr("later steps"));
  train("branch", {}, from);
  EXPECT_EQ(metrics("branch", "train").size(), 2u);
  EXPECT_EQ(metrics("branch", "train").back(), metrics("run", "train").back());
  EXPECT_THAT(error_of([&] { train("branch", {}, from); }),
              HasSubstr("holds a run that is not the one of"));
}

TEST_F(TrainerTest, ResumeSkipsABrokenCheckpoint) {
  train("run");
  train("straight");
  const fs::path newest = folder_ / "run" / "checkpoints" / "step-00000006.h5";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  train("run", {}, "auto");
  EXPECT_EQ(metrics("run", "train"), metrics("straight", "train"));
  EXPECT_EQ(read_checkpoint_header(newest).step, 6);
}

// A checkpoint may have been made by anyone, so an impossible record is refused.
TEST_F(TrainerTest, ResumeRefusesARecordThatCannotBe) {
  train("run");
  const fs::path checkpoints = folder_ / "run" / "checkpoints";
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (entry.path().filename() != "step-00000006.h5") fs::remove(entry.path());
  }
  const fs::path path = checkpoints / "step-00000006.h5";
  const std::string good = read_text(path);
  const auto resume_error = [&](const char* name, double value) {
    write_text(path, good);
    alter_checkpoint(path, [&](hid_t file) { hostile::set_number(file, "progress", name, value); });
    return error_of([&] { train("run", {}, "auto"); });
  };
  const auto of_count = [&](const std::string& name, const std::string& value) {
    return path.string() + ": damaged: attribute '" + name + "' of group 'progress' is " + value +
           ", expected a count";
  };
  EXPECT_EQ(resume_error("tokens", 1e300), of_count("tokens", "1e+300"));
  EXPECT_EQ(resume_error("tokens", HUGE_VAL), of_count("tokens", "inf"));
  EXPECT_EQ(resume_error("evaluated_step", 2.5), of_count("evaluated_step", "2.5"));
  EXPECT_EQ(resume_error("best_step", std::nan("")), of_count("best_step", "nan"));
  for (const char* name : {"evaluated_step", "steps_to_99"}) {
    EXPECT_EQ(resume_error(name, 7),
              path.string() + ": damaged: it is of step 6, but tells of step 7");
  }
  EXPECT_EQ(resume_error("steps_to_99", 6), "no error");
}

TEST_F(TrainerTest, ASecondRunCannotUseTheFolder) {
  fs::create_directory(folder_ / "run");
  const FolderLock lock(folder_ / "run");
  EXPECT_THAT(error_of([&] { train("run"); }), HasSubstr("another process is using this folder"));
}

TEST_F(TrainerTest, ResumingNeedsNoMoreMemory) {
  const std::vector<std::string> wide = {"model.d_model=128", "train.max_steps=2"};
  const auto peak_of = [&](const std::string& resume, const std::string& steps) {
    allocator_for({}).release_cache();
    allocator_for({}).reset_peak();
    auto overrides = wide;
    overrides.back() = "train.max_steps=" + steps;
    train("run", overrides, resume);
    return static_cast<double>(allocator_for({}).stats().peak);
  };
  const double fresh = peak_of("", "2");
  EXPECT_LE(peak_of("auto", "4"), 1.05 * fresh);
}

TEST_F(TrainerTest, ASignalEndsTheRunAfterTheStep) {
  const RunSummary summary = train_with_signal("run", {"train.max_steps=100000"});
  EXPECT_EQ(summary.status, RunStatus::interrupted);
  EXPECT_EQ(summary.step, 1);
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-00000001.h5"}));
}

// The pass that was cut short leaves no trace, and the resumed run equals one without a signal.
TEST_F(TrainerTest, ASignalEndsATestPassWhichIsThenRepeated) {
  const std::vector<std::string> settings = {"eval.every=1", "schedule.kind=constant"};
  train("straight", settings);
  RunSummary summary = train_with_signal("run", settings);
  EXPECT_EQ(summary.status, RunStatus::interrupted);
  EXPECT_EQ(summary.step, 1);
  EXPECT_FALSE(summary.test.has_value());
  EXPECT_FALSE(summary.best_step.has_value());
  EXPECT_TRUE(metrics("run", "test").empty());
  EXPECT_EQ(checkpoints("run"), (std::vector<std::string>{"step-00000001.h5"}));

  summary = train_with_signal("run", settings, "auto");  // before the pass is repeated
  EXPECT_EQ(summary.status, RunStatus::interrupted);
  EXPECT_EQ(summary.step, 1);
  EXPECT_TRUE(metrics("run", "test").empty());

  EXPECT_EQ(train("run", settings, "auto").status, RunStatus::finished);
  EXPECT_EQ(metrics("run", "train"), metrics("straight", "train"));
  EXPECT_EQ(metrics("run", "test"), metrics("straight", "test"));
  EXPECT_EQ(measured("run"), measured("straight"));
}

// A kill between the line of a repeated test pass and the next checkpoint repeats it once more.
TEST_F(TrainerTest, ATestPassRepeatedTwiceHasOneLine) {
  const std::vector<std::string> settings = {"eval.every=1"};
  train("straight", settings);
  train_with_signal("run", settings);
  const fs::path log = folder_ / "run" / "metrics.jsonl";
  write_text(log, read_text(log) + metrics("straight", "test")[0].dump() + "\n");
  train("run", settings, "auto");
  EXPECT_EQ(metrics("run", "test"), metrics("straight", "test"));
}

TEST_F(TrainerTest, ASignalInTheLastTestPassLeavesItToTheResumedRun) {
  const std::vector<std::string> goal = {"train.max_steps=1", "train.early_stop.threshold=0.0"};
  const RunSummary straight = train("straight", goal);
  EXPECT_EQ(train_with_signal("run", goal).status, RunStatus::interrupted);
  const RunSummary resumed = train("run", goal, "auto");
  EXPECT_EQ(straight.status, RunStatus::early_stop);
  EXPECT_EQ(resumed.status, RunStatus::early_stop);
  EXPECT_EQ(resumed.test.value().loss_sum, straight.test.value().loss_sum);
  EXPECT_EQ(metrics("run", "test"), metrics("straight", "test"));
  EXPECT_EQ(measured("run"), measured("straight"));
}

TEST_F(TrainerTest, ASignalBeforeTheFirstStepOfABranchSavesTheBranch) {
  train("run", {"eval.every=2"});
  const std::string from = folder_ / "run" / "checkpoints" / "step-00000004.h5";
  const std::vector<std::string> goal = {"eval.every=2", "train.early_stop.threshold=1.0"};
  EXPECT_EQ(train_with_signal("branch", goal, from).step, 4);
  EXPECT_EQ(train("branch", goal, "auto").step, 6);
  EXPECT_EQ(metrics("branch", "train").size(), 2u);
}

TEST_F(TrainerTest, ReportsTheShareBeyondTheResolutionLimit) {
  train("run", {"attention.kind=conformal"});
  EXPECT_TRUE(metrics("run", "train").front().contains("share_beyond_resolution"));
  EXPECT_TRUE(metrics("run", "test").front().contains("share_beyond_resolution"));
}

}  // namespace
}  // namespace mobius::trainer_test
