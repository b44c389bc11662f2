// Times the matrix products of the training steps of bench/run.py, in f32 and in bf16 (including
// the rounding of operands that a training step does first), and a large square one, the peak. The
// steps are multi-query associative recall (d_model 128, 16 384 tokens, 1024 labelled ones,
// vocabulary 8192) and the language model (d_model 384, 2048 tokens, vocabulary 256).
#include <benchmark/benchmark.h>

#include "core/ops.h"

namespace {

using namespace mobius;

Tensor randn(Shape shape) { return random_normal(std::move(shape), 0, 1, {1, 1}); }

void report(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k) {
  const double flop =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flop / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

// y[rows, out] = x[rows, in] weight[out, in]^T.
void forward(benchmark::State& state, MatmulPrecision precision) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  const Tensor x = randn({rows, in}), weight = randn({out, in});
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        linear(product_operand(x, precision), product_operand(weight, precision)));
  }
  report(state, rows, out, in);
}

// grad_x[rows, in] = grad_y[rows, out] weight[out, in].
void grad_input(benchmark::State& state, MatmulPrecision precision) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  const Tensor grad_y = randn({rows, out}), weight = product_operand(randn({out, in}), precision);
  for (auto _ : state) benchmark::DoNotOptimize(matmul(product_operand(grad_y, precision), weight));
  report(state, rows, in, out);
}

// grad_weight[out, in] = grad_y[rows, out]^T x[rows, in].
void grad_weight(benchmark::State& state, MatmulPrecision precision) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  const Tensor grad_y = product_operand(randn({rows, out}), precision),
               x = product_operand(randn({rows, in}), precision);
  for (auto _ : state) benchmark::DoNotOptimize(matmul(grad_y.transpose(0, 1), x));
  report(state, out, in, rows);
}

void square(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const Tensor a = randn({n, n}), b = randn({n, n});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
  report(state, n, n, n);
}

void layers(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMillisecond)->UseRealTime();
  b->ArgNames({"rows", "in", "out"});
  b->Args({16384, 128, 384});  // qkv
  b->Args({16384, 128, 128});  // output projection
  b->Args({16384, 128, 512});  // MLP up
  b->Args({16384, 512, 128});  // MLP down
  b->Args({512, 128, 8192});   // head, one chunk of the labelled rows
  b->Args({2048, 384, 1152});  // of the language model: qkv
  b->Args({2048, 384, 384});   // output projection
  b->Args({2048, 384, 1024});  // MLP gate and up
  b->Args({2048, 1024, 384});  // MLP down
  b->Args({2048, 384, 256});   // head
}

BENCHMARK(square)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(forward, f32, MatmulPrecision::full)->Apply(layers);
BENCHMARK_CAPTURE(forward, bf16, MatmulPrecision::bf16)->Apply(layers);
BENCHMARK_CAPTURE(grad_input, f32, MatmulPrecision::full)->Apply(layers);
BENCHMARK_CAPTURE(grad_input, bf16, MatmulPrecision::bf16)->Apply(layers);
BENCHMARK_CAPTURE(grad_weight, f32, MatmulPrecision::full)->Apply(layers);
BENCHMARK_CAPTURE(grad_weight, bf16, MatmulPrecision::bf16)->Apply(layers);

}  // namespace
