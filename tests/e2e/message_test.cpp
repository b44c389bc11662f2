// Whatever a file, a name or the command line contains, an error is one line of bounded length
// without terminal control characters.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/run_comparison.h"
#include "train/io/printable.h"

namespace mobius::message_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MessageTest : public ::testing::Test {
 protected:
  void SetUp() override { write_text(config_, kTinyRun); }

  static std::string times(std::size_t count, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < count; ++i) all += text;
    return all;
  }
  static void expect_one_line(const Outcome& outcome) {
    EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(1, 2));
    EXPECT_THAT(outcome.err, StartsWith("mobius: error: "));
    EXPECT_LE(outcome.err.size(), 2100u);
    EXPECT_EQ(printable(outcome.err), outcome.err.substr(0, outcome.err.size() - 1) + "\\n");
    EXPECT_LT(outcome.peak_kib, 1 << 20);
  }
  void expect_one_line_for(const std::string& yaml) {
    write_text(folder_ / "hostile.yaml", yaml);
    expect_one_line(mobius({"config", "show", folder_ / "hostile.yaml"}));
  }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
  const std::string clear_screen_ = "\x1b[2J\n\u202e\u2028\xff";
};

TEST_F(MessageTest, OfLargeConfigurations) {
  const std::size_t size = 600000;
  expect_one_line_for(times(size, "k") + ": 1\n");
  expect_one_line_for("train: {max_steps: " + times(size, "9") + "}\n");
  expect_one_line_for("task: {name: " + times(size, "n") + "}\n");
  expect_one_line_for("attention: " + times(size / 2, "a ") + "\n");
  expect_one_line_for(times(size, "["));
  expect_one_line_for(times(size, "{a: "));
  expect_one_line_for("\"" + times(size / 2, "\\n") + "\": 1\n");
  std::string keys, values;
  for (std::size_t i = 0; i < size / 10; ++i) {
    keys += fmt::format("k{}: 1\n", i);
    values += "{a: 1},";
  }
  expect_one_line_for(keys);
  expect_one_line_for("task: {name: mqar, mixture: [" + values + "]}\n");
}

TEST_F(MessageTest, OfLongOverrides) {
  std::string keys;
  for (int i = 0; keys.size() < 100000; ++i) keys += fmt::format("k{}: 1,", i);
  for (const std::string& override :
       {"train={" + keys + "}", "train.max_steps=" + times(100000, "9"), times(100000, "k") + "=1",
        times(100000, "k"), "task.name=[" + times(20000, "[],") + "]",
        times(40000, "a.") + "b=1"}) {
    expect_one_line(mobius({"config", "show", config_, override}));
  }
}

TEST_F(MessageTest, OfNamesWithControlCharacters) {
  write_text(folder_ / clear_screen_, "nonsense: 1\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"train", folder_ / clear_screen_},
        {"train", folder_ / ("no" + clear_screen_)},
        {"train", config_, "a" + clear_screen_ + "=1"},
        {"train", config_, "task.name=\"" + clear_screen_ + "\""},
        {"train", config_, "task={name: lm, text: \"no" + clear_screen_ + "\"}", "--out",
         folder_ / "out"},
        {"train", config_, "--resume", clear_screen_, "--out", folder_ / "out"},
        {"eval", folder_ / clear_screen_},
        {"inspect", clear_screen_},
        {"generate", clear_screen_},
        {"export", clear_screen_, "out"},
        {"import", config_, clear_screen_, "out"},
        {"compare", clear_screen_},
        {"compare", "--report", clear_screen_},
        {"watch", clear_screen_},
        {"config", "help", clear_screen_}}) {
    const Outcome outcome = mobius(arguments);
    expect_one_line(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("\\x1b[2J")) << arguments[0];
  }
}

TEST_F(MessageTest, OfNamesInASafetensorsHeader) {
  for (const std::string& name : {times(10000, "x"), std::string("\\u001b[2J\\n\\u202e")}) {
    const std::string header =
        "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    std::string file(8, '\0');
    for (std::size_t i = 0; i < 4; ++i) file[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
    write_text(folder_ / "model.safetensors", file + header + std::string(4, '\0'));
    const Outcome outcome =
        mobius({"import", config_, folder_ / "model.safetensors", folder_ / "out.h5"});
    expect_one_line(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("model.safetensors"));
  }
}

TEST_F(MessageTest, OfThreadsThatThereAreNot) {
  for (const char* count : {"99999999999999", "100000", "0", "-1", "two"}) {
    const Outcome outcome =
        mobius({"config", "show", config_}, {.environment = {{"OMP_NUM_THREADS", count}}});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(fmt::format("mobius: error: OMP_NUM_THREADS={}: expected a "
                                                   "number of threads from 1 to 1024\n",
                                                   count)));
  }
  const Surroundings list = {.environment = {{"OMP_NUM_THREADS", "1,2"}}};
  const Outcome trained =
      mobius({"train", config_, "train.threads=0", "--out", folder_ / "run"}, list);
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr(", 1 thread\n"));
}

// ---- impossible sizes

TEST_F(MessageTest, OfModelsThatNoMemoryHolds) {
  struct Case {
    std::vector<std::string> overrides;
    std::string part;
  };
  for (const Case& wrong :
       {Case{{"model.d_model=1048576", "model.n_layers=64"},
             "model.n_layers = 64 blocks of model."},
        Case{{"task.vocab=2000000000", "model.d_model=4096"}, "task.vocab = 2000000000 x model."},
        Case{{"task.vocab=2147483647", "task.seq_len=2147483600"}, "task.seq_len = 2147483600"},
        Case{{"train.batch_size=1000000000000"}, "train.batch_size = 1000000000000"},
        Case{{"attention={kind: performer, n_features: 10000000000}"},
             "the largest part of each attention.omega [10000000000, 8]"},
        Case{{"model.positions=relative", "model.max_distance=100000000000"},
             "attention.relative [200000000001]"}}) {
    std::vector<std::string> arguments = {"train", config_, "--out", folder_ / "run"};
    arguments.insert(arguments.end(), wrong.overrides.begin(), wrong.overrides.end());
    const Outcome outcome = mobius(arguments);
    expect_one_line(outcome);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, ::testing::AllOf(HasSubstr("memory: at least "),
                                              HasSubstr("iB are needed"), HasSubstr(wrong.part)));
    EXPECT_FALSE(fs::exists(folder_ / "run"));
    EXPECT_LT(outcome.peak_kib, 400 << 10) << "the error comes before the allocation";
    arguments.front() = "compare";
    arguments.push_back("grid.train.seed=[1, 2]");
    EXPECT_THAT(mobius(arguments).err, HasSubstr("mobius: error: seed=1: memory: at least "));
  }
}

TEST_F(MessageTest, OfAVocabularyThatTheDataCannotUse) {
  write_text(folder_ / "tokens.bin", std::string(30, '\1'));
  const Outcome outcome = mobius({"train", config_, "--out", folder_ / "run",
                                  "task={name: lm, tokens: " + (folder_ / "tokens.bin").string() +
                                      ", validation_fraction: 0.4, seq_len: 4, vocab: 16777216}"});
  expect_one_line(outcome);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("the data have 15 tokens in all, too few for vocab = 16777216"));
  EXPECT_LT(outcome.peak_kib, 400 << 10);
}

}  // namespace
}  // namespace mobius::message_test
