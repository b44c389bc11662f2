// The configuration of a run: one YAML file, read into typed options and checked before anything
// starts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options/registry.h"
#include "core/options/schema.h"
#include "data/tasks.h"
#include "nn/attention/attention.h"
#include "nn/model_options.h"
#include "train/config/document.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/recording/score.h"
#include "train/studies/study.h"

namespace mobius {

/// The kinds a configuration may choose from. Made once, in main(), and handed down.
struct Registries {
  Registry<TaskOptions> tasks = builtin_tasks();
  Registry<AttentionOptions> attentions = builtin_attentions();
  Registry<OptimizerOptions> optimizers = builtin_optimizers();
  Registry<Study> studies = builtin_studies();  // of `mobius experiment`
};

/// When to end before `max_steps`.
struct EarlyStopOptions {
  Metric metric = Metric::accuracy;
  std::optional<double> threshold;  ///< without one, training runs to max_steps

  void describe(Schema& schema);
  /// Whether the test score is good enough to stop.
  bool is_reached(const Score& test) const;
};

struct TrainOptions {
  std::int64_t max_steps = 1000;
  std::int64_t batch_size = 64;                       ///< sequences a step
  std::int64_t accumulation_steps = 1;                ///< micro-batches a step is computed in
  MatmulPrecision precision = MatmulPrecision::full;  ///< of matrix products
  std::uint64_t seed = 1;
  std::optional<double> clip_grad_norm = 1.0;
  EarlyStopOptions early_stop;
  std::string device = "auto";  ///< auto | cpu | cuda
  int threads = 0;
  std::int64_t log_every = 10;

  void describe(Schema& schema);
  std::int64_t micro_batch_size() const { return batch_size / accumulation_steps; }
};

/// How several ranks share the work. A single rank ignores it.
struct DistributedOptions {
  int zero_stage = 0;           ///< 1: optimiser state is spread over the ranks
  std::int64_t bucket_mib = 4;  ///< of gradients that travel together

  void describe(Schema& schema);
};

struct EvalOptions {
  std::int64_t every = 100;     ///< steps; 0: at the end alone
  bool diagnostics = false;     ///< write what each attention head says about itself
  bool attention_maps = false;  ///< write the weights on one test sequence when the run ends
  std::vector<std::int64_t> map_layers{};  ///< of these, counted from 1; empty: of all
  std::vector<std::int64_t> map_heads{};   ///< in each of them

  void describe(Schema& schema);
};

struct CheckpointOptions {
  std::int64_t every = 500;  ///< steps; 0: at the end alone
  std::int64_t keep_last = 2;
  bool keep_best = true;
  Metric metric = Metric::loss;

  void describe(Schema& schema);
};

struct OutputOptions {
  std::string dir;
  bool tensorboard = true;  ///< write event files beside metrics.jsonl

  void describe(Schema& schema);
};

/// Everything a run depends on. It must not outlive the registries. It does not move because
/// schemas refer to its members.
struct Config {
  explicit Config(const Registries& known);
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;

  Chosen<TaskOptions> task;
  ModelOptions model;
  Chosen<AttentionOptions> attention;
  Chosen<OptimizerOptions> optimizer;
  ScheduleOptions schedule;
  TrainOptions train;
  DistributedOptions distributed;
  EvalOptions eval;
  CheckpointOptions checkpoint;
  OutputOptions output;

  void describe(Schema& schema);

 private:
  const Registries& known_;
};

/// Reads and checks a configuration; errors are those of read_config(). The output folder is
/// runs/NAME by default, with the document's name without extension.
std::unique_ptr<Config> make_config(const ConfigDocument& document, const Registries& known);
/// Reads the text that a checkpoint or a run's folder holds, called `name` in messages.
std::unique_ptr<Config> parse_config(const std::string& text, const std::string& name,
                                     const Registries& known,
                                     const std::vector<std::string>& overrides = {});

/// All values as YAML, defaults included; reads back to the same configuration.
std::string resolved_yaml(Config& config);

/// Any of these keys makes a document a comparison of runs (train/compare/comparison_file.h).
/// Returns the first that is there, or null for the configuration of one run.
inline constexpr std::array<std::string_view, 3> comparison_keys = {"variations", "grid", "base"};
const ConfigEntry* find_comparison_key(const ConfigDocument& document);

/// A key whose value differs between two configurations. A missing value is "".
struct ConfigChange {
  std::string key;
  std::string before;
  std::string after;
};
/// Lists changes in the order of `mobius config help`, so that a new kind of task comes before its
/// keys. Keys that only `after` has come last.
std::vector<ConfigChange> changes(Config& before, Config& after);

/// Whether the key, such as "task.text", only says where the task's data lie.
bool is_data_place(Config& config, const std::string& key);

/// Whether a run may be continued with another value of this key. The task, the model, the
/// attention, the kind of optimiser, the seed and the batch size must stay. The rest (learning
/// rate, length, evaluation, output, ...) may change, and so may the places of data, whose content
/// has a fingerprint.
bool may_change_on_resume(Config& config, const std::string& key);

}  // namespace mobius
