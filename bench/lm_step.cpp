// Times one training step of a GPT-style language model, with the components of the trainer. Prints
// one JSON line; see bench/README.md for the arguments, the contract, and the PyTorch peer.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/process_memory.h"
#include "bench/training_step.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "nn/attention/attention.h"
#include "nn/language_model.h"

namespace {

using namespace mobius;

struct Arguments {
  std::int64_t vocab = 256, d_model = 384, layers = 6, heads = 6, seq_len = 256, batch = 8;
  std::int64_t warmup = 3, steps = 10;
  std::string attention = "softmax";
  Machine machine;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Times one training step of a GPT-style language model."};
  app.add_option("--vocab", a.vocab);
  app.add_option("--d-model", a.d_model);
  app.add_option("--layers", a.layers);
  app.add_option("--heads", a.heads);
  app.add_option("--seq-len", a.seq_len);
  app.add_option("--batch", a.batch);
  app.add_option("--warmup", a.warmup, "untimed steps");
  app.add_option("--steps", a.steps, "timed steps");
  app.add_option("--attention", a.attention, "attention.kind");
  add_machine_options(app, a.machine);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

ModelOptions model_options(const Arguments& a) {
  ModelOptions options;
  options.d_model = a.d_model;
  options.n_layers = a.layers;
  options.n_heads = a.heads;
  options.mlp = MlpKind::swiglu;
  options.norm = options.final_norm = NormKind::rms_norm;
  options.positions = Positions::rope;
  options.bias = false;
  return options;
}

// Makes uniform tokens, each labelled with the next: the time does not depend on their values.
Batch random_tokens(const Arguments& a, std::int64_t step) {
  Batch batch;
  batch.inputs = Tensor::empty({a.batch, a.seq_len}, DType::i32);
  batch.labels = Tensor::empty({a.batch, a.seq_len}, DType::i32);
  Rng tokens({1, static_cast<std::uint64_t>(step)});
  const auto next = [&] {
    return static_cast<std::int32_t>(tokens.below(static_cast<std::uint64_t>(a.vocab)));
  };
  std::int32_t* const inputs = batch.inputs.data<std::int32_t>();
  std::int32_t* const labels = batch.labels.data<std::int32_t>();
  std::int32_t token = next();
  for (std::int64_t i = 0; i < batch.inputs.numel(); ++i) {
    inputs[i] = token;
    labels[i] = token = next();
  }
  return batch;
}

// A multiply-add is two flop, once forward and twice backward. Every matrix weight is multiplied
// with every token; attention has two products of the model's width forward, over half the square
// of pairs.
double gflop_of(const LanguageModel& model, const Arguments& a) {
  std::int64_t weights = 0;
  for (const auto& [name, value] : model.parameters())
    if (value.ndim() > 1) weights += value.numel();
  const std::int64_t pairs = 6 * a.layers * a.seq_len * a.d_model;
  return 1e-9 * static_cast<double>((6 * weights + pairs) * a.batch * a.seq_len);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const auto attentions = builtin_attentions();
  LanguageModel model(model_options(a), *attentions.choose(a.attention), a.vocab, a.seq_len,
                      /*init_seed=*/1, DType::f32, a.machine.device(), a.machine.precision);
  const std::vector<double> ms = time_steps(
      model, [&](std::int64_t step) { return random_tokens(a, step); }, a.warmup, a.steps);
  const double memory = peak_mb();  // before the large product
  const double device_memory = device_peak_mb(a.machine.device());
  fmt::print(
      R"({{"name": "Mobius", "precision": "{}", "ms": {:.3f}, "ms_min": {:.3f}, "peak_mb": {:.1f}, )"
      R"("device_mb": {:.1f}, "gflop": {:.2f}, "matmul_gflop_s": {:.1f}, "threads": {}}})"
      "\n",
      a.machine.precision_name(), ms[ms.size() / 2], ms.front(), memory, device_memory,
      gflop_of(model, a), matmul_gflop_s(), num_threads());
}
