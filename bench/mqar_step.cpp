// Times one training step on multi-query associative recall, with the components of the trainer.
// Prints one JSON line; see bench/README.md for the arguments, the contract, and the PyTorch peer.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/process_memory.h"
#include "bench/training_step.h"
#include "core/parallel.h"
#include "data/mqar.h"
#include "nn/attention/attention.h"
#include "nn/language_model.h"

namespace {

using namespace mobius;

struct Arguments {
  std::int64_t vocab = 8192, d_model = 128, layers = 2, heads = 1, seq_len = 256, pairs = 16;
  std::int64_t batch = 64, warmup = 3, steps = 10;
  std::string attention = "softmax";
  Machine machine;
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
  add_machine_options(app, a.machine);
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

std::vector<double> time_recall(const Arguments& a) {
  const std::unique_ptr<Task> task = make_task(a);
  ModelOptions options;
  options.d_model = a.d_model;
  options.n_layers = a.layers;
  options.n_heads = a.heads;
  options.dropout = 0.1;
  const auto attentions = builtin_attentions();
  LanguageModel model(options, *attentions.choose(a.attention), a.vocab, a.seq_len,
                      /*init_seed=*/1, DType::f32, a.machine.device(), a.machine.precision);
  const auto batch_of = [&](std::int64_t step) {
    return task->batch(Split::train, static_cast<std::uint64_t>(step), a.batch);
  };
  return time_steps(model, batch_of, a.warmup, a.steps);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const std::vector<double> ms = time_recall(arguments);
  fmt::print(R"({{"name": "Mobius", "ms": {:.3f}, "ms_min": {:.3f}, "peak_mb": {:.1f}, )"
             R"("device_mb": {:.1f}, "threads": {}}})"
             "\n",
             ms[ms.size() / 2], ms.front(), peak_mb(), device_peak_mb(arguments.machine.device()),
             num_threads());
}
