// One training step on multi-query associative recall, through the parts the trainer uses. Prints
// one JSON line; see bench/README.md for the arguments, the contract, and the PyTorch peer.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "bench/process_memory.h"
#include "core/parallel.h"
#include "data/mqar.h"
#include "nn/attention/attention.h"
#include "nn/language_model.h"
#include "train/optimizer.h"
#include "train/step.h"

namespace {

using namespace mobius;

struct Arguments {
  std::int64_t vocab = 8192, d_model = 128, layers = 2, heads = 1, seq_len = 256, pairs = 16;
  std::int64_t batch = 64, warmup = 3, steps = 10;
  std::string attention = "softmax";
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Times one training step on multi-query associative recall."};
  app.add_option("--vocab", a.vocab);
  app.add_option("--d-model", a.d_model);
  app.add_option("--layers", a.layers);
  app.add_option("--heads", a.heads);
  app.add_option("--seq-len", a.seq_len);
  app.add_option("--pairs", a.pairs);
  app.add_option("--batch", a.batch);
  app.add_option("--warmup", a.warmup, "untimed steps");
  app.add_option("--steps", a.steps, "timed steps");
  app.add_option("--attention", a.attention, "attention.kind");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

std::unique_ptr<Task> make_task(const Arguments& a) {
  MqarOptions options;
  options.vocab = static_cast<std::int32_t>(a.vocab);
  options.seq_len = a.seq_len;
  options.n_pairs = a.pairs;
  return options.build(/*seed=*/1);
}

std::vector<double> time_steps(const Arguments& a) {
  const std::unique_ptr<Task> task = make_task(a);
  ModelOptions options;
  options.d_model = a.d_model;
  options.n_layers = a.layers;
  options.n_heads = a.heads;
  options.dropout = 0.1;
  const auto attentions = builtin_attentions();
  LanguageModel model(options, *attentions.choose(a.attention), a.vocab, a.seq_len,
                      /*init_seed=*/1);
  const auto optimizer = AdamWOptions().build(trained_parameters(model));
  std::vector<double> milliseconds;
  for (std::int64_t step = 1; step <= a.warmup + a.steps; ++step) {
    const Batch batch = task->batch(Split::train, step, a.batch);
    const auto start = std::chrono::steady_clock::now();
    model.zero_grad();
    accumulate_gradients(model, batch, /*micro_batches=*/1, /*seed=*/1, step);
    optimizer->step(1e-3);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (step > a.warmup) milliseconds.push_back(took.count());
  }
  return milliseconds;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  std::vector<double> ms = time_steps(arguments);
  std::sort(ms.begin(), ms.end());
  fmt::print(
      R"({{"name": "Mobius", "ms": {:.2f}, "ms_min": {:.2f}, "peak_mb": {:.1f}, "threads": {}}})"
      "\n",
      ms[ms.size() / 2], ms.front(), peak_mb(), num_threads());
}
