// The device that a process computes on, by what is there.
#include "train/run/device.h"

#include <gmock/gmock.h>

#include "core/cpu/simd/isa.h"
#include "tests/error_of.h"
#include "tests/train/run_fixture.h"

namespace mobius::device_test {
namespace {

GpuReport no_gpu() {
  GpuReport report;
  report.problem = "no driver";
  return report;
}

// The first one is too old for this build.
GpuReport three_gpus() {
  GpuReport report{.code = "sm_80", .runtime = "13.0", .driver = "13.0", .gpus = {}, .problem = ""};
  for (int index = 0; index < 3; ++index)
    report.gpus.push_back({.index = index, .name = "GPU", .memory = 1, .has_code = index > 0});
  return report;
}

constexpr Device cpu{};

TEST(DeviceFor, TheCpuIsShared) {
  EXPECT_EQ(device_for("cpu", 3, no_gpu()), cpu);
  EXPECT_EQ(device_for("cpu", 3, three_gpus()), cpu);
}

TEST(DeviceFor, EachLocalRankTakesAGpuOfItsOwnThatItCanUse) {
  for (const std::string option : {"cuda", "auto"}) {
    EXPECT_EQ(device_for(option, 0, three_gpus()), (Device{DeviceType::cuda, 1}));
    EXPECT_EQ(device_for(option, 1, three_gpus()), (Device{DeviceType::cuda, 2}));
    EXPECT_EQ(error_of<ConfigError>([&] { device_for(option, 2, three_gpus()); }),
              "train.device: local rank 2 needs a GPU of its own, but 2 can be used on this "
              "machine; start at most 2 ranks there, or compute with train.device=cpu");
  }
}

TEST(DeviceFor, WithoutAGpuOnlyAutoFallsBackToTheCpu) {
  EXPECT_EQ(device_for("auto", 3, no_gpu()), cpu);
  EXPECT_EQ(error_of<ConfigError>([] { device_for("cuda", 0, no_gpu()); }),
            "train.device: cuda: no driver");
}

TEST(AllowAnyDevice, UnlessOneIsChosenOrItIsTheCpu) {
  const Registries known;
  const auto device_after = [&](const std::string& device,
                                const std::vector<std::string>& overrides) {
    const auto config = config_of(kTinyRun, {"train.device=" + device}, known);
    allow_any_device(*config, overrides);
    return config->train.device;
  };
  EXPECT_EQ(device_after("cuda", {}), "auto");
  EXPECT_EQ(device_after("cuda", {"train.threads=1"}), "auto");
  EXPECT_EQ(device_after("cuda", {"train.device=cuda"}), "cuda");
  EXPECT_EQ(device_after("cpu", {}), "cpu");
}

TEST(ComputedBy, IsTheInstructionSetOfTheCpu) {
  EXPECT_EQ(computed_by(cpu), instruction_set());
  EXPECT_EQ(name_of_device(cpu), "");
}

}  // namespace
}  // namespace mobius::device_test
