// What a training step asks of the device: how many launches, and that the host never waits.
#include <gtest/gtest.h>

#include "nn/attention/attention.h"
#include "nn/language_model.h"
#include "tests/device.h"
#include "tests/gpuless/cudart/gpuless.h"
#include "train/optim/optimizer.h"
#include "train/run/step.h"

namespace mobius::training_counters_test {
namespace {

struct Setting {
  std::string attention;
  MatmulPrecision precision;
  std::int64_t most_launches;  // a layer
};

class TrainingCounters : public ::testing::TestWithParam<Setting> {};

// What one step after the first does: kernels and products, and waits of the host.
struct StepCounts {
  std::int64_t launches;
  std::int64_t waits;
};

GpulessCounters counted() {
  static auto* const counters = gpuless_find<GpulessCounters()>("gpuless_counters");
  return counters();
}

StepCounts counts_of(const Setting& setting, std::int64_t n_layers) {
  const Device device = testing::device();
  ModelOptions options;
  options.d_model = 32;
  options.n_layers = n_layers;
  options.n_heads = 2;
  options.mlp = MlpKind::swiglu;
  options.norm = options.final_norm = NormKind::rms_norm;
  options.positions = Positions::rope;
  options.bias = false;
  constexpr std::int64_t vocab = 32, seq_len = 16;
  const auto attentions = builtin_attentions();
  LanguageModel model(options, *attentions.choose(setting.attention), vocab, seq_len,
                      /*init_seed=*/1, DType::f32, device, setting.precision);
  const auto optimizer = AdamWOptions().build(trained_parameters(model));
  OneRank rank;
  GradientSum alone(rank, optimizer->arena());
  Batch batch;
  batch.inputs = Tensor::zeros({2, seq_len}, DType::i32);
  batch.labels = Tensor::zeros({2, seq_len}, DType::i32);
  StepCounts counts{};
  for (std::int64_t step = 1; step <= 2; ++step) {
    const StepBatch prepared = prepare_step(batch, /*micro_batches=*/1, model);
    Tensor::zeros({1}, DType::f32, device).item();  // what was queued has been counted
    const GpulessCounters before = counted();
    model.zero_grad();
    const StepScore score = accumulate_gradients(model, prepared, /*seed=*/1, step, alone);
    optimizer->clipped_step(1e-3, /*max_norm=*/1, rank);
    const std::uint64_t waits = counted().host_waits - before.host_waits;
    score.sums.to_vector<double>();
    const GpulessCounters after = counted();
    counts = {static_cast<std::int64_t>(after.launches - before.launches + after.library_calls -
                                        before.library_calls),
              static_cast<std::int64_t>(waits)};
  }
  return counts;
}

TEST_P(TrainingCounters, FewLaunchesALayerAndNoWait) {
  if (gpuless_find<GpulessCounters()>("gpuless_counters") == nullptr)
    GTEST_SKIP() << "only the libraries that stand in for CUDA's count";
  const StepCounts one = counts_of(GetParam(), 1), two = counts_of(GetParam(), 2);
  EXPECT_LE(two.launches - one.launches, GetParam().most_launches);
  EXPECT_EQ(two.waits, 0);
  RecordProperty("launches_a_layer", std::to_string(two.launches - one.launches));
}

INSTANTIATE_TEST_SUITE_P(Attentions, TrainingCounters,
                         ::testing::Values(Setting{"softmax", MatmulPrecision::full, 43},
                                           Setting{"softmax", MatmulPrecision::bf16, 60},
                                           Setting{"conformal", MatmulPrecision::full, 55},
                                           Setting{"conformal", MatmulPrecision::bf16, 73},
                                           Setting{"w2", MatmulPrecision::full, 63}),
                         [](const auto& setting) {
                           return setting.param.attention +
                                  (setting.param.precision == MatmulPrecision::bf16 ? "_bf16"
                                                                                    : "_f32");
                         });

}  // namespace
}  // namespace mobius::training_counters_test
