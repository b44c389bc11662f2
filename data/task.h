// Tasks: what a model is trained and tested on.
//
// A task knows nothing of models or trainers and can be used alone, for instance to write the data
// of multi-query associative recall for a model of one's own:
//
//   MqarOptions options;                       // data/mqar.h
//   options.vocab = 8192;
//   const auto task = options.build(/*seed=*/123);
//   const Batch batch = task->sequences(Split::train, /*group=*/0, /*first=*/0, /*count=*/64);
//   const std::int32_t* tokens = batch.inputs.data<std::int32_t>();  // 64 x seq_len, row-major
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ops.h"

namespace mobius {

class Schema;
class Tokenizer;
struct TokenizerModel;

/// Sequences of one length, in host memory. Labels are aligned with inputs: labels[b, t] is what a
/// model that has read inputs[b, 0..t] should say, so nothing downstream shifts them again.
struct Batch {
  Tensor inputs;  ///< i32 [batch, n], in [0, vocab_size)
  Tensor labels;  ///< i32 [batch, n], in [0, vocab_size) or ignored_label
  /// u8 [batch, n]: 1 where the position counts in the accuracy. Undefined: wherever it is
  /// labelled.
  Tensor scored;
  int group = 0;  ///< index into Task::groups() of every sequence in the batch
};

/// The splits share no sequence.
enum class Split { train, test };

std::string_view name_of(Split split);

/// A source of sequences. Each sequence is a function of (seed, split, group, index) alone, not of
/// what was asked before, the thread, or how sequences are gathered into batches. Hence training
/// resumes at any step, and ranks or micro-batches that share one batch take disjoint parts of its
/// index range:
///
///   whole batch:   sequences(Split::train, group_at(step), step * size, size)
///   part r of R:   sequences(Split::train, group_at(step), step * size + r * size / R, size / R)
///
/// Every method is const and may be called from several threads at once.
class Task {
 public:
  virtual ~Task() = default;

  /// Tokens and labels lie below this.
  virtual std::int64_t vocab_size() const = 0;
  /// Length of the longest inputs row.
  virtual std::int64_t max_seq_len() const = 0;
  /// Names of the kinds of sequences that are tested apart, such as "n_pairs=16". At least one.
  virtual const std::vector<std::string>& groups() const = 0;
  /// Number of test sequences in each group; their indices are 0 .. test_size() - 1.
  virtual std::int64_t test_size() const = 0;
  /// Mean loss (nats per labelled position) that no model can beat on average, where it is not 0.
  virtual std::optional<double> loss_floor() const { return std::nullopt; }
  /// Whether the sequences are text: then the loss is told as perplexity, too.
  virtual bool is_language() const { return false; }
  /// Bytes of text that a token of the test sequences stands for, on average: what makes losses
  /// comparable between tokenisers, as bits per byte. Nothing where that is not known, or where the
  /// tokens do not keep the text: warnings() then says so.
  virtual std::optional<double> bytes_per_token() const { return std::nullopt; }
  /// What makes text of the tokens; null where they stand for none. A checkpoint of a run on this
  /// task carries its model.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  /// Tells data that come from files from others, so that a run that goes on notices a change.
  /// Empty where sequences follow from the settings alone.
  virtual std::string fingerprint() const { return ""; }
  /// The data in a line, for the beginning of a run. Empty where there is nothing to say.
  virtual std::string summary() const { return ""; }
  /// What is not as it should be in the data, a line each: for whoever trains or tests on them.
  virtual std::vector<std::string> warnings() const { return {}; }

  /// The group that training step `step` draws from. A whole step has one group, so batches stay
  /// rectangular though groups differ in sequence length.
  virtual int group_at(std::uint64_t /*step*/) const { return 0; }
  /// Sequences first, ..., first + count - 1 of a group. Throws Error unless count > 0 and `group`
  /// indexes groups().
  virtual Batch sequences(Split split, int group, std::uint64_t first,
                          std::int64_t count) const = 0;

  /// Train: the whole batch of step `step`; no sequence repeats while batch_size stays the same.
  /// Test: batch `step` in [0, test_batches(batch_size)) of one pass over the test sequences, group
  /// after group; the last batch of each group may be smaller.
  Batch batch(Split split, std::uint64_t step, std::int64_t batch_size) const;
  /// Number of batches in one pass over the test sequences of all groups.
  std::uint64_t test_batches(std::int64_t batch_size) const;

 protected:
  /// The stream of random numbers behind one sequence. For a given task and size, no two pairs
  /// (split, index) share one: stream_id is one-to-one in its last number.
  static std::uint64_t sequence_stream(std::string_view task, std::uint64_t size, Split split,
                                       std::uint64_t index);
  /// Throws Error unless the arguments of sequences() are in range.
  void check_request(int group, std::int64_t count) const;
};

/// A setting of a task that says where files lie: its key, beside the task's name, and its value, a
/// path or a pattern; "" where there is none.
struct DataPlace {
  std::string key;
  std::string* path;
};

/// Sizes of a task, each at least 1.
struct TaskSize {
  std::int64_t vocab = 1;    ///< Task::vocab_size()
  std::int64_t seq_len = 1;  ///< Task::max_seq_len()
};

/// The settings of one kind of task.
class TaskOptions {
 public:
  virtual ~TaskOptions() = default;
  virtual void describe(Schema& schema) = 0;
  /// The settings that say where the data lie, not what they are: a run may go on, and a checkpoint
  /// be scored, with others, as long as Task::fingerprint() stays the same.
  virtual std::vector<DataPlace> places() { return {}; }
  /// Throws the ConfigError that build() would for settings that do not fit together, but need not
  /// do what takes long or depends on files.
  virtual void check(std::uint64_t seed) const { build(seed); }
  /// The sizes, as far as they follow from settings that check() accepts, without any file; 1 where
  /// they do not.
  virtual TaskSize least_size() const { return {}; }
  /// Throws ConfigError when the settings do not fit together.
  virtual std::unique_ptr<Task> build(std::uint64_t seed) const = 0;
  /// The same, of a run whose checkpoint holds the tokeniser, which is then not made again.
  virtual std::unique_ptr<Task> rebuild(std::uint64_t seed, const TokenizerModel&) const {
    return build(seed);
  }
};

}  // namespace mobius
