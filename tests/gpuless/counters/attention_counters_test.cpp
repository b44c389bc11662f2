// What the kernels of attention on tensor cores do, in the units of a device: the figures that
// their design rests on. Runs on the libraries of tests/gpuless/ alone.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/ops.h"
#include "tests/device.h"
#include "tests/gpuless/cudart/gpuless.h"

namespace mobius::attention_counters_test {
namespace {

using ptx::InstructionClass;
using ptx::LaunchCounters;

struct Sizes {
  std::int64_t heads = 1, n_q = 256, n_k = 256, d = 64, dv = 64;
};

Tensor randn(Shape shape, std::uint64_t stream) {
  return placed::random_normal(std::move(shape), 0, 0.1, {3, stream});
}

AttentionInputs make_inputs(const Sizes& s, ScoreMap score) {
  AttentionInputs in{.q = randn({1, s.heads, s.n_q, s.d}, 1),
                     .k = randn({1, s.heads, s.n_k, s.d}, 2),
                     .v = randn({1, s.heads, s.n_k, s.dv}, 3)};
  if (score == ScoreMap::conformal) {
    in.sharpness = placed::full({1, s.heads, s.n_q}, 0.5);
    in.log_factor = placed::full({1, s.heads, s.n_q}, -1);
  }
  return in;
}

AttentionSpec make_spec(ScoreMap score) {
  return {.score = score,
          .normalizer = score == ScoreMap::dot ? WeightNormalizer::softmax : WeightNormalizer::none,
          .scale = 0.1,
          .exponent = 31.5,
          .precision = MatmulPrecision::bf16};
}

/// What all kernels whose names have `part` did in a forward and a backward pass.
struct Passes {
  LaunchCounters forward, keys, queries;
};

Passes count(const AttentionSpec& spec, const Sizes& s) {
  const AttentionInputs in = make_inputs(s, spec.score);
  const Tensor grad_out = randn({1, s.heads, s.n_q, s.dv}, 4);
  grad_out.to_vector<float>();  // what was queued before is done
  gpuless_find<void()>("gpuless_reset_counters")();
  const AttentionResult result = attention(spec, in);
  const AttentionGrads grads = attention_backward(spec, in, result, grad_out);
  grads.q.to_vector<float>();
  const auto list = gpuless_find<std::size_t(GpulessKernel*, std::size_t)>("gpuless_kernels");
  std::vector<GpulessKernel> kernels(list(nullptr, 0));
  list(kernels.data(), kernels.size());
  Passes passes;
  for (const GpulessKernel& kernel : kernels) {
    const std::string name = kernel.name;
    if (name.find("tensor_forward") != std::string::npos) passes.forward += kernel.counters;
    if (name.find("tensor_key_gradients") != std::string::npos) passes.keys += kernel.counters;
    if (name.find("tensor_query_gradients") != std::string::npos) passes.queries += kernel.counters;
  }
  return passes;
}

class AttentionCounters : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpuless_find<void()>("gpuless_reset_counters"))
      GTEST_SKIP() << "the libraries that count are not in this process";
  }
};

std::uint64_t tensor_instructions(const LaunchCounters& counters) {
  return counters[InstructionClass::tensor].warps;
}

// Of m16n8k16, for so many products of a whole matrix of scores with `columns`.
std::uint64_t expected_instructions(const Sizes& s, std::int64_t columns) {
  return static_cast<std::uint64_t>(s.heads * s.n_q * s.n_k * columns / (16 * 8 * 16));
}

constexpr std::pair<std::int64_t, std::int64_t> all_widths[] = {{32, 32},  {64, 32},   {64, 64},
                                                                {128, 64}, {128, 128}, {256, 256}};

TEST_F(AttentionCounters, TheTilesOfTensorCoresHaveNoBankConflicts) {
  for (const auto& [d, dv] : all_widths) {
    const Passes passes =
        count(make_spec(ScoreMap::dot), {.n_q = 128, .n_k = 128, .d = d, .dv = dv});
    for (const LaunchCounters& one : {passes.forward, passes.keys, passes.queries}) {
      ASSERT_GT(one.matrix_loads, 0u);
      EXPECT_EQ(one.shared_reads.wavefronts, one.shared_reads.ideal_wavefronts) << d << " " << dv;
      EXPECT_EQ(one.shared_writes.wavefronts, one.shared_writes.ideal_wavefronts) << d << " " << dv;
    }
  }
}

TEST_F(AttentionCounters, TheProductsAreThoseOfTheDesign) {
  for (const auto& [d, dv] : all_widths) {
    const Sizes s{.heads = 2, .n_q = 128, .n_k = 256, .d = d, .dv = dv};
    const Passes passes = count(make_spec(ScoreMap::dot), s);
    const std::uint64_t parts = d > 128 ? 2 : 1;  // which make the weights anew
    EXPECT_EQ(tensor_instructions(passes.forward), expected_instructions(s, d + dv));
    EXPECT_EQ(tensor_instructions(passes.keys), (parts + 1) * expected_instructions(s, d + dv));
    EXPECT_EQ(tensor_instructions(passes.queries), expected_instructions(s, 2 * d + dv));
  }
}

// Above the diagonal nothing is computed: of the tiles of a warp's 32 queries and 64 keys, those
// that hold seen pairs.
TEST_F(AttentionCounters, ACausalMaskHalvesTheProducts) {
  const Sizes s{.n_q = 512, .n_k = 512};
  AttentionSpec spec = make_spec(ScoreMap::dot);
  spec.mask.causal = true;
  std::uint64_t seen = 0;
  for (std::int64_t i0 = 0; i0 < s.n_q; i0 += 32) {
    for (std::int64_t j0 = 0; j0 <= i0 + 31; j0 += 64) ++seen;
  }
  const std::uint64_t all = static_cast<std::uint64_t>(s.n_q / 32 * s.n_k / 64);
  EXPECT_EQ(tensor_instructions(count(spec, s).forward),
            expected_instructions(s, s.d + s.dv) * seen / all);
}

// By what more keys add, so that the start of a block does not count.
TEST_F(AttentionCounters, ConformalAttentionIssuesAsMuchAsSoftmax) {
  for (const std::int64_t d : {64, 128}) {
    const auto issued = [&](ScoreMap score) {
      const auto for_keys = [&](std::int64_t n_k) {
        const Sizes s{.n_q = 128, .n_k = n_k, .d = d, .dv = d};
        return static_cast<double>(count(make_spec(score), s).forward.warp_instructions());
      };
      return for_keys(1024) - for_keys(512);
    };
    EXPECT_LT(issued(ScoreMap::conformal), 1.05 * issued(ScoreMap::dot)) << d;
  }
}

}  // namespace
}  // namespace mobius::attention_counters_test
