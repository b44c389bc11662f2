// The program on a GPU, as a user meets it: which one it takes, what it says when memory runs out
// or the GPU fails, and that a step waits for nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/run_test.h"

namespace mobius::gpuless_device_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kRun = R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 8}
model: {d_model: 16, n_layers: 2, n_heads: 2, dropout: 0.1}
attention: {kind: conformal}
train: {max_steps: 8, batch_size: 4, accumulation_steps: 2, threads: 1, log_every: 1, device: cuda}
schedule: {kind: constant}
eval: {every: 0}
checkpoint: {every: 4}
)";

using Variables = std::vector<std::pair<std::string, std::string>>;

class OnGpu : public RunTest {
 protected:
  void SetUp() override { write_text(config_, kRun); }

  // Around a machine with such GPUs as `variables` say.
  static Surroundings around(const Variables& variables = {}) {
    Surroundings made{.environment = {{"LD_LIBRARY_PATH", MOBIUS_GPULESS_LIBRARIES}}};
    made.environment.insert(made.environment.end(), variables.begin(), variables.end());
    return made;
  }
  Outcome train_on(const std::string& run, const Variables& variables,
                   const std::vector<std::string>& more = {}) const {
    return try_train(run, more, around(variables));
  }
  static void expect_one_line(const Outcome& outcome, int exit_code, const std::string& words) {
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(words)));
  }
  nlohmann::json counters_of(const std::string& run, const std::vector<std::string>& more) const {
    const fs::path report = folder_ / (run + ".json");
    const Outcome outcome = train_on(run, {{"MOBIUS_GPULESS_REPORT", report.string()}}, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(read_text(report));
  }
};

// ---- choice

TEST_F(OnGpu, InfoListsThem) {
  const Outcome outcome = mobius({"info"}, around({{"MOBIUS_GPULESS_DEVICES", "2"}}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const std::string name : {"cuda:0", "cuda:1"}) {
    EXPECT_THAT(outcome.out,
                ::testing::ContainsRegex("\n" + name +
                                         "  gpuless .*  +8 GiB  compute capability 8\\.0, "
                                         "this build has code for it\n"));
  }
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\nCUDA: version 13."), HasSubstr(", driver for 13."),
                                 Not(HasSubstr("no GPU can be used"))));
}

