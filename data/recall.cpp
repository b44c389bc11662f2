#include "data/recall.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/options/schema.h"
#include "core/options/validate.h"
#include "core/rng.h"

namespace mobius {
namespace {

class RecallTask final : public Task {
 public:
  RecallTask(const RecallOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  std::int64_t vocab_size() const override { return options_.vocab; }
  std::int64_t max_seq_len() const override { return options_.seq_len - 1; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return options_.n_test; }
  std::optional<double> loss_floor() const override {
    const auto half = static_cast<double>(options_.seq_len / 2);
    return (half - 1) / (2 * half - 1) * std::log(static_cast<double>(options_.vocab));
  }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    const std::int64_t n = max_seq_len();
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(options_.seq_len));
    Batch batch = make_batch(count, n, [&](std::uint64_t row, auto inputs, auto labels) {
      write_tokens(split, first + row, tokens);
      split_next_token(tokens, inputs, labels);
    });
    // The label of position t is token t + 1, which repeats token t + 1 - L from t + 1 = L on.
    batch.scored = Tensor::ones({count, n}, DType::u8);
    batch.scored.slice(1, 0, options_.seq_len / 2 - 1).fill(0);
    return batch;
  }

 private:
  void write_tokens(Split split, std::uint64_t index, std::span<std::int32_t> tokens) const {
    const auto size = static_cast<std::uint64_t>(options_.seq_len);
    Rng rng({seed_, sequence_stream("recall", size, split, index)});
    const auto middle = tokens.begin() + static_cast<std::ptrdiff_t>(tokens.size() / 2);
    std::generate(tokens.begin(), middle, [&] {
      return static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(options_.vocab)));
    });
    std::copy(tokens.begin(), middle, middle);
  }

  const RecallOptions options_;
  const std::uint64_t seed_;
  const std::vector<std::string> groups_{"recall"};
};

}  // namespace

void RecallOptions::describe(Schema& schema) {
  schema.field("vocab", vocab, "tokens to draw from").at_least(2);
  schema.field("seq_len", seq_len, "tokens drawn and their repetition together, even").at_least(2);
  schema.field("n_test", n_test, "test sequences").at_least(1);
  schema.check("seq_len", [this] {
    if (seq_len % 2 != 0)
      throw ConfigError("expected an even number (tokens and their repetition), got {}", seq_len);
  });
}

TaskSize RecallOptions::least_size() const { return {vocab, seq_len - 1}; }

std::unique_ptr<Task> RecallOptions::build(std::uint64_t seed) const {
  validate_options(*this, "recall");
  return std::make_unique<RecallTask>(*this, seed);
}

}  // namespace mobius
