// Signals, and readers that close the output, lose nothing.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>

#include <array>
#include <optional>
#include <random>

#include "tests/data/some_text.h"
#include "tests/e2e/run_test.h"
#include "tests/e2e/signal_masks.h"

namespace mobius::signals_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A run without warm-up and with a constant rate, which may end after any step.
constexpr const char* kRun = R"(
task: {name: mqar, vocab: 64, seq_len: 16, n_pairs: 4, n_test: 32}
model: {d_model: 16, n_layers: 2, n_heads: 2, dropout: 0.1}
schedule: {kind: constant, warmup_steps: 0}
train: {max_steps: 4, batch_size: 8, threads: 1, log_every: 1}
eval: {every: 2}
checkpoint: {every: 2}
)";

const std::vector<std::string> kWithoutEnd = {"train.max_steps=100000000", "eval.every=0",
                                              "checkpoint.every=0"};

class SignalTest : public RunTest {
 protected:
  void SetUp() override { write_text(config_, kRun); }

  // Starts an endless run and waits for its first steps.
  std::unique_ptr<Process> start(const std::string& run, const Surroundings& around = {},
                                 const std::vector<std::string>& settings = kWithoutEnd) const {
    auto process =
        std::make_unique<Process>(mobius_command(train_arguments(run, settings)), around);
    EXPECT_TRUE(wait_until([&] { return lines_in(run) >= 3 || process->has_ended(); }));
    return process;
  }
  // Expects that the run was saved where it stopped, and resumes from there as if uninterrupted.
  void expect_saved(const std::string& run) {
    const fs::path folder = folder_ / run;
    EXPECT_THAT(read_text(folder / "summary.json"), HasSubstr("\"interrupted\""));
    const std::vector<fs::path> steps = step_checkpoints(folder / "checkpoints");
    ASSERT_EQ(steps.size(), 1u);
    const std::int64_t step = read_checkpoint_header(steps[0]).step;
    EXPECT_EQ(metrics_in(folder).back().at("step"), step);
    const std::vector<std::string> more = {"train.max_steps=" + std::to_string(step + 3),
                                           "eval.every=0"};
    auto resumed = more;
    resumed.insert(resumed.end(), {"--resume", "auto"});
    train(run, resumed);
    train(run + "-straight", more);
    expect_same_run(folder_ / (run + "-straight"), folder, step + 3);
  }
};

// ---- the threads that signals reach

TEST_F(SignalTest, ReachOneThreadAndItDoesNotCompute) {
  for (const int threads : {1, 2}) {
    auto settings = kWithoutEnd;
    settings.push_back("train.threads=" + std::to_string(threads));
    // Wide enough for two threads per step.
    settings.insert(settings.end(), {"model.d_model=64", "train.batch_size=64"});
    const std::string run = "threads-" + std::to_string(threads);
    const auto process = start(run, {}, settings);
    const Threads found = threads_of(process->pid());
    EXPECT_EQ(found.open_to_signals, 1);
    EXPECT_EQ(found.in_all, threads + 2);  // one for signals, and one that makes batches
    process->kill(SIGTERM);
    EXPECT_EQ(process->wait().exit_code, 4);
  }
}

// ---- the effect of each signal

TEST_F(SignalTest, FourOfThemSaveAndStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    const std::string run = "stopped-by-" + std::to_string(signal);
    // A shell ignores SIGINT in background jobs, but an explicit one must have an effect.
    const auto process = start(run, {.ignored_signals = {SIGINT}});
    process->kill(signal);
    const Outcome outcome = process->wait();
    EXPECT_EQ(outcome.exit_code, 4) << signal << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("interrupted and saved"));
    expect_saved(run);
  }
}

TEST_F(SignalTest, OthersHaveTheirUsualEffect) {
  for (const int signal : {SIGQUIT, SIGUSR2, SIGALRM, SIGPROF}) {
    const auto process = start("run-" + std::to_string(signal));
    process->kill(signal);
    EXPECT_EQ(process->wait().signal, signal);
  }
}

