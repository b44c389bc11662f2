// Several ranks train the same model as one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "tests/distributed/uneven_task.h"
#include "tests/e2e/run_comparison.h"
#include "tests/e2e/signal_masks.h"

namespace mobius::ranks_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRun = R"(
task: {name: uneven}
model: {d_model: 16, n_layers: 2, n_heads: 2}
schedule: {kind: constant, warmup_steps: 2}
train: {max_steps: 50, batch_size: 12, threads: 1, log_every: 1}
eval: {every: 20}
checkpoint: {every: 25}
)";

class RanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(MOBIUS_MPIRUN).empty()) GTEST_SKIP() << "there is no mpirun";
    write_text(config_, kRun);
  }

  // Allows more ranks than cores and any user; waiting ranks yield the cores to the others.
  Surroundings around_ranks(
      const std::vector<std::pair<std::string, std::string>>& more = {}) const {
    Surroundings around = {.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                           {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                           {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                           {"OMP_NUM_THREADS", "1"},
                                           {"MPIEXEC_TIMEOUT", "300"},  // a minute if idle
                                           {"TMPDIR", folder_.path().string()}}};
    around.environment.insert(around.environment.end(), more.begin(), more.end());
    return around;
  }
  static std::vector<std::string> command(int n_ranks, const std::string& program,
                                          const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {program};
    if (n_ranks > 1) words = {MOBIUS_MPIRUN, "-n", std::to_string(n_ranks), program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
  std::vector<std::string> train_arguments(const std::string& run,
                                           const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"train", config_, "--out", (folder_ / run).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Outcome try_train(int n_ranks, const std::string& run,
                    const std::vector<std::string>& more = {}) const {
    return Process(command(n_ranks, MOBIUS_RANK_PROGRAM, train_arguments(run, more)),
                   around_ranks())
        .wait();
  }
  void train(int n_ranks, const std::string& run, const std::vector<std::string>& more = {}) const {
    const Outcome outcome = try_train(n_ranks, run, more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }

  // Starts two ranks on an endless run and waits for its first lines of metrics.
  std::unique_ptr<Process> start_long_run(const std::string& run) const {
    auto process = std::make_unique<Process>(
        command(
            2, MOBIUS_RANK_PROGRAM,
            train_arguments(run, {"distributed.zero_stage=1", "train.max_steps=1000000",
                                  "train.log_every=100", "eval.every=0", "checkpoint.every=0"})),
        around_ranks());
    EXPECT_TRUE(wait_until(
        [&] { return lines_of(read_text(folder_ / run / "metrics.jsonl")).size() >= 2; }));
    return process;
  }

  const Registries known_ = registries_with_uneven_task();
  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
};

// Expects the losses of two runs to agree within `tolerance`, step by step and test by test.
void expect_same_losses(const fs::path& a, const fs::path& b, double tolerance) {
  const auto lines = metrics_in(a), others = metrics_in(b);
  ASSERT_EQ(lines.size(), others.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(lines[i].at("step"), others[i].at("step"));
    ASSERT_EQ(lines[i].at("split"), others[i].at("split"));
    const auto loss = lines[i].at("loss").get<double>();
    EXPECT_NEAR(others[i].at("loss").get<double>(), loss, tolerance * loss) << lines[i].dump();
  }
}

TEST_F(RanksTest, PassTheirOwnTests) {
  for (const int n_ranks : {1, 2, 3, 4}) {
    const Outcome outcome =
        Process(command(n_ranks, MOBIUS_RANK_TESTS, {"--gtest_brief=1"}), around_ranks()).wait();
    EXPECT_EQ(outcome.exit_code, 0) << n_ranks << " ranks\n" << outcome.out << outcome.err;
  }
}

TEST_F(RanksTest, OneTwoAndFourLoseTheSame) {
  train(1, "one");
  EXPECT_EQ(metrics_in(folder_ / "one", "train").size(), 50u);
  for (const int n_ranks : {2, 4}) {
    const std::string run = "ranks-" + std::to_string(n_ranks);
    train(n_ranks, run);
    expect_same_losses(folder_ / "one", folder_ / run, 1e-6);
    train(n_ranks, run + "-again");
    expect_same_run(folder_ / run, folder_ / (run + "-again"), 50, known_);
    train(n_ranks, run + "-zero", {"distributed.zero_stage=1"});
    EXPECT_EQ(metrics_in(folder_ / run), metrics_in(folder_ / (run + "-zero")));
  }
}

// Three ranks have two micro-batches of two sequences each; the test set has 7 batches.
TEST_F(RanksTest, AnOddNumberEvaluatesUnevenBatches) {
  const std::vector<std::string> settings = {"train.accumulation_steps=2", "task.n_test=42",
                                             "train.max_steps=10", "eval.every=2"};
  train(1, "one", settings);
  train(3, "three", settings);
  expect_same_losses(folder_ / "one", folder_ / "three", 1e-6);
}

TEST_F(RanksTest, AnyNumberGoesOnFromACheckpoint) {
  train(1, "straight");
  for (const auto& [before, after] : {std::pair{2, 1}, {2, 4}, {1, 4}}) {
    const std::string run = fmt::format("{}-then-{}", before, after);
    train(before, run, {"train.max_steps=25", "distributed.zero_stage=1", "eval.every=0"});
    train(after, run, {"--resume", "auto", "distributed.zero_stage=1"});
    const auto lines = metrics_in(folder_ / run, "train");
    const auto expected = metrics_in(folder_ / "straight", "train");
    ASSERT_EQ(lines.size(), 50u);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto loss = expected[i].at("loss").get<double>();
      EXPECT_NEAR(lines[i].at("loss").get<double>(), loss, 1e-6 * loss) << run << " " << i;
    }
  }
}

// With an equal number of ranks, the resumed run equals the uninterrupted one bit for bit.
TEST_F(RanksTest, TheSameNumberGoesOnToTheSameBits) {
  const std::vector<std::string> settings = {"distributed.zero_stage=1", "model.dropout=0.1"};
  train(2, "straight", settings);
  train(2, "halves", {"distributed.zero_stage=1", "model.dropout=0.1", "train.max_steps=25"});
  train(2, "halves", {"distributed.zero_stage=1", "model.dropout=0.1", "--resume", "auto"});
  EXPECT_EQ(metrics_in(folder_ / "straight", "train"), metrics_in(folder_ / "halves", "train"));
  EXPECT_TRUE(state_in(step_file(folder_ / "straight", 50), known_) ==
              state_in(step_file(folder_ / "halves", 50), known_));
}

// Only the root reads the folder, and all ranks continue alike.
TEST_F(RanksTest, ABranchGoesOnFromAFolderWithItsBestState) {
  train(2, "straight", {"distributed.zero_stage=1", "eval.every=5", "train.max_steps=30"});
  train(2, "run", {"distributed.zero_stage=1", "eval.every=5", "train.max_steps=25"});
  train(2, "branch",
        {"distributed.zero_stage=1", "eval.every=5", "train.max_steps=30", "--resume",
         (folder_ / "run").string()});
  const auto record = [&](const std::string& run) {
    auto values = read_checkpoint_header(step_file(folder_ / run, 30)).progress;
    values.erase("train_seconds");
    return values;
  };
  EXPECT_EQ(record("branch"), record("straight"));
  EXPECT_EQ(static_cast<double>(
                read_checkpoint_header(best_checkpoint(folder_ / "branch" / "checkpoints")).step),
            record("branch").at("best_step"));
}

std::vector<std::int64_t> numbers_in(const fs::path& path) {
  std::vector<std::int64_t> numbers;
  for (const std::string& line : lines_of(read_text(path))) numbers.push_back(std::stoll(line));
  return numbers;
}

TEST_F(RanksTest, ReadEachSequenceOnce) {
  const auto words =
      command(4, MOBIUS_RANK_PROGRAM, train_arguments("run", {"train.max_steps=10"}));
  const Outcome outcome =
      Process(words, around_ranks({{"UNEVEN_LOG", (folder_ / "read").string()}})).wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < 4; ++rank) {
    const auto own = numbers_in(folder_ / ("read-" + std::to_string(rank)));
    EXPECT_EQ(own.size(), 30u);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(120);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  }
  return files;
}

TEST_F(RanksTest, LeaveTheFilesOfOneRunAndSpeakOnce) {
  const std::vector<std::string> settings = {"train.max_steps=4", "checkpoint.every=2",
                                             "eval.every=2", "distributed.zero_stage=1"};
  train(1, "one", settings);
  const Outcome outcome = try_train(4, "four", settings);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(files_below(folder_ / "four"), files_below(folder_ / "one"));
  EXPECT_EQ(metrics_in(folder_ / "four").size(), metrics_in(folder_ / "one").size());
  EXPECT_THAT(outcome.out, HasSubstr("4 ranks of 1 thread\n"));
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_ / "four" / "summary.json")).at("ranks"), 4);
  std::size_t said = 0;
  for (const std::string& line : lines_of(outcome.out)) said += line == "step 4: finished";
  EXPECT_EQ(said, 1u) << outcome.out;
}

