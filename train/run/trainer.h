// Trains the model that a configuration describes, and keeps the run's folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/comm/communicator.h"
#include "train/checkpoint/checkpoint.h"
#include "train/config/config.h"
#include "train/io/stop_signal.h"
#include "train/optim/gradient_sum.h"
#include "train/recording/metrics.h"
#include "train/recording/tensorboard.h"
#include "train/recording/training_record.h"
#include "train/run/evaluation.h"
#include "train/run/experiment.h"
#include "train/run/progress.h"
#include "train/run/run_folder.h"
#include "train/run/step.h"

namespace mobius {

/// One run, from its first step or from a checkpoint. All ranks do the same, each with its share of
/// every batch; only the root writes.
class Trainer {
 public:
  /// Takes the folder over: writes config.yaml and goes on with metrics.jsonl. `start` is the
  /// checkpoint to go on from; the experiment's tensors are filled from it. Throws ConfigError
  /// where its configuration differs in what makes a run what it is.
  Trainer(Config& config, Experiment experiment, const RunFolder& folder,
          const std::optional<std::filesystem::path>& start, const Registries& known,
          Progress& progress, Communicator& communicator);

  /// Trains until the configured end or a stop signal, then saves a checkpoint and summary.json. A
  /// signal ends a pass over the test sequences, too: nothing of it is kept, and the run that goes
  /// on from the checkpoint begins with the whole pass.
  /// Throws TrainingDiverged where a number is not finite: a loss, also of the test sequences, a
  /// gradient, or what an update made. No checkpoint is then written, and none is removed.
  RunSummary run(const StopSignal& stop);

 private:
  using Clock = std::chrono::steady_clock;

  void restore(const std::filesystem::path& path, const Registries& known);
  void restore_best(const std::filesystem::path& path, Metric recorded_metric,
                    const Registries& known);
  void announce() const;
  RunStatus train(const StopSignal& stop);
  std::optional<RunStatus> finish_resumed_step(const StopSignal& stop);
  std::optional<RunStatus> finish_step(const StopSignal& stop);
  bool test(const StopSignal& stop);
  StepBatch make_batch(std::uint64_t step) const;
  void train_step(const StepBatch& batch);
  void read_step();
  void report_step();
  void log_step(double tokens_per_s);
  void log_test(const Evaluation& evaluation);
  void log(const MetricsLine& line);
  void write_maps() const;
  void note_test_score(const Score& score);
  void save(const std::filesystem::path& path) const;
  void require_finite_state() const;
  void save_step();
  void write_result(const RunSummary& summary) const;
  RunSummary summarize(RunStatus status) const;
  void require_same_tokenizer(const CheckpointHeader& header,
                              const std::filesystem::path& path) const;
  void require_same_data(const CheckpointHeader& header, const std::filesystem::path& path) const;
  std::optional<LanguageScore> batch_language() const;
  std::optional<LanguageScore> test_language(const Evaluation& evaluation) const;
  std::vector<std::pair<std::string, Score>> named_groups(const Evaluation& evaluation) const;
  bool is_due(std::int64_t every) const { return every > 0 && step_ % every == 0; }
  bool is_last() const { return step_ >= config_.train.max_steps; }
  bool is_good_enough() const { return config_.train.early_stop.is_reached(evaluation_->total); }

  Config& config_;
  Experiment experiment_;
  const RunFolder& folder_;
  Progress& progress_;
  const std::string data_;  // its fingerprint
  Communicator& communicator_;
  GradientSum gradient_sum_;

  std::int64_t step_ = 0;  // done
  TrainingRecord record_;
  std::optional<Evaluation> evaluation_;
  std::unique_ptr<MetricsLog> metrics_;  // the root's
  std::unique_ptr<EventLog> events_;     // the same for TensorBoard, where that is asked for

  // Of the last step.
  std::optional<StepScore> unread_score_;
  Score batch_score_;             // as last read
  NamedNumbers batch_summaries_;  // of a step that has a line of metrics
  double learning_rate_ = 0;
  double grad_norm_ = 0;  // as last read

  // Since the last line of metrics, and since this process began.
  double logged_seconds_ = 0;
  std::int64_t logged_tokens_ = 0;
  std::int64_t first_step_ = 0;
  Clock::time_point started_ = Clock::now();
};

/// The whole of `mobius train`: checks the folder, builds, resumes, trains. Called by all ranks,
/// with the same configuration.
RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop, Communicator& communicator);
/// The same in one process.
RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop);

}  // namespace mobius