TEST_F(SignalTest, NohupIsRespected) {
  const auto process = start("run", {.ignored_signals = {SIGHUP}});
  process->kill(SIGHUP);
  const std::size_t before = lines_in("run");
  EXPECT_TRUE(wait_until([&] { return lines_in("run") > before + 20 || process->has_ended(); }));
  EXPECT_FALSE(process->has_ended());
  process->kill(SIGTERM);
  EXPECT_EQ(process->wait().exit_code, 4);
}

// `timeout` signals the process and its group.
TEST_F(SignalTest, TwoAtOnceAreOne) {
  const auto process = start("run");
  for (int i = 0; i < 20; ++i) {
    process->kill(i % 2 == 0 ? SIGTERM : SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(process->wait().exit_code, 4);
  expect_saved("run");
}

// A step of this run takes minutes.
TEST_F(SignalTest, ASecondOneAfterASecondEndsAtOnce) {
  Process process(
      mobius_command(train_arguments("slow", {"task.seq_len=512", "task.vocab=1024",
                                              "train.batch_size=2048", "model.d_model=64"})));
  ASSERT_TRUE(wait_until([&] { return process.out().find("parameters") != std::string::npos; }));
  process.kill(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  process.kill(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_FALSE(process.has_ended());
  process.kill(SIGINT);
  EXPECT_EQ(process.wait().signal, SIGINT);
}

// Evaluating this many test sequences takes minutes, and there is nothing to save.
TEST_F(SignalTest, EndACommandThatCannotBeStoppedHalfWay) {
  const auto training = start("run", {}, {"task.n_test=3000000", "eval.every=3"});
  training->kill(SIGTERM);
  EXPECT_EQ(training->wait().exit_code, 4);
  Process process(
      mobius_command({"eval", step_checkpoints(folder_ / "run" / "checkpoints").at(0)}));
  ASSERT_TRUE(wait_until([&] { return threads_of(process.pid()).in_all > 1; }));
  process.kill(SIGINT);
  EXPECT_EQ(process.wait().signal, SIGINT);
}

// ---- at any moment

struct RandomRun {
  const char* name;
  const char* config;
  std::int64_t last_step;
  bool reads_text;
};

// oneDNN's products take most of the time of both.
const std::vector<RandomRun> kRandomRuns = {{"lm", R"(
task: {name: lm, text: text.txt, tokenizer: char, seq_len: 32}
model: {d_model: 128, n_layers: 2, n_heads: 4}
train: {max_steps: 40, batch_size: 8, log_every: 1}
eval: {every: 10}
checkpoint: {every: 10}
)",
                                             40, true},
                                            {"recall", R"(
task: {name: mqar, vocab: 256, seq_len: 32, n_pairs: 4, n_test: 32}
model: {d_model: 128, n_layers: 1, n_heads: 2, dropout: 0.1}
attention: {kind: conformal}
train: {max_steps: 80, batch_size: 8, accumulation_steps: 2, log_every: 1}
eval: {every: 20}
checkpoint: {every: 20}
)",
                                             80, false}};

class RandomSignals : public SignalTest {
 protected:
  // Trains one run after another, stopped at random moments and resumed, until `count` stops. Each
  // run must end like `straight`.
  void stop_at_random(const RandomRun& kind, int threads, int count) {
    write_text(config_, kind.config);
    write_text(folder_ / "text.txt", some_text(300));
    std::vector<std::string> settings = {"train.threads=" + std::to_string(threads)};
    if (kind.reads_text) settings.push_back("task.text=" + (folder_ / "text.txt").string());
    const std::string name = fmt::format("{}-{}", kind.name, threads);
    train(name, settings);
    std::mt19937 random(static_cast<std::mt19937::result_type>(threads));
    int stops = 0;
    for (int round = 0; stops < count; ++round) {
      ASSERT_LT(round, count) << "runs end before they can be stopped";
      const std::string run = fmt::format("{}-stopped-{}", name, round);
      while (true) {
        const int exit_code = live(run, settings, stops < count, random);
        if (exit_code == 0) break;
        ASSERT_EQ(exit_code, 4) << run;
        ++stops;
      }
      expect_same_run(folder_ / name, folder_ / run, kind.last_step);
      fs::remove_all(folder_ / run);
    }
  }

 private:
  // Runs one life, to its end or until a signal. A signal that arrives before the program handles
  // signals may end it; nothing can be lost then.
  int live(const std::string& run, std::vector<std::string> settings, bool is_to_be_stopped,
           std::mt19937& random) const {
    constexpr std::array signals = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    settings.insert(settings.end(), {"--resume", "auto"});
    const std::size_t before = lines_in(run);
    Process process(mobius_command(train_arguments(run, settings)));
    if (is_to_be_stopped) {
      // Three in four signals hit a run that trains; the others may hit its start.
      if (random() % 4 != 0) {
        wait_until([&] { return lines_in(run) > before || process.has_ended(); });
      } else {
        wait_until([&] { return !process.out().empty() || process.has_ended(); });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 40000));
      process.kill(signals.at(random() % signals.size()));
    }
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.signal, 0) << run << "\n" << outcome.out << outcome.err;
    return outcome.exit_code;
  }
};

