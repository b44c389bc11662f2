// A task whose sequences differ in their number of labels. Environment variables make it log what a
// rank reads, and end one rank:
//
//   UNEVEN_LOG=PATH                 each rank appends the training sequences it reads to PATH-RANK
//   UNEVEN_FAILURE=exception|kill   ends rank 1 this way, at training sequence 250
#pragma once

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/launch.h"
#include "core/error.h"
#include "core/options/schema.h"
#include "core/rng.h"
#include "train/config/config.h"

namespace mobius {

struct UnevenOptions final : TaskOptions {
  std::int64_t vocab = 32;
  std::int64_t seq_len = 16;
  std::int64_t n_test = 56;

  void describe(Schema& schema) override {
    schema.field("vocab", vocab, "tokens").positive();
    schema.field("seq_len", seq_len, "tokens per sequence").positive();
    schema.field("n_test", n_test, "test sequences").positive();
  }
  std::unique_ptr<Task> build(std::uint64_t seed) const override;
};

/// Sequence i is labelled at i % (seq_len + 1) of its positions. A label is the next token of a
/// random walk in which every token has two successors, which can be learned.
class UnevenTask final : public Task {
 public:
  UnevenTask(const UnevenOptions& options, std::uint64_t seed)
      : options_(options),
        seed_(seed),
        environment_(process_environment()),
        rank_(launch_of(environment_).rank) {}

  std::int64_t vocab_size() const override { return options_.vocab; }
  std::int64_t max_seq_len() const override { return options_.seq_len; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return options_.n_test; }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    const std::uint64_t end = first + static_cast<std::uint64_t>(count);
    if (split == Split::train) {
      note(first, end);
      fail_where_asked(end);
    }
    std::vector<std::int32_t> inputs, labels;
    for (std::uint64_t index = first; index < end; ++index) append(split, index, inputs, labels);
    const Shape shape{count, options_.seq_len};
    return {Tensor::from(inputs, shape), Tensor::from(labels, shape), {}, 0};
  }

 private:
  void append(Split split, std::uint64_t index, std::vector<std::int32_t>& inputs,
              std::vector<std::int32_t>& labels) const {
    const auto vocab = static_cast<std::uint64_t>(options_.vocab);
    const auto length = static_cast<std::uint64_t>(options_.seq_len);
    Rng rng({seed_, sequence_stream("uneven", vocab, split, index)});
    std::uint64_t token = rng.below(vocab);
    for (std::uint64_t t = 0; t < length; ++t) {
      inputs.push_back(static_cast<std::int32_t>(token));
      token = (3 * token + 1 + rng.below(2)) % vocab;
      const bool is_labelled = t < index % (length + 1);
      labels.push_back(is_labelled ? static_cast<std::int32_t>(token)
                                   : static_cast<std::int32_t>(ignored_label));
    }
  }

  std::string asked(const std::string& variable) const {
    const auto entry = environment_.find(variable);
    return entry == environment_.end() ? "" : entry->second;
  }

  void note(std::uint64_t first, std::uint64_t end) const {
    const std::string log = asked("UNEVEN_LOG");
    if (log.empty()) return;
    std::ofstream file(log + "-" + std::to_string(rank_), std::ios::app);
    for (std::uint64_t index = first; index < end; ++index) file << index << "\n";
  }

  void fail_where_asked(std::uint64_t end) const {
    if (rank_ != 1 || end <= 250) return;
    const std::string how = asked("UNEVEN_FAILURE");
    if (how == "kill") std::raise(SIGKILL);
    if (how == "exception") throw Error("the task has had enough");
  }

  const UnevenOptions options_;
  const std::uint64_t seed_;
  const Environment environment_;
  const int rank_;
  const std::vector<std::string> groups_{"uneven"};
};

inline std::unique_ptr<Task> UnevenOptions::build(std::uint64_t seed) const {
  return std::make_unique<UnevenTask>(*this, seed);
}

inline Registries registries_with_uneven_task() {
  Registries known;
  known.tasks.add<UnevenOptions>("uneven", "sequences with different numbers of labels");
  return known;
}

}  // namespace mobius
