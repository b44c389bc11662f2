// The commands, their messages and their exit codes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/run_comparison.h"

namespace mobius::command_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandTest : public ::testing::Test {
 protected:
  void SetUp() override { write_text(config_, kTinyRun); }

  Outcome train(const std::vector<std::string>& more = {}, const Surroundings& around = {}) {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / "run"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mobius(arguments, around);
  }
  // Expects one line from the program itself.
  void expect_error(const Outcome& outcome, int exit_code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  std::string checkpoint() const { return step_file(folder_ / "run", 6).string(); }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "tiny.yaml";
};

TEST_F(CommandTest, VersionAndHelp) {
  const Outcome version = mobius({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, StartsWith("mobius "));
  EXPECT_THAT(mobius({"--help"}).out, AllOf(HasSubstr("Exit codes"), HasSubstr("Example")));
  for (const char* command : {"train", "eval", "inspect", "config", "compare"}) {
    const Outcome help = mobius({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("mobius " + std::string(command) + " ")) << command;
  }
}

TEST_F(CommandTest, WrongCommandLines) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{}, {"trian"}, {"train"}, {"eval", "--jsno", "x"}}) {
    const Outcome outcome = mobius(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, StartsWith("mobius: error: "));
  }
}

TEST_F(CommandTest, MisspeltCommandsAndOptions) {
  expect_error(mobius({"evall", "x.h5"}), 2, "unknown command 'evall'; did you mean 'eval'?");
  expect_error(mobius({"help"}), 2, "unknown command 'help'; known: train, eval, ");
  expect_error(mobius({"config", "shwo", config_}), 2,
               "unknown command 'shwo'; did you mean 'show'?");
  expect_error(mobius({"eval", "--jsno", "x"}), 2,
               "unknown option '--jsno'; did you mean '--json'");
  expect_error(train({"--rsume=auto"}), 2, "unknown option '--rsume'; did you mean '--resume'?");
  expect_error(mobius({"--verison"}), 2, "unknown option '--verison'; did you mean '--version'?");
  EXPECT_EQ(mobius({"evall", "--help"}).exit_code, 0);
}

TEST_F(CommandTest, ErrorsCannotSteerTheTerminal) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"\x1b[2J"},
                                                    {"eval", "a", "\x1b[2J"},
                                                    {"eval", "\x1b[2J.h5"},
                                                    {"train", config_, "model.\x1b[2J=1"},
                                                    {"train", "\x1b[2J.yaml"}}) {
    const Outcome outcome = mobius(arguments);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr("\\x1b[2J")));
    EXPECT_EQ(outcome.err.find('\x1b'), std::string::npos) << outcome.err;
  }
}

TEST_F(CommandTest, ACheckpointIsNoConfiguration) {
  ASSERT_EQ(train().exit_code, 0);
  expect_error(mobius({"config", "show", checkpoint()}), 2, "is not a text file: byte 0x");
}

TEST_F(CommandTest, MissingFiles) {
  expect_error(mobius({"train", folder_ / "absent.yaml"}), 2, "absent.yaml");
  expect_error(mobius({"eval", folder_ / "absent.h5"}), 1, "absent.h5: no such file");
  expect_error(mobius({"inspect", folder_ / "absent.h5"}), 1, "absent.h5: no such file");
  expect_error(train({"--resume", folder_ / "absent.h5"}), 1, "absent.h5: no such file");
}

TEST_F(CommandTest, MisspeltKeys) {
  write_text(config_, std::string(kTinyRun) + "\nschedule: {warmup_step: 3}\n");
  expect_error(train(), 2, "tiny.yaml:8:12: schedule.warmup_step: unknown key; did you mean");
  write_text(config_, kTinyRun);
  expect_error(
      train({"optimizer.lrr=1"}), 2,
      "override optimizer.lrr=1: optimizer.lrr: unknown key; did you mean 'optimizer.lr'?");
  expect_error(train({"optimizer.lr=fast"}), 2, "optimizer.lr");
  expect_error(train({"optimizer.lr"}), 2, "optimizer.lr");
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "a wrong configuration starts nothing";
}

TEST_F(CommandTest, AFolderThatIsNotEmpty) {
  EXPECT_EQ(train().exit_code, 0);
  expect_error(train(), 2, "holds a run; continue it by --resume auto");
}

TEST_F(CommandTest, OneFolderIsNamedOnce) {
  for (const std::string& both : {"output.dir=" + (folder_ / "b").string(),
                                  "output={dir: " + (folder_ / "b").string() + "}"}) {
    expect_error(train({both}), 2, "output.dir is given, too; name the folder by one of them");
    expect_error(mobius({"compare", config_, "--out", folder_ / "run", both}), 2,
                 "output.dir is given, too");
  }
  EXPECT_FALSE(fs::exists(folder_ / "run") || fs::exists(folder_ / "b"));
  EXPECT_EQ(train({"output.tensorboard=false"}).exit_code, 0);
}

TEST_F(CommandTest, DivergenceHasItsOwnExitCode) {
  expect_error(train({"optimizer.lr=1e30", "schedule.kind=constant", "checkpoint.every=1"}), 3,
               "step 2: ");
  EXPECT_EQ(read_checkpoint_header(step_file(folder_ / "run", 1)).step, 1);
  EXPECT_FALSE(fs::exists(step_file(folder_ / "run", 2))) << "a diverged state is not kept";
}

TEST_F(CommandTest, PrintsTheThreadCountAndTheConfigurationWins) {
  const Surroundings one{.environment = {{"OMP_NUM_THREADS", "1"}}};
  EXPECT_THAT(train({"train.threads=2"}, one).out, HasSubstr(", 2 threads"));
  fs::remove_all(folder_ / "run");
  EXPECT_THAT(train({"train.threads=0"}, one).out, HasSubstr(", 1 thread\n"));
}