TEST_F(RandomSignals, LoseNothingOfALanguageModelOnOneThread) {
  stop_at_random(kRandomRuns[0], 1, 50);
}
TEST_F(RandomSignals, LoseNothingOfALanguageModelOnTwoThreads) {
  stop_at_random(kRandomRuns[0], 2, 50);
}
TEST_F(RandomSignals, LoseNothingOfConformalRecallOnOneThread) {
  stop_at_random(kRandomRuns[1], 1, 50);
}
TEST_F(RandomSignals, LoseNothingOfConformalRecallOnTwoThreads) {
  stop_at_random(kRandomRuns[1], 2, 50);
}

// ---- a reader that leaves, or does not read

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw Error("pipe2 failed");
    reader = ends[0];
    writer = ends[1];
    ::fcntl(writer, F_SETPIPE_SZ, 16384);  // soon full
  }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_reader() { close_once(reader); }
  void close_writer() { close_once(writer); }

  int reader = -1;
  int writer = -1;

 private:
  static void close_once(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

TEST_F(SignalTest, AClosedPipeSavesAndStops) {
  Pipe pipe;
  const auto process = start("run", {.standard_output = pipe.writer});
  pipe.close_reader();
  const Outcome outcome = process->wait();
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  EXPECT_EQ(outcome.err, "mobius: stopped: nobody reads standard output\n");
  expect_saved("run");
}

// The run waits for its reader until it is asked to stop.
TEST_F(SignalTest, SaveAndStopARunWhoseOutputNobodyReads) {
  Pipe pipe;
  const auto process = start("run", {.standard_output = pipe.writer});
  std::size_t before = 0;
  EXPECT_TRUE(wait_until([&] {  // the pipe is full if no line comes for a while
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return std::exchange(before, lines_in("run")) == lines_in("run");
  }));
  process->kill(SIGTERM);
  EXPECT_EQ(process->wait().exit_code, 4);
  expect_saved("run");
}

// The run's terminal is closed. The exit code is that of the signal, or of a failed write if the
// signal is ignored.
TEST_F(SignalTest, AClosedTerminalSavesAndStops) {
  for (const bool is_hangup_ignored : {false, true}) {
    const std::string run = is_hangup_ignored ? "write" : "hangup";
    std::vector<std::string> command = mobius_command(train_arguments(run, kWithoutEnd));
    std::vector<char*> pointers;
    for (std::string& argument : command) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    std::fflush(nullptr);
    int terminal = -1;
    const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      std::signal(SIGHUP, is_hangup_ignored ? SIG_IGN : SIG_DFL);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    EXPECT_TRUE(wait_until([&] { return lines_in(run) >= 3; }));
    ::close(terminal);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 4) << run;
    expect_saved(run);
  }
}

