// Tasks: the data that a model is trained and tested on.
//
// A task does not depend on models or trainers and can be used alone, for instance to generate data
// of multi-query associative recall for another program:
//
//   MqarOptions options;                       // data/mqar.h
//   options.vocab = 8192;
//   const auto task = options.build(/*seed=*/123);
//   const Batch batch = task->sequences(Split::train, /*group=*/0, /*first=*/0, /*count=*/64);
//   const std::int32_t* tokens = batch.inputs.data<std::int32_t>();  // 64 x seq_len, row-major
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops.h"

namespace mobius {

class Schema;
class Tokenizer;
struct TokenizerModel;

/// Sequences of one length, in host memory. Labels are aligned with inputs: labels[b, t] is the
/// target after inputs[b, 0..t], so later code must not shift them.
struct Batch {
  Tensor inputs;  ///< i32 [batch, n], in [0, vocab_size)
  Tensor labels;  ///< i32 [batch, n], in [0, vocab_size) or ignored_label
  /// u8 [batch, n]: 1 for positions that count in the accuracy. If undefined, all labelled ones do.
  Tensor scored;
  int group = 0;  ///< index into Task::groups() of every sequence in the batch
};

/// Next-token prediction: splits n + 1 tokens into inputs[t] = tokens[t] and labels[t] =
/// tokens[t + 1] for t < n. Only this function shifts labels against inputs. `inputs` and `labels`
/// must hold tokens.size() - 1 elements each.
inline void split_next_token(std::span<const std::int32_t> tokens, std::span<std::int32_t> inputs,
                             std::span<std::int32_t> labels) {
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin());
  std::copy(tokens.begin() + 1, tokens.end(), labels.begin());
}

/// The splits share no sequence.
enum class Split { train, test };

std::string_view name_of(Split split);

/// A source of sequences. Each sequence depends only on (seed, split, group, index), not on earlier
/// requests, the thread, or the batch that it is part of. Training can therefore resume at any
/// step, and ranks or micro-batches that share one batch take disjoint parts of its index range:
///
///   whole batch:   sequences(Split::train, group_at(step), step * size, size)
///   part r of R:   sequences(Split::train, group_at(step), step * size + r * size / R, size / R)
///
/// Every method is const and may be called from several threads at once.
class Task {
 public:
  virtual ~Task() = default;

  /// All tokens and labels are below this.
  virtual std::int64_t vocab_size() const = 0;
  /// Length of the longest row of inputs.
  virtual std::int64_t max_seq_len() const = 0;
  /// Names of the groups of sequences that are evaluated separately, such as "n_pairs=16". At least
  /// one.
  virtual const std::vector<std::string>& groups() const = 0;
  /// Number of test sequences in each group; their indices are 0 .. test_size() - 1.
  virtual std::int64_t test_size() const = 0;
  /// Mean loss (nats per labelled position) that no model can beat on average, if it is not 0.
  virtual std::optional<double> loss_floor() const { return std::nullopt; }
  /// Whether the sequences are text: the loss is then also reported as perplexity.
  virtual bool is_language() const { return false; }
  /// Mean bytes of text per token of the test sequences. They make losses comparable between
  /// tokenisers, as bits per byte. Empty if unknown, or if the tokens do not preserve the text,
  /// which warnings() then says.
  virtual std::optional<double> bytes_per_token() const { return std::nullopt; }
  /// The tokeniser that decodes the tokens; null if they are not text. Checkpoints of runs on this
  /// task store its model.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  /// Identifies data that come from files: a resumed run detects a change by it. Empty if the
  /// settings alone determine the sequences.
  virtual std::string fingerprint() const { return ""; }
  /// One line about the data, printed at the start of a run; may be empty.
  virtual std::string summary() const { return ""; }
  /// Problems of the data, one line each, to be shown before training or evaluation.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// The group that training step `step` draws from. A step has one group: batches stay rectangular
  /// although groups differ in sequence length.
  virtual int group_at(std::uint64_t /*step*/) const { return 0; }
  /// Returns sequences first, ..., first + count - 1 of a group. Throws Error unless count > 0 and
  /// `group` indexes groups().
  virtual Batch sequences(Split split, int group, std::uint64_t first,
                          std::int64_t count) const = 0;

  /// Split::train: returns the whole batch of step `step`; no sequence repeats while batch_size is
  /// constant. Split::test: returns batch `step` in [0, test_batches(batch_size)) of one pass over
  /// the test sequences, group after group; the last batch of each group may be smaller.
  Batch batch(Split split, std::uint64_t step, std::int64_t batch_size) const;
  /// Number of batches in one pass over the test sequences of all groups.
  std::uint64_t test_batches(std::int64_t batch_size) const;

 protected:
  /// Returns the random stream of one sequence. For a given task and size, no two pairs
  /// (split, index) share a stream: stream_id is one-to-one in its last number.
  static std::uint64_t sequence_stream(std::string_view task, std::uint64_t size, Split split,
                                       std::uint64_t index);
  /// Makes a batch of rows of `n` tokens: write(row, inputs, labels) fills each row.
  template <class Write>
  static Batch make_batch(std::int64_t count, std::int64_t n, Write&& write) {
    Batch batch;
    batch.inputs = Tensor::empty({count, n}, DType::i32);
    batch.labels = Tensor::empty({count, n}, DType::i32);
    const auto width = static_cast<std::size_t>(n);
    for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(count); ++row)
      write(row, std::span(batch.inputs.data<std::int32_t>() + row * width, width),
            std::span(batch.labels.data<std::int32_t>() + row * width, width));
    return batch;
  }
  /// Throws Error unless the arguments of sequences() are in range.
  void check_request(int group, std::int64_t count) const;
};

/// A setting of a task that names files: its key in the task's section, and its value, a path or a
/// pattern or "".
struct DataPlace {
  std::string key;
  std::string* path;
};

/// Lower bounds of the sizes of a task, each at least 1.
struct TaskSize {
  std::int64_t vocab = 1;    ///< Task::vocab_size()
  std::int64_t seq_len = 1;  ///< Task::max_seq_len()
};

/// The settings of one kind of task.
class TaskOptions {
 public:
  virtual ~TaskOptions() = default;
  virtual void describe(Schema& schema) = 0;
  /// The settings that say where the data are, not what they are. They may change when a run is
  /// resumed or a checkpoint evaluated, as long as Task::fingerprint() is unchanged.
  virtual std::vector<DataPlace> places() { return {}; }
  /// Throws the ConfigError of build() for settings that do not fit together. May omit checks that
  /// are slow or need files.
  virtual void check(std::uint64_t seed) const { build(seed); }
  /// Returns the sizes, as far as settings that check() accepts determine them without files, else
  /// 1.
  virtual TaskSize least_size() const { return {}; }
  /// Throws ConfigError if the settings do not fit together.
  virtual std::unique_ptr<Task> build(std::uint64_t seed) const = 0;
  /// Like build(), with the tokeniser that a checkpoint holds.
  virtual std::unique_ptr<Task> rebuild(std::uint64_t seed, const TokenizerModel&) const {
    return build(seed);
  }
};

}  // namespace mobius
