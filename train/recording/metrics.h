// What a run writes down, metrics.jsonl and summary.json, and how they are read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/diagnostics.h"
#include "train/io/file.h"
#include "train/recording/perplexity.h"
#include "train/recording/score.h"

namespace mobius {

/// One line of metrics.jsonl, which leaves out fields without a value. A value that is not finite
/// is null.
struct MetricsLine {
  std::int64_t step = 0;  ///< training steps done
  std::string split;      ///< "train": the batch of this step; "test": all test sequences
  double loss = 0;        ///< nats per labelled position
  double accuracy = 0;
  std::optional<LanguageScore> language = {};  ///< "perplexity" and "bits_per_byte"
  std::optional<double> lr = {};
  std::optional<double> grad_norm;  ///< before clipping
  std::optional<double> tokens_per_s;
  NamedNumbers summaries;  ///< DiagnosticsSink::summaries(), each under its name
  NamedScores groups;      ///< by name; written if there are several
  std::vector<LayerDiagnostics> attention = {};  ///< written unless empty
};

/// The numbers of a line, finite or not, under names such as "test/loss", "train/lr",
/// "test/n_pairs=16/accuracy" and "test/layer_1/alpha/head_2".
NamedNumbers scalars_of(const MetricsLine& line);

/// Appends to a run's metrics.jsonl, a whole line at a time.
class MetricsLog {
 public:
  /// Keeps the train lines up to `step` and the test lines up to `tested_step`, so that the file
  /// has each step once; none if `step` is 0. Throws Error.
  MetricsLog(const std::filesystem::path& path, std::int64_t step, std::int64_t tested_step);

  void write(const MetricsLine& line);

 private:
  std::unique_ptr<AppendedFile> file_;
};

/// What a line of metrics.jsonl says of the model, without numbers that were not finite.
struct MetricsPoint {
  std::int64_t step = 0;
  std::string split;  ///< "train" or "test"
  std::optional<double> loss;
  std::optional<double> accuracy;
  /// The mean over heads and layers of each number that the attention layers told.
  NamedNumbers attention = {};
};

/// Returns nothing if the line is not one of metrics.jsonl.
std::optional<MetricsPoint> parse_metrics_line(const std::string& line);

/// Reads the lines of metrics in the last `bytes` of the file, which may still grow. Skips whatever
/// else is there. Returns none if there is no file.
std::vector<MetricsPoint> read_metrics(const std::filesystem::path& path,
                                       std::uintmax_t bytes = UINTMAX_MAX);

/// A run ends after max_steps, by early stop, on a signal, or because a number is not finite.
enum class RunStatus { finished, early_stop, interrupted, diverged };

/// The content of summary.json.
struct RunSummary {
  RunStatus status = RunStatus::finished;
  std::int64_t step = 0;
  std::optional<Score> test;  ///< of the last evaluation that was finite
  std::optional<LanguageScore> language;
  NamedScores groups;
  std::optional<std::int64_t> best_step;  ///< by checkpoint.metric
  std::optional<double> best_value;
  std::optional<std::int64_t> steps_to_99;  ///< first evaluated step with 99 % accuracy
  std::optional<double> loss_floor;         ///< no model can do better on average
  std::int64_t parameters = 0;
  double train_seconds = 0;  ///< in training steps: without evaluation and checkpoints
  double step_ms = 0;        ///< mean time of a step
  double tokens_per_s = 0;
  std::uint64_t peak_bytes = 0;  ///< of tensors, since the program started
  int threads = 0;               ///< of each rank
  int ranks = 1;

  bool is_complete() const {
    return status == RunStatus::finished || status == RunStatus::early_stop;
  }
};

void write_summary(const std::filesystem::path& path, const RunSummary& summary);
/// Returns nothing if there is no such file or it is not a summary. A number that was not finite
/// never reads as one that is.
std::optional<RunSummary> read_summary(const std::filesystem::path& path);

/// Writes an evaluation as one JSON object, for `mobius eval --json`.
std::string evaluation_json(std::int64_t step, const Score& total, const NamedScores& groups,
                            const NamedNumbers& summaries,
                            const std::optional<LanguageScore>& language = {});

}  // namespace mobius