TEST_F(RanksTest, TestACheckpointTogether) {
  train(2, "run", {"train.max_steps=3"});
  const std::vector<std::string> arguments = {
      "eval", (folder_ / "run" / "checkpoints" / "best.h5").string(), "--json"};
  const auto eval = [&](int n_ranks) {
    return Process(command(n_ranks, MOBIUS_RANK_PROGRAM, arguments), around_ranks()).wait();
  };
  const Outcome one = eval(1), three = eval(3);
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(three.exit_code, 0) << three.err;
  EXPECT_EQ(nlohmann::json::parse(three.out), nlohmann::json::parse(one.out));
}

// ---- failures

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Sequence 250 is in step 21.
TEST_F(RanksTest, OneThatFailsEndsAllAndLeavesTheCheckpoint) {
  for (const std::string how : {"exception", "kill"}) {
    const Stopwatch watch;
    const auto words =
        command(4, MOBIUS_RANK_PROGRAM, train_arguments(how, {"checkpoint.every=10"}));
    const Outcome outcome = Process(words, around_ranks({{"UNEVEN_FAILURE", how}})).wait();
    EXPECT_LT(watch.seconds(), 10);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(
        outcome.err,
        HasSubstr(how == "kill" ? "signal 9" : "mobius: error: rank 1: the task has had enough\n"));
    EXPECT_GE(read_checkpoint_header(step_file(folder_ / how, 10)).step, 10);
    train(4, how, {"--resume", "auto", "checkpoint.every=10", "train.max_steps=25"});
  }
}

