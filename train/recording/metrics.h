// What a run writes down, metrics.jsonl and summary.json, and how they are read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/diagnostics.h"
#include "train/io/file.h"
#include "train/recording/perplexity.h"
#include "train/recording/score.h"

namespace mobius {

/// One line of metrics.jsonl. A field without a value is left out; a value that is not finite is
/// null.
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
  std::vector<std::pair<std::string, Score>> groups;  ///< by name; written where there are several
  std::vector<LayerDiagnostics> attention = {};       ///< left out where empty
};

/// The numbers of a line by name, for tools that know no more: "test/loss", "train/lr",
/// "test/n_pairs=16/accuracy", "test/layer_1/alpha/head_2". One that is not finite is among them.
std::vector<std::pair<std::string, double>> scalars_of(const MetricsLine& line);

/// Appends to a run's metrics.jsonl, a whole line at a time.
class MetricsLog {
 public:
  /// Goes on after the train lines up to `step` and the test lines up to `tested_step`: later ones,
  /// and a line cut short, are removed, so that each step is in the file once. With step 0 the file
  /// starts empty. Throws Error.
  MetricsLog(const std::filesystem::path& path, std::int64_t step, std::int64_t tested_step);

  void write(const MetricsLine& line);

 private:
  std::unique_ptr<AppendedFile> file_;
};

/// What a line of metrics.jsonl says of the model; a number that was not finite is left out.
struct MetricsPoint {
  std::int64_t step = 0;
  std::string split;  ///< "train" or "test"
  std::optional<double> loss;
  std::optional<double> accuracy;
  /// What the attention told, under any name: each number's mean over heads and layers.
  NamedNumbers attention = {};
};

/// Nothing where the line is none of metrics.jsonl.
std::optional<MetricsPoint> parse_metrics_line(const std::string& line);

constexpr std::uintmax_t all_of_the_file = std::numeric_limits<std::uintmax_t>::max();

/// The whole lines in the last `bytes` of the file, in order, also while a run writes it. A line
/// that is cut short, or that is no line of metrics, is passed over; where there is no file, there
/// are none.
std::vector<MetricsPoint> read_metrics(const std::filesystem::path& path,
                                       std::uintmax_t bytes = all_of_the_file);

/// How a run ended: after max_steps, by early stop, on a signal, or because a number was not
/// finite.
enum class RunStatus { finished, early_stop, interrupted, diverged };

/// The result of a run, as summary.json keeps it.
struct RunSummary {
  RunStatus status = RunStatus::finished;
  std::int64_t step = 0;
  std::optional<Score> test;  ///< of the last evaluation that was finite
  std::optional<LanguageScore> language;
  std::vector<std::pair<std::string, Score>> groups;
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
/// Nothing where there is no such file, or one that cannot be understood. A number that was not
/// finite never reads as one that is.
std::optional<RunSummary> read_summary(const std::filesystem::path& path);

/// An evaluation as one JSON object, for `mobius eval --json`.
std::string evaluation_json(std::int64_t step, const Score& total,
                            const std::vector<std::pair<std::string, Score>>& groups,
                            const NamedNumbers& summaries,
                            const std::optional<LanguageScore>& language = {});

}  // namespace mobius
