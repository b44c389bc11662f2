#include "train/run/recorder.h"

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/parallel.h"
#include "train/io/file.h"
#include "train/io/printable.h"
#include "train/recording/attention_maps.h"
#include "train/run/device.h"

namespace mobius {

namespace {

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// The bytes of a training batch are not counted.
std::optional<LanguageScore> language_of_batch(const Score& score, const Task& task) {
  std::optional<LanguageScore> language = language_score(score.loss(), task);
  if (language) language->bits_per_byte.reset();
  return language;
}

}  // namespace

Recorder::Recorder(Config& config, const Experiment& experiment, const RunFolder& folder,
                   Progress& progress, const Communicator& communicator)
    : config_(config),
      experiment_(experiment),
      folder_(folder),
      progress_(progress),
      is_root_(communicator.is_root()),
      ranks_(communicator.size()) {}

void Recorder::begin(std::int64_t step, std::int64_t tested_step) {
  first_step_ = step;
  if (!is_root_) return;
  write_whole_file(folder_.config(), run_config_text(resolved_yaml(config_)));
  metrics_ = std::make_unique<MetricsLog>(folder_.metrics(), step, tested_step);
  if (config_.output.tensorboard)
    events_ = std::make_unique<EventLog>(folder_.tensorboard(), step, tested_step);
}

void Recorder::announce() const {
  const std::string ranks = ranks_ == 1 ? "" : fmt::format("{} ranks of ", ranks_);
  const std::string gpu = name_of_device(experiment_.model->device());
  progress_.say(fmt::format("{}: {} attention on {}, {} parameters, {}{} thread{}{}{}",
                            config_.output.dir, config_.attention.name, config_.task.name,
                            format_count(static_cast<double>(experiment_.model->parameter_count())),
                            ranks, num_threads(), num_threads() == 1 ? "" : "s",
                            gpu.empty() ? "" : ", ", gpu));
  const Task& task = *experiment_.task;
  if (!task.summary().empty()) progress_.say(task.summary());
  for (const std::string& warning : task.warnings()) progress_.say("warning: " + warning);
  if (config_.train.precision == MatmulPrecision::bf16 &&
      !backend_for(experiment_.model->device()).has_bf16_products) {
    progress_.say(
        "precision bf16: this processor has no products of bf16; they are computed in f32 from "
        "rounded factors, which is right, but no faster than f32");
  }
}

void Recorder::record_step(std::int64_t step, const StepReport& report) {
  logged_seconds_ += report.seconds;
  logged_tokens_ += report.tokens;
  const double tokens_per_s = per_second(logged_tokens_, logged_seconds_);
  const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
  const auto done = static_cast<double>(step - first_step_);
  const auto left = static_cast<double>(config_.train.max_steps - step);
  const bool is_logged = step % config_.train.log_every == 0;
  const auto language = language_of_batch(report.score, *experiment_.task);
  progress_.show({.step = step,
                  .max_steps = config_.train.max_steps,
                  .loss = report.score.loss(),
                  .accuracy = report.score.accuracy(),
                  .perplexity = language ? std::optional(language->perplexity) : std::nullopt,
                  .tokens_per_s = tokens_per_s,
                  .seconds_left = elapsed / done * left},
                 is_logged);
  if (!is_logged) return;
  logged_seconds_ = 0;
  logged_tokens_ = 0;
  if (!is_root_) return;
  log({.step = step,
       .split = "train",
       .loss = report.score.loss(),
       .accuracy = report.score.accuracy(),
       .language = language,
       .lr = report.learning_rate,
       .grad_norm = report.grad_norm,
       .tokens_per_s = tokens_per_s,
       .summaries = report.summaries,
       .groups = {}});
}

void Recorder::record_test(std::int64_t step, const Evaluation& evaluation) {
  if (!is_root_) return;
  const Score& total = evaluation.total;
  const std::optional<LanguageScore> language = language_score(total.loss(), *experiment_.task);
  std::vector<LayerDiagnostics> attention;
  if (config_.eval.diagnostics) {
    const std::int64_t size = config_.train.micro_batch_size();
    attention = diagnose(*experiment_.model, experiment_.task->batch(Split::test, 0, size).inputs,
                         Diagnosis::entropy);
  }
  log({.step = step,
       .split = "test",
       .loss = total.loss(),
       .accuracy = total.accuracy(),
       .language = language,
       .lr = {},
       .grad_norm = {},
       .tokens_per_s = {},
       .summaries = evaluation.summaries,
       .groups = evaluation.groups,
       .attention = std::move(attention)});
  progress_.say(fmt::format("step {}/{}  test loss {:.4f}{}, accuracy {:.2f}%", step,
                            config_.train.max_steps, printable(total.loss()),
                            language_words(language), printable(100 * total.accuracy())));
}

void Recorder::log(const MetricsLine& line) {
  metrics_->write(line);
  if (events_) events_->write(line.step, scalars_of(line));
}

RunSummary Recorder::finish(RunStatus status, std::int64_t step, const TrainingRecord& record,
                            const std::optional<Evaluation>& test) const {
  RunSummary summary;
  summary.status = status;
  summary.step = step;
  if (test) {
    summary.test = test->total;
    summary.groups = test->groups;
    summary.language = language_score(test->total.loss(), *experiment_.task);
  }
  if (record.best) {
    summary.best_step = record.best->step;
    summary.best_value = record.best->value;
  }
  summary.steps_to_99 = record.steps_to_99;
  summary.loss_floor = experiment_.task->loss_floor();
  summary.parameters = experiment_.model->parameter_count();
  summary.train_seconds = record.train_seconds;
  summary.step_ms = step == 0 ? 0 : 1000 * record.train_seconds / static_cast<double>(step);
  summary.tokens_per_s = per_second(record.tokens, record.train_seconds);
  summary.peak_bytes = allocator_for(experiment_.model->device()).stats().peak;
  summary.threads = num_threads();
  summary.ranks = ranks_;
  if (!is_root_) return summary;
  if (summary.is_complete() && config_.eval.attention_maps) {
    const ChosenHeads chosen = {config_.eval.map_layers, config_.eval.map_heads};
    write_whole_file(folder_.attention_maps(),
                     attention_maps_json(*experiment_.model, *experiment_.task, chosen));
  }
  write_summary(folder_.summary(), summary);
  return summary;
}

}  // namespace mobius
