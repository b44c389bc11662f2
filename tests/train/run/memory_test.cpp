#include "train/run/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.h"
#include "tests/train/run_fixture.h"
#include "train/run/experiment.h"

namespace mobius::memory_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- what there is

class AvailableMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo",
          "MemTotal:       16000000 kB\nMemAvailable:   1000 kB\nSwapFree:       24 kB\n");
  }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    write_text(root_ / file, text);
  }
  void write_group(const std::string& folder, const std::string& most, const std::string& used) {
    write(folder + "/memory.max", most + "\n");
    write(folder + "/memory.current", used + "\n");
  }
  double available() { return available_memory(root_.path()).value(); }

  TemporaryFolder root_;
  const double swap_ = 24 * 1024;
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithItsSwap) {
  EXPECT_EQ(available(), 1024 * 1024);
  const TemporaryFolder nothing;
  EXPECT_EQ(available_memory(nothing.path()), std::nullopt);
}

TEST_F(AvailableMemory, IsWhatTheControlGroupsLeave) {
  write("proc/self/cgroup", "0::/job/step\n");
  write_group("sys/fs/cgroup/job/step", "max", "5000");
  EXPECT_EQ(available(), 1024 * 1024);
  write_group("sys/fs/cgroup/job", "50000", "20000");  // the group above counts as well
  EXPECT_EQ(available(), 30000 + swap_);
  write("sys/fs/cgroup/job/memory.stat", "anon 12000\nfile 8000\n");  // pages that can be dropped
  EXPECT_EQ(available(), 38000 + swap_);
  write_group("sys/fs/cgroup/job/step", "1000", "2000");
  EXPECT_EQ(available(), swap_);
}

TEST_F(AvailableMemory, IsWhatAContainerLeaves) {
  write("proc/self/cgroup", "0::/\n");
  write_group("sys/fs/cgroup", "50000", "10000");
  EXPECT_EQ(available(), 40000 + swap_);
  write("proc/self/cgroup", "0::/../../outside\n");
  EXPECT_EQ(available(), 40000 + swap_);
}

TEST_F(AvailableMemory, IsWhatControlGroupsOfTheFirstVersionLeave) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
  EXPECT_EQ(available(), 1024 * 1024);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "70000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "30000\n");
  write("sys/fs/cgroup/memory/job/memory.stat", "cache 1\ntotal_cache 5000\n");
  EXPECT_EQ(available(), 45000 + swap_);
}

TEST_F(AvailableMemory, IsToldOfThisMachine) {
  ASSERT_TRUE(available_memory().has_value());
  EXPECT_GT(*available_memory(), 1 << 20);
}

// ---- what is needed

std::vector<MemoryPart> need_of(const std::vector<std::string>& settings, int ranks = 1) {
  const Registries known;
  const auto config = config_of(kTinyRun, settings, known);
  return memory_need(*config, config->task->least_size(), MemoryUse::training, ranks);
}

// Returns the most that the tensors of a run really took.
double peak_of(const std::vector<std::string>& settings) {
  const TemporaryFolder folder;
  const Registries known;
  allocator_for({}).reset_peak();
  const auto before = allocator_for({}).stats().current;
  train_in(folder / "run", known, settings);
  return static_cast<double>(allocator_for({}).stats().peak - before);
}

TEST(MemoryNeed, IsNotAboveWhatARunTakesAndNotFarBelow) {
  const std::vector<std::string> large = {"model={d_model: 64, n_layers: 4, n_heads: 2}",
                                          "train.max_steps=1", "eval.every=0", "task.n_test=2"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"task.seq_len=64", "task.vocab=128", "train.batch_size=32"},
        {"task.seq_len=64", "task.vocab=128", "train.batch_size=32", "train.accumulation_steps=4"},
        {"task.vocab=20000"},
        {"task.vocab=10000", "optimizer.name=sgd", "model.tied_head=false"},
        {"task.seq_len=64", "task.vocab=128", "train.batch_size=32", "model.mlp=swiglu",
         "model.n_kv_heads=1", "attention.kind=conformal"},
        {"model.d_model=128"}}) {
    std::vector<std::string> settings = large;
    settings.insert(settings.end(), more.begin(), more.end());
    const double need = total_bytes(need_of(settings)), peak = peak_of(settings);
    EXPECT_LE(need, peak) << ::testing::PrintToString(more);
    EXPECT_GE(need, 0.3 * peak) << ::testing::PrintToString(more);
  }
}

TEST(MemoryNeed, OfTheOptimiserIsSharedWhereItIsSpread) {
  const std::vector<std::string> spread = {"distributed.zero_stage=1", "task.vocab=100000"};
  const double alone = need_of(spread, 1)[0].bytes, of_four = need_of(spread, 4)[0].bytes;
  EXPECT_NEAR(of_four / alone, (2 + 2 / 4.0) / 4, 1e-12);
}

TEST(MemoryNeed, MayBeLargerThanAnyInteger) {
  const auto need = need_of({"train.batch_size=1000000000000000", "model.n_layers=4096"});
  EXPECT_GT(total_bytes(need), 1e20);
  EXPECT_THAT(error_of<ConfigError>([&] { require_memory(need, 1e9); }), HasSubstr("EiB"));
}

TEST(RequireMemory, NamesWhatIsNeededAndForWhat) {
  const auto refusal_of = [](const std::vector<std::string>& settings) {
    return error_of<ConfigError>([&] { require_memory(need_of(settings), 1 << 30); });
  };
  EXPECT_EQ(refusal_of({}), "no error");
  EXPECT_THAT(
      refusal_of({"task.vocab=16777216"}),
      AllOf(HasSubstr("memory: at least 4 GiB are needed, but 1 GiB are available: 4 GiB for "
                      "the embedding of task.vocab = 16777216 x model.d_model = 16"),
            Not(HasSubstr("n_layers"))));
  EXPECT_THAT(refusal_of({"train.batch_size=1000000000"}),
              HasSubstr("activations of train.batch_size = 1000000000 / train.accumulation_steps = "
                        "2 sequences, task.seq_len = 16"));
  EXPECT_NO_THROW(require_memory(need_of({"train.batch_size=1000000000"}), std::nullopt));
}

TEST(RequireMemory, StandsBeforeWhateverIsMade) {
  const Registries known;
  const auto config = config_of(kTinyRun, {"task.vocab=2000000000", "model.d_model=65536"}, known);
  EXPECT_THAT(error_of<ConfigError>([&] { build_experiment(*config); }), HasSubstr("memory: "));
}

TEST(TaskSize, IsThatOfTheTask) {
  const Registries known;
  for (const std::string task :
       {"{name: mqar, vocab: 64, seq_len: 32, n_pairs: 2}", "{name: recall, vocab: 16, seq_len: 8}",
        "{name: mqar, vocab: 64, mixture: [{seq_len: 16, n_pairs: 2}, {seq_len: 32, n_pairs: "
        "4}]}"}) {
    const auto config = config_of(kTinyRun, {"task=" + task}, known);
    const auto built = config->task->build(1);
    EXPECT_EQ(config->task->least_size().vocab, built->vocab_size()) << task;
    EXPECT_EQ(config->task->least_size().seq_len, built->max_seq_len()) << task;
  }
}

}  // namespace
}  // namespace mobius::memory_test