// ---- output that cannot be written

class FullOutput : public RunTest {
 protected:
  void SetUp() override { write_text(config_, kRun); }

  // Runs a command with its standard output redirected by `redirection`.
  static Outcome mobius_to(const std::string& redirection, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"sh", "-c", "exec '" MOBIUS_BINARY "' \"$@\" " + redirection, "sh"});
    return Process(std::move(arguments)).wait();
  }
};

TEST_F(FullOutput, IsAFailureOfEveryCommand) {
  const std::string run = folder_ / "run", best = folder_ / "run" / "checkpoints" / "best.h5";
  const std::string text_run = folder_ / "text-run", text_config = folder_ / "text.yaml";
  train("run");
  write_text(folder_ / "text.txt", some_text(300));
  write_text(text_config,
             "task: {name: lm, tokenizer: char, seq_len: 16}\n"
             "model: {d_model: 16, n_layers: 1, n_heads: 2}\ntrain: {max_steps: 1}\n");
  ASSERT_EQ(mobius({"train", text_config, "task.text=" + (folder_ / "text.txt").string(), "--out",
                    text_run})
                .exit_code,
            0);
  write_text(folder_ / "compare.yaml", "base: run.yaml\nvariations: [{name: a}]\n");
  const std::string comparison = folder_ / "compare.yaml", tensors = folder_ / "all.safetensors";
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"--version"},
      {"train", "--help"},
      {"config", "help"},
      {"config", "show", config_},
      {"inspect", best},
      {"eval", best},
      {"eval", best, "--json"},
      {"generate", text_run + "/checkpoints/best.h5", "--tokens", "1000000000"},
      {"export", best, tensors},
      {"import", config_, tensors, folder_ / "imported.h5"},
      {"watch", run},
      {"watch", run, "--once"},
      {"compare", comparison, "--out", folder_ / "compared", "--list"},
      {"compare", comparison, "--out", folder_ / "compared"},
      {"compare", "--report", folder_ / "compared"},
      {"train", config_, "--out", folder_ / "full"}};
  for (const auto& command : commands) {
    const Outcome outcome = mobius_to("> /dev/full", command);
    EXPECT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(command);
    EXPECT_THAT(outcome.err,
                HasSubstr("mobius: error: standard output cannot be written: No space left"))
        << ::testing::PrintToString(command);
  }
  EXPECT_THAT(read_text(folder_ / "full" / "summary.json"), HasSubstr("\"finished\""));
}

// The first file that is opened must not take the descriptor of standard output.
TEST_F(FullOutput, ThatIsClosedIsAFailureAndNotWrittenIntoAFile) {
  const Outcome outcome = mobius_to(">&-", {"train", config_, "--out", folder_ / "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output cannot be written: Bad file descriptor"));
  train("straight");
  expect_same_run(folder_ / "straight", folder_ / "run", 4);
}

// Like a pipe into `head` that has finished.
TEST_F(FullOutput, ThatIsAClosedPipeIsFailedInSilence) {
  Pipe pipe;
  pipe.close_reader();
  const Outcome outcome =
      Process(mobius_command({"config", "help"}), {.standard_output = pipe.writer}).wait();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, IsEmpty());
}

// The message is lost, but the exit code is right.
TEST_F(FullOutput, OfErrorsChangesNoExitCode) {
  EXPECT_EQ(mobius_to("2> /dev/full", {"train", folder_ / "none.yaml"}).exit_code, 2);
  write_text(folder_ / "compare.yaml", "base: run.yaml\nvariations: [{name: a}]\n");
  const Outcome outcome = mobius_to(
      "2> /dev/full", {"compare", folder_ / "compare.yaml", "--out", folder_ / "compared"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
}

}  // namespace
}  // namespace mobius::signals_test