TEST_F(CommandTest, PlainLinesAndABarOnATerminal) {
  const Outcome plain = train();
  EXPECT_THAT(plain.out, HasSubstr("step 6/6  loss "));
  EXPECT_EQ(plain.out.find('\r'), std::string::npos);
  const std::string shown = mobius_on_terminal({"train", config_, "--out", folder_ / "shown"});
  EXPECT_THAT(shown, AllOf(HasSubstr("\r["), HasSubstr("] 6/6  loss "), HasSubstr(" left")));
}

TEST_F(CommandTest, EvalEqualsTheTrainersOwnEvaluation) {
  ASSERT_EQ(train({"attention.kind=conformal",
                   "task={name: mqar, vocab: 32, n_test: 16, mixture: "
                   "[{seq_len: 16, n_pairs: 2}, {seq_len: 16, n_pairs: 4}]}"})
                .exit_code,
            0);
  const json trained = metrics_in(folder_ / "run", "test").back();
  const Outcome outcome = mobius({"eval", checkpoint(), "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json evaluated = json::parse(outcome.out);
  for (const char* key : {"step", "loss", "accuracy", "groups", "share_beyond_resolution"}) {
    EXPECT_EQ(evaluated.at(key), trained.at(key)) << key;
  }
  EXPECT_THAT(mobius({"eval", checkpoint()}).out, HasSubstr("test accuracy"));
}

TEST_F(CommandTest, InspectShowsStepConfigurationAndParameters) {
  ASSERT_EQ(train().exit_code, 0);
  const Outcome outcome = mobius({"inspect", checkpoint()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("step 6"), HasSubstr("n_pairs: 2"),
                                 HasSubstr("embedding.weight"), HasSubstr("[32, 16]")));
  const Registries known;
  const auto config = config_of(kTinyRun, {}, known);
  const auto count = build_experiment(*config).model->parameter_count();
  EXPECT_THAT(lines_of(outcome.out).back(),
              AllOf(StartsWith("total"), ::testing::EndsWith(" " + std::to_string(count))));
}

TEST_F(CommandTest, ConfigShowIsAFixedPoint) {
  const Outcome first = mobius({"config", "show", config_, "optimizer.lr=3e-4"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("lr: 3.0e-04"));
  write_text(folder_ / "tiny.yaml", first.out);
  EXPECT_EQ(mobius({"config", "show", config_}).out, first.out);
}

TEST_F(CommandTest, ConfigShowRefusesWhatTrainWould) {
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"config", "show"}, {"train"}}) {
    arguments.insert(arguments.end(), {config_, "attention.kind=linear", "model.positions=alibi"});
    expect_error(
        mobius(arguments), 2,
        "override attention.kind=linear: attention.kind: linear: positions alibi do not go");
  }
}

TEST_F(CommandTest, ConfigHelpListsEveryKind) {
  const Outcome help = mobius({"config", "help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* word : {"mqar", "recall", "softmax", "conformal", "adamw", "sgd", "nesterov",
                           "max_steps", "early_stop", "keep_last"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

TEST_F(CommandTest, NamesWhatIsWrongWithACheckpoint) {
  ASSERT_EQ(train().exit_code, 0);
  const std::string good = read_text(checkpoint());
  const auto expect = [&](const std::string& content, const std::string& part) {
    write_text(checkpoint(), content);
    expect_error(mobius({"eval", checkpoint()}), 1, part);
    expect_error(mobius({"inspect", checkpoint()}), 1, part);
  };
  expect(good.substr(0, good.size() / 2), "truncated");
  expect("hello", "not a Mobius checkpoint");
  std::string changed = good;
  changed[good.size() - 100] ^= 1;
  expect(changed, "damaged");
  changed = good;
  changed.replace(good.find("format_version 1"), 16, "format_version 2");
  expect(changed, "newer");
}

TEST_F(CommandTest, AResumeThatFailsLeavesTheFolderUsable) {
  ASSERT_EQ(train().exit_code, 0);
  const std::string damaged = folder_ / "damaged.h5", other = folder_ / "other";
  write_text(damaged, read_text(checkpoint()).substr(0, 1000));
  const std::vector<std::string> start = {"train", config_, "--out", other, "--resume"};
  const auto resumed_from = [&](const std::string& path) {
    std::vector<std::string> arguments = start;
    arguments.push_back(path);
    return mobius(arguments);
  };
  expect_error(resumed_from(damaged), 1, "damaged.h5");
  expect_error(resumed_from(folder_ / "nowhere.h5"), 1, "nowhere.h5");
  EXPECT_EQ(resumed_from(checkpoint()).exit_code, 0);
}

TEST_F(CommandTest, ACheckpointOpensInPython) {
  std::string python;  // the first with h5py: that on the path, or the system's
  for (const char* candidate : {"/usr/bin/python3", "python3"}) {
    if (Process({candidate, "-c", "import h5py"}).wait().exit_code == 0) python = candidate;
  }
  if (python.empty()) GTEST_SKIP() << "python3 has no h5py (Debian: python3-h5py)";
  ASSERT_EQ(train().exit_code, 0);
  const char* script = R"(
import sys, h5py
with h5py.File(sys.argv[1]) as f:
    print(f.attrs["format"], f.attrs["step"], f["parameters"]["embedding.weight"][:].shape,
          f["optimizer/m/embedding.weight"].dtype, "max_steps: 6" in f.attrs["config"]))";
  const Outcome outcome = Process({python, "-c", script, checkpoint()}).wait();
  EXPECT_EQ(outcome.out, "mobius-checkpoint 6 (32, 16) float32 True\n") << outcome.err;
}

}  // namespace
}  // namespace mobius::command_test
