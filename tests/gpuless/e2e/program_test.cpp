// The program as a user runs it, on the CUDA backend and the libraries that stand in for CUDA's:
// it learns recall, and generates what the CPU does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/run_test.h"

namespace mobius::gpuless_program_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OnTheDevice : public RunTest {
 protected:
  // A machine with a GPU, as far as the program can tell.
  Surroundings with_gpu() const {
    return {.environment = {{"LD_LIBRARY_PATH", MOBIUS_GPULESS_LIBRARIES},
                            {"MOBIUS_GPULESS_REPORT", report_.string()}}};
  }
  std::int64_t launches() const {
    return nlohmann::json::parse(read_text(report_))["launches"].get<std::int64_t>();
  }

  const fs::path report_ = folder_ / "report.json";
};

// Recall of two pairs in twelve tokens, by conformal attention on tensor cores. The CPU needs 280
// steps.
constexpr const char* kTinyRecall = R"(
task: {name: mqar, vocab: 16, seq_len: 12, n_pairs: 2, n_test: 64, filler: random_unused}
model: {d_model: 32, n_layers: 2, n_heads: 1, positions: rope, init_std: 0.18, mlp: swiglu, norm: rms_norm}
attention: {kind: conformal, alpha: 16}
optimizer: {name: adamw, lr: 6.0e-03, betas: [0.9, 0.99], weight_decay: 0.01}
schedule: {kind: constant, warmup_steps: 20}
train: {max_steps: 800, batch_size: 64, seed: 1, precision: bf16, early_stop: {metric: accuracy, threshold: 0.99}}
eval: {every: 20}
)";

TEST_F(OnTheDevice, LearnsRecall) {
  write_text(config_, kTinyRecall);
  const Outcome outcome = try_train("run", {"train.device=cuda"}, with_gpu());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto summary = nlohmann::json::parse(read_text(folder_ / "run" / "summary.json"));
  EXPECT_EQ(summary["status"], "early_stop") << summary.dump(1);
  EXPECT_GT(launches(), 1000);
}

TEST_F(OnTheDevice, GeneratesWhatTheCpuDoes) {
  write_text(folder_ / "text.txt", [] {
    std::string text;
    for (int line = 0; line < 200; ++line) text += "to be or not to be, that is the question\n";
    return text;
  }());
  write_text(config_, fmt::format(R"(
task: {{name: lm, text: {}, seq_len: 32, tokenizer: byte}}
model: {{d_model: 32, n_layers: 1, n_heads: 2, positions: rope}}
attention: {{kind: softmax}}
train: {{max_steps: 200, batch_size: 8}}
optimizer: {{name: adamw, lr: 5.0e-03}}
schedule: {{kind: constant}}
)",
                                  (folder_ / "text.txt").string()));
  train("run");
  const auto generate = [&](const Surroundings& around) {
    const Outcome outcome = mobius({"generate", (folder_ / "run").string(), "--prompt", "to be",
                                    "--tokens", "24", "--temperature", "0"},
                                   around);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string on_cpu = generate({});
  EXPECT_THAT(on_cpu, HasSubstr("the question"));
  EXPECT_EQ(generate(with_gpu()), on_cpu);
  EXPECT_GT(launches(), 100);
}

}  // namespace
}  // namespace mobius::gpuless_program_test
