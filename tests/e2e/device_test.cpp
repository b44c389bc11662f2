// What a user without a usable GPU sees: whether this build has no CUDA backend, or the machine no
// driver or no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/gpus.h"
#include "tests/e2e/run_test.h"

namespace mobius::device_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WithoutGpu : public RunTest {
 protected:
  Outcome run(const std::vector<std::string>& arguments) const {
    return mobius(arguments, around_);
  }

  // Why there is none, as every command says it.
  static std::string reason() {
    const GpuReport here = find_gpus();
    if (here.runtime.empty()) return "this build has no CUDA backend";
    if (here.driver.empty()) return "no NVIDIA driver is installed, or it is too old for CUDA ";
    return "CUDA_VISIBLE_DEVICES='' leaves no NVIDIA GPU to this process";
  }

  const Surroundings around_{.environment = {{"CUDA_VISIBLE_DEVICES", ""}}};
  const std::vector<std::string> short_ = {"train.max_steps=4", "schedule.warmup_steps=0",
                                           "checkpoint.every=4", "eval.every=0"};

  std::vector<std::string> short_run(const std::string& run, const std::string& device) const {
    std::vector<std::string> arguments = train_arguments(run, short_);
    arguments.push_back("train.device=" + device);
    return arguments;
  }
};

TEST_F(WithoutGpu, CudaIsOneLineThatSaysWhyNot) {
  const Outcome outcome = run(short_run("run", "cuda"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("mobius: error: train.device: cuda: " + reason()), EndsWith("\n")));
  EXPECT_EQ(lines_of(outcome.err).size(), 1u);
  EXPECT_FALSE(fs::exists(folder_ / "run")) << "nothing was begun";
}

TEST_F(WithoutGpu, AutoComputesOnTheCpu) {
  const Outcome outcome = run(short_run("run", "auto"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(", 1 thread\n"), Not(HasSubstr("cuda"))));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(WithoutGpu, InfoSaysWhyNoneCanBeUsed) {
  const Outcome outcome = run({"info"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(StartsWith("CPU: avx"), HasSubstr("\nno GPU can be used: " + reason())));
  const bool has_backend = !find_gpus().code.empty();
  EXPECT_EQ(outcome.out.find("code for " + find_gpus().code) != std::string::npos, has_backend);
}

// A checkpoint belongs to no device, but whoever asks for one gets it or an error.
TEST_F(WithoutGpu, ACheckpointOfAGpuIsUsedOnTheCpu) {
  ASSERT_EQ(run(short_run("run", "auto")).exit_code, 0);
  const fs::path path = step_file(folder_ / "run", 4);
  const Registries known;
  CheckpointHeader header = read_checkpoint_header(path);
  const auto config = parse_config(header.config, path.string(), known);
  config->train.device = "cpu";
  const Experiment experiment = build_experiment(*config);
  CheckpointTensors tensors = tensors_of(*experiment.model, *experiment.optimizer);
  load_checkpoint(path, tensors);
  config->train.device = "cuda";
  header.config = resolved_yaml(*config);
  header.instruction_set = "NVIDIA H200 (sm_90)";
  save_checkpoint(path, header, tensors);

  EXPECT_EQ(run({"eval", path}).exit_code, 0);
  EXPECT_THAT(run({"eval", path, "train.device=cuda"}).err,
              StartsWith("mobius: error: train.device: cuda: " + reason()));
  std::vector<std::string> resumed = short_run("run", "cpu");
  resumed.insert(resumed.end(), {"train.max_steps=5", "--resume", "auto"});
  const Outcome outcome = run(resumed);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("resume: train.device was cuda, now cpu"),
                                 HasSubstr("resume: was made with NVIDIA H200 (sm_90), now avx")));
}

}  // namespace
}  // namespace mobius::device_test
