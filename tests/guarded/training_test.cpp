// Whole runs on a device with a memory of its own: they train, resume from a checkpoint, generate
// and draw attention maps, and give what the same run gives on the CPU, to the bit.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "nn/generator.h"
#include "tests/guarded/guarded_device.h"
#include "tests/train/run_fixture.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/safetensors.h"
#include "train/recording/attention_maps.h"

namespace mobius::guarded_training_test {
namespace {

namespace fs = std::filesystem;
using testing::guarded_device;

class GuardedTraining : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Config> config_on(Device device, const std::string& run) {
    auto config = config_of(kTinyRun, {"attention.kind=" + GetParam()}, known_);
    config->train.device = to_string(device);
    config->output.dir = (folder_ / run).string();
    return config;
  }

  void train(Device device, const std::string& run, const std::string& resume = "") {
    const auto config = config_on(device, run);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> quiet(std::tmpfile(), std::fclose);
    Progress progress(quiet.get());
    run_training(*config, Resume::parse(resume), known_, progress, StopSignal());
  }

  fs::path checkpoint_of(const std::string& run, const std::string& name = "step-00000006.h5") {
    return folder_ / run / "checkpoints" / name;
  }

  // The model of a run on the CPU, as its checkpoint has it, on a device.
  Experiment loaded_on(Device device) {
    Experiment experiment = build_experiment(*config_on(device, "unused"));
    load_checkpoint(checkpoint_of("cpu"), tensors_of(*experiment.model));
    EXPECT_EQ(experiment.model->device(), device);
    return experiment;
  }

  static void expect_equal(const std::vector<NamedTensor>& got,
                           const std::vector<NamedTensor>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].value.to_vector<double>(), want[i].value.to_vector<double>())
          << want[i].name;
  }

  static std::vector<std::int32_t> generated(const LanguageModel& model) {
    Generator generator(model, {}, /*context=*/12, /*seed=*/3);
    generator.read(std::vector<std::int32_t>{1, 5, 9});
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(generator.next());
    return tokens;
  }

  const Registries known_;
  TemporaryFolder folder_;
};

TEST_P(GuardedTraining, LearnsAndResumesAsOnTheCpu) {
  testing::reset_guarded_counts();
  train(Device{}, "cpu");
  EXPECT_EQ(testing::guarded_counts().kernels, 0);
  train(guarded_device, "device");
  EXPECT_GT(testing::guarded_counts().kernels, 1000);
  const auto want = read_parameters(checkpoint_of("cpu"));
  expect_equal(read_parameters(checkpoint_of("device")), want);

  // A checkpoint belongs to no device: the last steps come out alike on either.
  for (const Device resumed_on : {guarded_device, Device{}}) {
    fs::remove(checkpoint_of("device"));
    train(resumed_on, "device", "auto");
    expect_equal(read_parameters(checkpoint_of("device")), want);
  }
}

TEST_P(GuardedTraining, GeneratesAndDrawsAsOnTheCpu) {
  train(Device{}, "cpu");
  const Experiment on_cpu = loaded_on(Device{}), on_device = loaded_on(guarded_device);
  EXPECT_EQ(attention_maps_json(*on_device.model, *on_device.task, {}),
            attention_maps_json(*on_cpu.model, *on_cpu.task, {}));
  EXPECT_EQ(generated(*on_device.model), generated(*on_cpu.model));
}

TEST_P(GuardedTraining, ModelsMoveAndAreExchanged) {
  train(Device{}, "cpu");
  const Experiment on_cpu = loaded_on(Device{}), on_device = loaded_on(guarded_device);
  write_safetensors(folder_ / "model.safetensors",
                    {.tensors = tensors_of(*on_device.model).parameters, .metadata = {}});
  const Experiment exchanged = loaded_on(guarded_device);
  for (auto& parameter : exchanged.model->parameters()) parameter.value.mutable_data().fill(0);
  fill_from_safetensors(folder_ / "model.safetensors", tensors_of(*exchanged.model).parameters);
  expect_equal(tensors_of(*exchanged.model).parameters, tensors_of(*on_cpu.model).parameters);

  const auto parameters = on_cpu.model->parameters();
  on_cpu.model->to(guarded_device);
  EXPECT_EQ(on_cpu.model->device(), guarded_device);
  EXPECT_EQ(parameters.front().value.device(), guarded_device);
  expect_equal(tensors_of(*on_cpu.model).parameters, tensors_of(*on_device.model).parameters);
  EXPECT_EQ(generated(*on_cpu.model), generated(*on_device.model));
}

INSTANTIATE_TEST_SUITE_P(Attentions, GuardedTraining,
                         ::testing::Values("softmax", "conformal", "performer", "w2", "sparse"),
                         [](const auto& setting) { return setting.param; });

}  // namespace
}  // namespace mobius::guarded_training_test
