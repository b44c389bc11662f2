// Attention alone, forward and backward, causal, f32: every kernel at several lengths. GFLOP/s
// count two products forward and five backward over the pairs that the mask keeps.
#include <benchmark/benchmark.h>

#include "autograd/ops.h"

namespace {

using namespace mobius;

constexpr std::int64_t heads = 8, head_dim = 64;

// [B, H, N, D] as a model has it: heads side by side in memory.
Variable head_rows(std::int64_t batch, std::int64_t n, std::uint64_t stream) {
  return Variable(random_normal({batch, n, heads, head_dim}, 0, 1, {1, stream}).transpose(1, 2),
                  true);
}

template <class Fn>
void time_attention(benchmark::State& state, Fn&& attend) {
  const std::int64_t batch = state.range(0), n = state.range(1);
  Variable q = head_rows(batch, n, 1), k = head_rows(batch, n, 2), v = head_rows(batch, n, 3);
  const Tensor grad = random_normal({batch, n, heads, head_dim}, 0, 1, {1, 4}).transpose(1, 2);
  for (auto _ : state) {
    backward(attend(q, k, v), grad);
    for (Variable* x : {&q, &k, &v}) x->zero_grad();
  }
  const double flop = 7.0 * static_cast<double>(batch * heads * n * n * head_dim);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flop, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void softmax(benchmark::State& state) {
  time_attention(state, [](const Variable& q, const Variable& k, const Variable& v) {
    return attention({.scale = 0.125, .mask = {.causal = true}}, {q, k, v, {}, {}, {}, {}});
  });
}

void softmax_composed(benchmark::State& state) {
  time_attention(state, [](const Variable& q, const Variable& k, const Variable& v) {
    const Variable scores = matmul(q, transpose(k, -1, -2));
    return matmul(masked_softmax(scores, 0.125, {.causal = true}), v);
  });
}

// The kernel alone: unit vectors and the numbers of each query are the module's affair.
void conformal(benchmark::State& state) {
  const Variable sharpness(Tensor::full({state.range(0), heads, state.range(1)}, 0.1), true);
  time_attention(state, [&](const Variable& q, const Variable& k, const Variable& v) {
    return attention({.score = ScoreMap::conformal,
                      .normalizer = WeightNormalizer::none,
                      .exponent = 31,
                      .mask = {.causal = true}},
                     {q, k, v, {}, {}, sharpness, {}});
  });
}

void linear(benchmark::State& state) {
  time_attention(state, [](const Variable& q, const Variable& k, const Variable& v) {
    return linear_attention(affine(elu(q), 1, 1), affine(elu(k), 1, 1), v, true, 1e-6);
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->Args({64, 64})->Args({4, 256})->Args({4, 1024})->Args({4, 4096});
  b->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(softmax)->Apply(sizes);
BENCHMARK(conformal)->Apply(sizes);
BENCHMARK(linear)->Apply(sizes);
BENCHMARK(softmax_composed)
    ->Args({64, 64})
    ->Args({4, 256})
    ->Args({4, 1024})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