TEST_F(RanksTest, ARefusedConfigurationIsNamedOnce) {
  const Stopwatch watch;
  const Outcome outcome = try_train(4, "run", {"train.batchsize=4"});
  EXPECT_LT(watch.seconds(), 10);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  std::size_t said = 0;
  for (const std::string& line : lines_of(outcome.err)) said += line.starts_with("mobius: error: ");
  EXPECT_EQ(said, 1u) << outcome.err;
}

TEST_F(RanksTest, NeedASequenceEach) {
  const Outcome outcome = try_train(4, "run", {"train.batch_size=3"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("train.batch_size: expected at least 4 ranks x 1"));
}

TEST_F(RanksTest, ADivergedRunEndsWithOneMessage) {
  const Outcome outcome = try_train(2, "run",
                                    {"optimizer={name: sgd, lr: 1.0e+30}",
                                     "train.clip_grad_norm=null", "schedule.warmup_steps=0"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  std::size_t said = 0;
  for (const std::string& line : lines_of(outcome.err)) said += line.starts_with("mobius: error: ");
  EXPECT_EQ(said, 1u) << outcome.err;
  EXPECT_THAT(read_text(folder_ / "run" / "summary.json"), HasSubstr("\"diverged\""));
}

TEST_F(RanksTest, OtherCommandsRunAlone) {
  const Outcome outcome =
      Process(command(2, MOBIUS_BINARY, {"config", "help"}), around_ranks()).wait();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("only train and eval run on several ranks"));
}

TEST_F(RanksTest, VariablesThatContradictTheLauncherAreRefused) {
  const Surroundings around = around_ranks({{"WORLD_SIZE", "4"}, {"RANK", "0"}});
  const auto words = command(2, MOBIUS_RANK_PROGRAM, train_arguments("run", {}));
  const Outcome outcome = Process(words, around).wait();
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("two launchers contradict each other"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));

  const auto alone = command(1, MOBIUS_RANK_PROGRAM, train_arguments("run", {}));
  const Outcome torchrun = Process(alone, around).wait();
  EXPECT_EQ(torchrun.exit_code, 2);
  EXPECT_THAT(torchrun.err, HasSubstr("WORLD_SIZE=4, but no MPI launcher started this process"));
}

// ---- signals

// Returns the processes of this user whose command line contains `text`.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    std::string words = read_text(entry.path() / "cmdline");
    std::replace(words.begin(), words.end(), '\0', ' ');
    if (words.starts_with(MOBIUS_RANK_PROGRAM) && words.find(text) != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

// MPI's handlers and threads do not change that.
TEST_F(RanksTest, SignalsReachOneThreadOfEach) {
  const auto process = start_long_run("run");
  const std::vector<pid_t> ranks = processes_with((folder_ / "run").string());
  EXPECT_EQ(ranks.size(), 2u);
  for (const pid_t rank : ranks) {
    const Threads threads = threads_of(rank);
    EXPECT_EQ(threads.open_to_signals, 1);
    EXPECT_GT(threads.in_all, 3);  // including those of MPI
  }
  process->kill(SIGUSR1);
  EXPECT_EQ(process->wait().exit_code, 4);
}

struct Signalled {
  const char* run;
  int signal;
  bool to_mpirun;
};

// The signal goes to mpirun, which passes it on, or to one rank. The output is short: mpirun reads
// none while it ends the ranks, and a rank that cannot write waits.
TEST_F(RanksTest, ASignalSavesAndStopsAllAtTheSameStep) {
  for (const auto& [run, signal, to_mpirun] :
       {Signalled{"all-usr1", SIGUSR1, true}, {"one", SIGTERM, false}, {"hup", SIGHUP, false}}) {
    const auto process = start_long_run(run);
    if (to_mpirun) {
      process->kill(signal);
    } else {
      const std::vector<pid_t> ranks = processes_with((folder_ / run).string());
      ASSERT_EQ(ranks.size(), 2u);
      ::kill(ranks.back(), signal);
    }
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(read_text(folder_ / run / "summary.json"), HasSubstr("\"interrupted\""))
        << run << outcome.out << outcome.err;
    const auto steps = step_checkpoints(folder_ / run / "checkpoints");
    ASSERT_EQ(steps.size(), 1u);
    const std::int64_t step = read_checkpoint_header(steps[0]).step;
    EXPECT_LT(step, 1000000);
    train(2, run,
          {"distributed.zero_stage=1", "eval.every=0", "--resume", "auto",
           "train.max_steps=" + std::to_string(step + 2)});
  }
}

// mpirun passes SIGTERM on and kills the ranks a second later, even if they are saving. All
// existing files must be complete.
TEST_F(RanksTest, SigtermToTheLauncherLeavesNothingBroken) {
  const auto process = start_long_run("all");
  process->kill(SIGTERM);
  EXPECT_NE(process->wait().exit_code, 0);  // the exit code of mpirun
  const NewestCheckpoint newest = newest_checkpoint(folder_ / "all" / "checkpoints");
  EXPECT_THAT(newest.skipped, ::testing::IsEmpty());
  const std::int64_t step = newest.path ? read_checkpoint_header(*newest.path).step : 0;
  train(2, "all",
        {"distributed.zero_stage=1", "eval.every=0", "--resume", "auto",
         "train.max_steps=" + std::to_string(step + 2)});
}

// The default suits every test run; MOBIUS_RANK_KILLS=60 in the environment asks for more.
int rank_kills() {
  const char* asked = std::getenv("MOBIUS_RANK_KILLS");
  return asked == nullptr ? 16 : std::atoi(asked);
}

// kill -9 hits one of the ranks or mpirun at random moments of a run that is resumed each time.
TEST_F(RanksTest, KilledOnesLoseNothing) {
  const std::vector<std::string> settings = {"distributed.zero_stage=1", "train.max_steps=400",
                                             "checkpoint.every=3"};
  train(2, "straight", settings);
  auto going_on = settings;
  going_on.insert(going_on.end(), {"--resume", "auto"});
  const fs::path run = folder_ / "killed";
  const auto lines = [&run] { return lines_of(read_text(run / "metrics.jsonl")).size(); };
  std::mt19937 random(7);
  for (int kills = 0; kills < rank_kills();) {
    const std::size_t before = lines();
    Process launcher(command(2, MOBIUS_RANK_PROGRAM, train_arguments("killed", going_on)),
                     around_ranks());
    const auto ranks = [&run] { return processes_with(run.string()); };
    wait_until([&] { return lines() != before || launcher.has_ended(); });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    const std::vector<pid_t> alive = ranks();
    const std::size_t victim = random() % 3;
    if (victim < alive.size()) {
      ::kill(alive[victim], SIGKILL);
    } else {
      launcher.kill(SIGKILL);
    }
    const Outcome outcome = launcher.wait();
    if (outcome.exit_code == 0) fs::remove_all(run);  // the run finished: start again
    kills += outcome.exit_code != 0;
    EXPECT_TRUE(wait_until([&] { return ranks().empty(); })) << "ranks outlive the launcher";
    EXPECT_THAT(newest_checkpoint(run / "checkpoints").skipped, ::testing::IsEmpty());
  }
  train(2, "killed", going_on);
  expect_same_run(folder_ / "straight", run, 400, known_);
}

}  // namespace
}  // namespace mobius::ranks_test
