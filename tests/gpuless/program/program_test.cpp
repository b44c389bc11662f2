// The program as a user runs it, on the CUDA backend and the libraries that stand in for CUDA's:
// it learns recall, resumes on the other device and back, and generates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/e2e/run_test.h"
#include "train/checkpoint/checkpoint.h"

namespace mobius::gpuless_program_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OnTheDevice : public RunTest {
 protected:
  fs::path checkpoint(const std::string& run, int step) const {
    return folder_ / run / "checkpoints" / fmt::format("step-{:08}.h5", step);
  }

  // What the stand-ins counted in one run of the program.
  static nlohmann::json counts_in(const fs::path& report) {
    return nlohmann::json::parse(read_text(report));
  }

  // The largest difference of two checkpoints' parameters.
  static double difference(const fs::path& a, const fs::path& b) {
    const auto left = read_parameters(a), right = read_parameters(b);
    EXPECT_EQ(left.size(), right.size());
    double largest = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto x = left[i].value.to_vector<double>(), y = right[i].value.to_vector<double>();
      for (std::size_t j = 0; j < x.size(); ++j) largest = std::max(largest, std::abs(x[j] - y[j]));
    }
    return largest;
  }
};

// Recall of four pairs in sixteen tokens, by conformal attention.
constexpr const char* kTinyRecall = R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 4, n_test: 32, filler: padding}
model: {d_model: 32, n_layers: 2, n_heads: 1, positions: rope, init_std: 0.2}
attention: {kind: conformal, alpha: 16}
optimizer: {name: adamw, lr: 1.0e-02}
schedule: {kind: constant}
train: {max_steps: 400, batch_size: 16, seed: 1, early_stop: {metric: accuracy, threshold: 0.99}}
eval: {every: 20}
)";

TEST_F(OnTheDevice, LearnsRecall) {
  write_text(config_, kTinyRecall);
  const fs::path report = folder_ / "report.json";
  const Outcome outcome = try_train("run", {"train.device=cuda"},
                                    {.environment = {{"MOBIUS_GPULESS_REPORT", report.string()}}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto summary = nlohmann::json::parse(read_text(folder_ / "run" / "summary.json"));
  EXPECT_EQ(summary["status"], "early_stop") << summary.dump(1);
  EXPECT_GT(counts_in(report)["launches"].get<std::int64_t>(), 1000);
}

TEST_F(OnTheDevice, ResumesWhatTheCpuBeganAndBack) {
  const std::vector<std::string> settings = {"train.max_steps=6", "checkpoint.every=3",
                                             "eval.every=6", "schedule.warmup_steps=0"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = settings;
    all.insert(all.end(), more);
    return all;
  };
  train("cpu", with({"train.device=cpu"}));
  train("cuda", with({"train.device=cuda"}));
  const auto resumed = [&](const std::string& run, const std::string& device,
                           const std::string& from) {
    train(run, with({"train.device=" + device, "--resume", checkpoint(from, 3).string()}));
    return checkpoint(run, 6);
  };
  constexpr double rounding = 2e-4;  // of f32 sums in another order, over six steps of AdamW
  EXPECT_LT(difference(checkpoint("cuda", 6), checkpoint("cpu", 6)), rounding);
  EXPECT_LT(difference(resumed("cuda-after-cpu", "cuda", "cpu"), checkpoint("cpu", 6)), rounding);
  EXPECT_LT(difference(resumed("cpu-after-cuda", "cpu", "cuda"), checkpoint("cpu", 6)), rounding);
  // On one device a run that was resumed is the run that was not, to the bit.
  EXPECT_EQ(difference(resumed("cuda-after-cuda", "cuda", "cuda"), checkpoint("cuda", 6)), 0);
}

TEST_F(OnTheDevice, GeneratesWhatTheCpuDoes) {
  write_text(folder_ / "text.txt", [] {
    std::string text;
    for (int line = 0; line < 200; ++line) text += "to be or not to be, that is the question\n";
    return text;
  }());
  write_text(config_, fmt::format(R"(
task: {{name: lm, text: {}, seq_len: 32, tokenizer: bytes}}
model: {{d_model: 32, n_layers: 1, n_heads: 2, positions: rope}}
attention: {{kind: softmax}}
train: {{max_steps: 40, batch_size: 8}}
optimizer: {{name: adamw, lr: 1.0e-02}}
schedule: {{kind: constant}}
)",
                                  (folder_ / "text.txt").string()));
  train("run", {"train.device=cpu"});
  const auto generate = [&](const std::string& device) {
    const Outcome outcome =
        mobius({"generate", (folder_ / "run").string(), "--prompt", "to be", "--tokens", "24",
                "--temperature", "0", "train.device=" + device});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string on_cpu = generate("cpu");
  EXPECT_THAT(on_cpu, HasSubstr("or not"));
  EXPECT_EQ(generate("cuda"), on_cpu);
}

}  // namespace
}  // namespace mobius::gpuless_program_test