TEST_F(OnGpu, AutoTakesItAndSaysSo) {
  const Outcome outcome = train_on("run", {}, {"train.device=auto", "train.max_steps=1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(", 1 thread, gpuless (interpreted PTX) (cuda:0)\n"));
  EXPECT_THAT(mobius({"inspect", folder_ / "run"}).out,
              HasSubstr("instruction set: gpuless (interpreted PTX) (sm_80)\n"));
}

TEST_F(OnGpu, NoDriverAndNoGpuAreOneLine) {
  expect_one_line(train_on("run", {{"MOBIUS_GPULESS_FAIL", "no-driver"}}), 2,
                  "train.device: cuda: no NVIDIA driver is installed");
  expect_one_line(train_on("run", {{"MOBIUS_GPULESS_FAIL", "no-device"}}), 2,
                  "train.device: cuda: there is no NVIDIA GPU; device: cpu trains without one");
  expect_one_line(
      train_on("run", {{"MOBIUS_GPULESS_FAIL", "no-device"}, {"CUDA_VISIBLE_DEVICES", "7"}}), 2,
      "CUDA_VISIBLE_DEVICES='7' leaves no NVIDIA GPU to this process");
}

// ---- failures

TEST_F(OnGpu, ARunThatCannotFitIsRefusedAtTheStart) {
  expect_one_line(train_on("run", {{"MOBIUS_GPULESS_MEMORY", "100000"}}), 2,
                  "memory of cuda:0: at least ");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(OnGpu, OutOfMemorySaysWhatHelps) {
  const std::int64_t peak = counters_of("whole", {"train.max_steps=1"}).at("peak_bytes");
  const Outcome outcome = train_on("run", {{"MOBIUS_GPULESS_MEMORY", std::to_string(peak - 1000)}});
  expect_one_line(outcome, 1, "device cuda:0: out of memory: asked for ");
  for (const std::string part : {" bytes in use", " bytes cached", "the device has 0.0 GiB",
                                 "train.batch_size", "bf16", "another process"}) {
    EXPECT_THAT(outcome.err, HasSubstr(part));
  }
}

TEST_F(OnGpu, AGpuThatIsLostLeavesAWholeCheckpoint) {
  const std::int64_t launches = counters_of("whole", {}).at("launches");
  const std::int64_t after = launches * 3 / 4;  // behind the checkpoint of step 4
  const Outcome outcome = train_on("run", {{"MOBIUS_GPULESS_LOSE_AFTER", std::to_string(after)}});
  EXPECT_EQ(outcome.exit_code, 1);
  std::vector<std::string> errors = lines_of(outcome.err);
  std::erase_if(errors, [](const std::string& line) { return line.starts_with("gpuless:"); });
  ASSERT_EQ(errors.size(), 1u) << outcome.err;
  EXPECT_THAT(errors.front(),
              AllOf(StartsWith("mobius: error: device cuda:0: "),
                    HasSubstr("the device is lost to this run"), HasSubstr("--resume auto")));

  const Outcome resumed = train_on("run", {}, {"--resume", "auto"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("resume: step 4 from"));
  EXPECT_EQ(state_in(step_file(folder_ / "run", 8)), state_in(step_file(folder_ / "whole", 8)));
  EXPECT_EQ(metrics_in(folder_ / "run"), metrics_in(folder_ / "whole"));
}

TEST_F(OnGpu, ALibraryOfProductsThatIsMissingIsOneLine) {
  const fs::path libraries = folder_ / "lib";
  fs::create_directory(libraries);
  fs::create_symlink(fs::path(MOBIUS_GPULESS_LIBRARIES) / "libcudart.so.13",
                     libraries / "libcudart.so.13");
  write_text(libraries / "libcublasLt.so.13", "damaged");
  const Outcome outcome = train_on("run", {{"LD_LIBRARY_PATH", libraries.string()}});
  expect_one_line(outcome, 1, "device cuda: matrix products need libcublasLt.so.13");
}

// ---- work

TEST_F(OnGpu, AStepWaitsForNothingAndAllocatesFromThePool) {
  const std::vector<std::string> quiet = {"train.log_every=100", "checkpoint.every=100"};
  const auto counters = [&](const std::string& steps) {
    std::vector<std::string> more = quiet;
    more.push_back("train.max_steps=" + steps);
    return counters_of("run" + steps, more);
  };
  const auto few = counters("4"), many = counters("8");
  EXPECT_GT(many.at("launches"), few.at("launches"));
  EXPECT_EQ(many.at("host_waits"), few.at("host_waits"));
  EXPECT_EQ(many.at("bytes_to_host"), few.at("bytes_to_host"));
  EXPECT_EQ(many.at("bytes_in_use"), few.at("bytes_in_use"));
}

TEST_F(OnGpu, ARunContinuesOnTheOtherDevice) {
  EXPECT_EQ(train_on("cpu", {}, {"train.device=cpu"}).exit_code, 0);
  const auto continued = [&](const std::string& run, const std::string& device,
                             const std::string& other) {
    EXPECT_EQ(train_on(run, {}, {"train.max_steps=4", "train.device=" + device}).exit_code, 0);
    const Outcome outcome = train_on(run, {}, {"train.device=" + other, "--resume", "auto"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("resume: train.device was " + device + ", now " + other),
                      HasSubstr("resume: was made with ")));
    const auto got = metrics_in(folder_ / run, "train"),
               want = metrics_in(folder_ / "cpu", "train");
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i].at("loss").get<double>(), want[i].at("loss").get<double>(), 1e-4) << i;
    }
  };
  continued("there", "cpu", "cuda");
  continued("back", "cuda", "cpu");
}

TEST_F(OnGpu, EachRankTakesOneOfItsOwn) {
  if (std::string(MOBIUS_MPIRUN).empty()) GTEST_SKIP() << "there is no mpirun";
  const auto train_with = [&](const std::string& run, const std::string& gpus) {
    std::vector<std::string> command = {MOBIUS_MPIRUN, "-n", "2"};
    const auto words = mobius_command(train_arguments(run, {"train.max_steps=2"}));
    command.insert(command.end(), words.begin(), words.end());
    return Process(command, around({{"MOBIUS_GPULESS_DEVICES", gpus},
                                    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                    {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                    {"MPIEXEC_TIMEOUT", "300"},
                                    {"TMPDIR", folder_.path().string()}}))
        .wait();
  };
  const Outcome two = train_with("two", "2");
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_EQ(train_on("one", {}, {"train.max_steps=2"}).exit_code, 0);
  const auto got = metrics_in(folder_ / "two", "train"),
             want = metrics_in(folder_ / "one", "train");
  ASSERT_EQ(got.size(), want.size());
  EXPECT_NEAR(got.front().at("loss").get<double>(), want.front().at("loss").get<double>(), 0.1);

  const Outcome crowded = train_with("crowded", "1");
  EXPECT_NE(crowded.exit_code, 0);
  EXPECT_THAT(crowded.err, HasSubstr("train.device: local rank 1 needs a GPU of its own, but 1 can "
                                     "be used on this machine; start at most 1 rank there"));
}

}  // namespace
}  // namespace mobius::gpuless_device_test
