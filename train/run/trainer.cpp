#include "train/run/trainer.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "core/backend.h"
#include "core/cpu/simd/flush_to_zero.h"
#include "core/cpu/simd/isa.h"
#include "core/parallel.h"
#include "data/loader.h"
#include "train/io/printable.h"
#include "train/optim/sharding.h"
#include "train/recording/attention_maps.h"
#include "train/run/memory.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr double recalled = 0.99;  // the accuracy whose step the summary names

// The configured thread count, until the end of the scope.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(num_threads()) {
    if (threads > 0) set_num_threads(threads);
  }
  ~ThreadScope() { set_num_threads(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

double per_second(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// Where data lie may change; that they are the same, require_same_data() sees to.
void require_same_run(Config& stored, Config& config, const fs::path& path, Progress& progress) {
  for (const ConfigChange& change : changes(stored, config)) {
    if (!may_change_on_resume(config, change.key)) {
      throw ConfigError("{}: was made with {} = {}, but the configuration says {}", path.string(),
                        change.key, change.before.empty() ? "(absent)" : change.before,
                        change.after.empty() ? "(absent)" : change.after);
    }
    if (!change.key.starts_with("output.")) {
      progress.say(
          fmt::format("resume: {} was {}, now {}", change.key, change.before, change.after));
    }
  }
}

void say_other_instruction_set(const CheckpointHeader& header, Progress& progress) {
  const std::string made_with = header.instruction_set, now = instruction_set();
  if (made_with.empty() || made_with == now) return;
  progress.say(fmt::format(
      "resume: was made with {}, now {}: results agree but for rounding, not to the bit", made_with,
      now));
}

void require_one_config(Config& config, Communicator& communicator) {
  const std::string own = resolved_yaml(config);
  if (communicator.broadcast(own) == own) return;
  throw ConfigError("its configuration differs from that of rank 0");
}

void require_work_for_all(const TrainOptions& train, const Communicator& communicator) {
  const std::int64_t parts = communicator.size() * train.accumulation_steps;
  if (train.batch_size >= parts) return;
  throw ConfigError(
      "train.batch_size: expected at least {} ranks x {} accumulation_steps = {}, got {}",
      communicator.size(), train.accumulation_steps, parts, train.batch_size);
}

// Making a large model takes a while, in which nothing else is said.
void require_room(const Config& config, Progress& progress, const Communicator& communicator) {
  constexpr double worth_a_line = 1 << 30;
  const std::vector<MemoryPart> need =
      memory_need(config, config.task->least_size(), MemoryUse::training, communicator.size());
  require_memory(need);
  if (total_bytes(need) < worth_a_line) return;
  progress.say(fmt::format("needs at least {} of memory", format_bytes(total_bytes(need))));
}

void say_skipped(const NewestCheckpoint& newest, Progress& progress) {
  for (const std::string& line : newest.skipped) progress.say("resume: skipped " + line);
}

// With the newest checkpoint in place of a folder, as the root finds it.
Resume with_file(Resume resume, Progress& progress, Communicator& communicator) {
  if (resume.from != Resume::From::file) return resume;
  if (communicator.is_root() && fs::is_directory(resume.file)) {
    const NewestCheckpoint newest = newest_checkpoint_in(resume.file);
    say_skipped(newest, progress);
    resume.file = *newest.path;
  }
  resume.file = communicator.broadcast(resume.file.string());
  read_checkpoint_header(resume.file);  // before all else
  return resume;
}

std::optional<fs::path> find_start(const RunFolder& folder, const Resume& resume,
                                   Progress& progress) {
  if (resume.from == Resume::From::nothing) return std::nullopt;
  if (resume.from == Resume::From::file) return resume.file;
  const NewestCheckpoint newest = newest_checkpoint(folder.checkpoints());
  say_skipped(newest, progress);
  if (!newest.path) progress.say("resume: no complete checkpoint, starting from step 0");
  return newest.path;
}

// What the root finds, for all ranks: a file may appear to one before another.
std::optional<fs::path> find_start(const RunFolder& folder, const Resume& resume,
                                   Progress& progress, Communicator& communicator) {
  std::optional<fs::path> start;
  if (communicator.is_root()) start = find_start(folder, resume, progress);
  const std::string text = communicator.broadcast(start ? start->string() : "");
  return text.empty() ? std::nullopt : std::optional<fs::path>(text);
}

// The root's.
std::optional<BestState> broadcast(const std::optional<BestState>& best,
                                   Communicator& communicator) {
  std::array<double, 3> root = {};
  if (best && communicator.is_root()) root = {1, static_cast<double>(best->step), best->value};
  communicator.sum(root);
  if (root[0] == 0) return std::nullopt;
  return BestState{static_cast<std::int64_t>(root[1]), root[2]};
}

}  // namespace

Trainer::Trainer(Config& config, Experiment experiment, const RunFolder& folder,
                 const std::optional<fs::path>& start, const Registries& known, Progress& progress,
                 Communicator& communicator)
    : config_(config),
      experiment_(std::move(experiment)),
      folder_(folder),
      progress_(progress),
      data_(experiment_.task->fingerprint()),
      communicator_(communicator),
      gradient_sum_(communicator, experiment_.optimizer->arena(),
                    experiment_.optimizer->shard().is_whole() ? SumScope::whole : SumScope::shard) {
  if (start) restore(*start, known);
  first_step_ = step_;
  // Machines of different kinds may round differently where initial values are drawn.
  for (const auto& [name, value] : experiment_.model->parameters()) {
    communicator_.broadcast(value.data());
  }
  for (const auto& [name, value] : experiment_.model->buffers()) communicator_.broadcast(value);
  if (!communicator_.is_root()) return;
  // A run that was killed may have saved a step and not pruned.
  prune_checkpoints(folder_.checkpoints(), step_, config_.checkpoint.keep_last);
  write_whole_file(folder_.config(), run_config_text(resolved_yaml(config_)));
  metrics_ = std::make_unique<MetricsLog>(folder_.metrics(), step_, record_.evaluated_step);
  if (config_.output.tensorboard) {
    events_ = std::make_unique<EventLog>(folder_.tensorboard(), step_, record_.evaluated_step);
  }
}

void Trainer::restore(const fs::path& path, const Registries& known) {
  const CheckpointHeader header = read_checkpoint_header(path);
  const auto stored = parse_config(header.config, path.string(), known);
  require_same_run(*stored, config_, path, progress_);
  require_same_tokenizer(header, path);
  require_same_data(header, path);
  CheckpointTensors tensors = tensors_of(*experiment_.model, *experiment_.optimizer);
  tensors.optimizer = whole_state(*experiment_.optimizer);
  load_checkpoint(path, tensors);
  set_state(*experiment_.optimizer, tensors.optimizer);
  experiment_.optimizer->set_steps_taken(header.optimizer_steps);
  step_ = header.step;
  record_ = TrainingRecord::of(header, path);
  progress_.say(fmt::format("resume: step {} from {}", step_, path.string()));
  say_other_instruction_set(header, progress_);
  restore_best(path, stored->checkpoint.metric, known);
}

// The record of the best state and its file go together: what a file does not have is not the best.
void Trainer::restore_best(const fs::path& path, Metric recorded_metric, const Registries& known) {
  const auto recorded =
      recorded_metric == config_.checkpoint.metric ? record_.best() : std::nullopt;
  std::optional<BestState> best = recorded;
  if (config_.checkpoint.keep_best) {
    if (communicator_.is_root())
      best = take_best(folder_.checkpoints(), path, recorded, config_, known);
    best = broadcast(best, communicator_);
  }
  record_.set_best(best);
  if (recorded && !best) {
    progress_.say(
        fmt::format("resume: the best state, of step {}, is not here: the next test is "
                    "the best so far",
                    recorded->step));
  }
}

// A text that has changed since may have other characters or pieces: the tokens would mean others.
void Trainer::require_same_tokenizer(const CheckpointHeader& header, const fs::path& path) const {
  const std::optional<TokenizerModel> now = tokenizer_model(*experiment_.task);
  if (now == header.tokenizer) return;
  const auto words = [](const std::optional<TokenizerModel>& model) {
    return model ? fmt::format("a {} tokenizer of {} tokens", model->kind,
                               make_tokenizer(*model)->vocab_size())
                 : std::string("no tokenizer");
  };
  throw ConfigError("{}: was made with {}, but the text now gives {}{}", path.string(),
                    words(header.tokenizer), words(now),
                    words(now) == words(header.tokenizer) ? ", others" : "");
}

void Trainer::require_same_data(const CheckpointHeader& header, const fs::path& path) const {
  if (header.data == data_) return;
  throw ConfigError("{}: was made with {}, but now there are {}", path.string(),
                    header.data.empty() ? "data of no files" : header.data,
                    data_.empty() ? "none" : data_);
}

void Trainer::announce() const {
  const std::string ranks =
      communicator_.size() == 1 ? "" : fmt::format("{} ranks of ", communicator_.size());
  progress_.say(fmt::format("{}: {} attention on {}, {} parameters, {}{} thread{}",
                            config_.output.dir, config_.attention.name, config_.task.name,
                            format_count(static_cast<double>(experiment_.model->parameter_count())),
                            ranks, num_threads(), num_threads() == 1 ? "" : "s"));
  const Task& task = *experiment_.task;
  if (!task.summary().empty()) progress_.say(task.summary());
  for (const std::string& warning : task.warnings()) progress_.say("warning: " + warning);
  if (config_.train.precision == ProductPrecision::bf16 && !backend_for({}).has_bf16_products) {
    progress_.say(
        "precision bf16: this processor has no products of bf16; they are computed in f32 from "
        "rounded factors, which is right, but no faster than f32");
  }
}

RunSummary Trainer::run(const StopSignal& stop) {
  announce();
  try {
    const RunSummary summary = summarize(train(stop));
    if (summary.is_complete()) write_maps();
    write_result(summary);
    return summary;
  } catch (const TrainingDiverged& error) {
    write_result(summarize(RunStatus::diverged));
    const NewestCheckpoint newest = newest_checkpoint(folder_.checkpoints());
    throw TrainingDiverged("{}; stopped, and kept {}", error.what(),
                           newest.path ? newest.path->string() : "no checkpoint: none was due yet");
  }
}

RunStatus Trainer::train(const StopSignal& stop) {
  const FlushToZero flush;  // once, for it is not free at each of a step's operations
  if (step_ > 0) {
    if (const std::optional<RunStatus> end = finish_resumed_step(stop)) return *end;
  }
  Prefetcher batches([this](std::uint64_t step) { return make_batch(step); },
                     static_cast<std::uint64_t>(step_),
                     static_cast<std::uint64_t>(config_.train.max_steps));
  while (true) {
    train_step(batches.next());
    report_step();
    if (const std::optional<RunStatus> end = finish_step(stop)) return *end;
  }
}

// This rank's sequences of a step, made ready.
StepBatch Trainer::make_batch(std::uint64_t step) const {
  const std::int64_t size = config_.train.batch_size;
  const Share share = share_of(size, communicator_.rank(), communicator_.size());
  const auto first =
      step * static_cast<std::uint64_t>(size) + static_cast<std::uint64_t>(share.begin);
  const Task& task = *experiment_.task;
  return prepare_step(task.sequences(Split::train, task.group_at(step), first, share.size()),
                      config_.train.accumulation_steps, *experiment_.model);
}

// What the step that the run goes on from has left to do: the test pass that a signal cut short, or
// to find out, by today's settings, whether the run was over. How it ends, where it does.
std::optional<RunStatus> Trainer::finish_resumed_step(const StopSignal& stop) {
  const bool is_tested = record_.evaluated_step == step_;
  const bool is_asked =
      is_tested ? config_.train.early_stop.threshold.has_value() : is_due(config_.eval.every);
  if (!is_asked && !is_last()) return std::nullopt;
  const bool is_cut_short = !test(stop);
  if (is_cut_short || !is_tested) save_step();  // the folder may not be the checkpoint's
  if (is_cut_short) return RunStatus::interrupted;
  if (is_good_enough()) return RunStatus::early_stop;
  return is_last() ? std::optional(RunStatus::finished) : std::nullopt;
}

// Tests and saves where that is due. How the run ends, where it does.
std::optional<RunStatus> Trainer::finish_step(const StopSignal& stop) {
  const bool is_tested = is_last() || is_due(config_.eval.every);
  const bool is_cut_short = is_tested && !test(stop);
  const bool is_over = is_tested && !is_cut_short && (is_last() || is_good_enough());
  const bool is_stopped = !is_over && communicator_.any(stop.is_requested());
  if (is_over || is_stopped || is_due(config_.checkpoint.every)) save_step();
  if (is_stopped) return RunStatus::interrupted;
  if (!is_over) return std::nullopt;
  return is_good_enough() ? RunStatus::early_stop : RunStatus::finished;
}

void Trainer::train_step(const StepBatch& batch) {
  const auto begin = Clock::now();
  const TrainOptions& train = config_.train;
  experiment_.model->zero_grad();
  DiagnosticsSink sink;
  const bool is_logged = metrics_ && (step_ + 1) % train.log_every == 0;
  unread_score_ = accumulate_gradients(*experiment_.model, batch, train.seed, step_ + 1,
                                       gradient_sum_, is_logged ? &sink : nullptr);
  batch_summaries_ = sink.summaries();
  learning_rate_ = learning_rate(config_.schedule, config_.optimizer->lr, step_, train.max_steps);
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  experiment_.optimizer->clipped_step(learning_rate_, train.clip_grad_norm.value_or(unlimited),
                                      communicator_);
  gather_parameters(*experiment_.optimizer, communicator_);
  ++step_;

  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const std::int64_t tokens = train.batch_size * batch.seq_len;  // of all ranks
  record_.train_seconds += seconds;
  record_.tokens += tokens;
  logged_seconds_ += seconds;
  logged_tokens_ += tokens;
}

// Reads the score and the gradient norm of the last step, once. It waits for the device: only where
// a number is shown, tested or saved. Steps that changed nothing because of a norm that is not
// finite were none; where an earlier one than the last was the first, the score says nothing of it.
void Trainer::read_step() {
  if (!unread_score_) return;
  const StepScore score = *std::exchange(unread_score_, std::nullopt);
  Optimizer& optimizer = *experiment_.optimizer;
  const std::int64_t last = step_, n_skipped = optimizer.gradient_norm().n_skipped;
  step_ -= n_skipped;
  optimizer.set_steps_taken(optimizer.steps_taken() - n_skipped);
  if (n_skipped <= 1) batch_score_ = read_score(score, *experiment_.model, last, communicator_);
  grad_norm_ = finite_gradient_norm(optimizer, step_ + 1);
}

void Trainer::report_step() {
  const bool is_logged = is_due(config_.train.log_every);
  if (is_logged || backend_for(experiment_.model->device()).reads_are_free) read_step();
  const double tokens_per_s = per_second(logged_tokens_, logged_seconds_);
  const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
  const auto done = static_cast<double>(step_ - first_step_);
  const auto left = static_cast<double>(config_.train.max_steps - step_);
  const std::optional<LanguageScore> language = batch_language();
  progress_.show({.step = step_,
                  .max_steps = config_.train.max_steps,
                  .loss = batch_score_.loss(),
                  .accuracy = batch_score_.accuracy(),
                  .perplexity = language ? std::optional(language->perplexity) : std::nullopt,
                  .tokens_per_s = tokens_per_s,
                  .seconds_left = elapsed / done * left},
                 is_logged);
  if (!is_logged) return;
  if (metrics_) log_step(tokens_per_s);
  logged_seconds_ = 0;
  logged_tokens_ = 0;
}

void Trainer::log_step(double tokens_per_s) {
  log({.step = step_,
       .split = "train",
       .loss = batch_score_.loss(),
       .accuracy = batch_score_.accuracy(),
       .language = batch_language(),
       .lr = learning_rate_,
       .grad_norm = grad_norm_,
       .tokens_per_s = tokens_per_s,
       .summaries = batch_summaries_,
       .groups = {}});
}

// Scores the test sequences. False, and nothing has changed, where a signal came before the end.
// Throws TrainingDiverged where a number is not finite: a score, or what would be saved as the
// best.
bool Trainer::test(const StopSignal& stop) {
  read_step();
  std::optional<Evaluation> evaluation =
      evaluate(*experiment_.model, *experiment_.task, config_.train.micro_batch_size(),
               communicator_, [&stop] { return stop.is_requested(); });
  if (!evaluation) return false;
  const bool is_repeated = record_.evaluated_step == step_;  // a resumed run has its line already
  if (metrics_ && !is_repeated) log_test(*evaluation);
  require_finite_test(*experiment_.model, evaluation->total, step_);
  require_finite_state();
  evaluation_ = std::move(evaluation);
  if (!is_repeated) note_test_score(evaluation_->total);
  return true;
}

void Trainer::log(const MetricsLine& line) {
  metrics_->write(line);
  if (events_) events_->write(line.step, scalars_of(line));
}

void Trainer::log_test(const Evaluation& evaluation) {
  const Score& total = evaluation.total;
  const std::optional<LanguageScore> language = test_language(evaluation);
  std::vector<LayerDiagnostics> attention;
  if (config_.eval.diagnostics) {
    const std::int64_t size = config_.train.micro_batch_size();
    attention = diagnose(*experiment_.model, experiment_.task->batch(Split::test, 0, size).inputs,
                         Diagnosis::entropy);
  }
  log({.step = step_,
       .split = "test",
       .loss = total.loss(),
       .accuracy = total.accuracy(),
       .language = language,
       .lr = {},
       .grad_norm = {},
       .tokens_per_s = {},
       .summaries = evaluation.summaries,
       .groups = named_groups(evaluation),
       .attention = std::move(attention)});
  progress_.say(fmt::format("step {}/{}  test loss {:.4f}{}, accuracy {:.2f}%", step_,
                            config_.train.max_steps, printable(total.loss()),
                            language_words(language), printable(100 * total.accuracy())));
}

void Trainer::note_test_score(const Score& score) {
  record_.evaluated_step = step_;
  if (!record_.steps_to_99 && score.accuracy() >= recalled) record_.steps_to_99 = step_;
  const Metric metric = config_.checkpoint.metric;
  const double value = value_of(metric, score);
  if (record_.best_value && !is_better(metric, value, *record_.best_value)) return;
  record_.best_value = value;
  record_.best_step = step_;
  if (config_.checkpoint.keep_best) save(best_checkpoint(folder_.checkpoints()));
}

// The optimiser's state comes together first: all ranks take part.
void Trainer::save(const fs::path& path) const {
  CheckpointTensors tensors = tensors_of(*experiment_.model, *experiment_.optimizer);
  tensors.optimizer = gather_state(*experiment_.optimizer, communicator_);
  if (!communicator_.is_root()) return;
  CheckpointHeader header;
  header.step = step_;
  header.seed = config_.train.seed;
  header.config = resolved_yaml(config_);
  header.optimizer_steps = experiment_.optimizer->steps_taken();
  header.progress = record_.to_map();
  header.tokenizer = tokenizer_model(*experiment_.task);
  header.data = data_;
  header.instruction_set = instruction_set();
  save_checkpoint(path, header, tensors);
}

void Trainer::require_finite_state() const {
  mobius::require_finite_state(*experiment_.optimizer, step_, communicator_);
}

void Trainer::save_step() {
  read_step();
  require_finite_state();
  save(checkpoint_path(folder_.checkpoints(), step_));
  if (communicator_.is_root()) {
    prune_checkpoints(folder_.checkpoints(), step_, config_.checkpoint.keep_last);
  }
}

void Trainer::write_maps() const {
  if (!config_.eval.attention_maps || !communicator_.is_root()) return;
  const ChosenHeads chosen = {config_.eval.map_layers, config_.eval.map_heads};
  write_whole_file(folder_.attention_maps(),
                   attention_maps_json(*experiment_.model, *experiment_.task, chosen));
}

void Trainer::write_result(const RunSummary& summary) const {
  if (communicator_.is_root()) write_summary(folder_.summary(), summary);
}

std::vector<std::pair<std::string, Score>> Trainer::named_groups(
    const Evaluation& evaluation) const {
  std::vector<std::pair<std::string, Score>> groups;
  for (std::size_t i = 0; i < evaluation.groups.size(); ++i) {
    groups.emplace_back(experiment_.task->groups()[i], evaluation.groups[i]);
  }
  return groups;
}

// Of the batch of this step, whose bytes are not counted.
std::optional<LanguageScore> Trainer::batch_language() const {
  std::optional<LanguageScore> language = language_score(batch_score_.loss(), *experiment_.task);
  if (language) language->bits_per_byte.reset();
  return language;
}

std::optional<LanguageScore> Trainer::test_language(const Evaluation& evaluation) const {
  return language_score(evaluation.total.loss(), *experiment_.task);
}

RunSummary Trainer::summarize(RunStatus status) const {
  RunSummary summary;
  summary.status = status;
  summary.step = step_;
  if (evaluation_) {
    summary.test = evaluation_->total;
    summary.groups = named_groups(*evaluation_);
    summary.language = test_language(*evaluation_);
  }
  summary.best_step = record_.best_step;
  summary.best_value = record_.best_value;
  summary.steps_to_99 = record_.steps_to_99;
  summary.loss_floor = experiment_.task->loss_floor();
  summary.parameters = experiment_.model->parameter_count();
  summary.train_seconds = record_.train_seconds;
  summary.step_ms = step_ == 0 ? 0 : 1000 * record_.train_seconds / static_cast<double>(step_);
  summary.tokens_per_s = per_second(record_.tokens, record_.train_seconds);
  summary.peak_bytes = allocator_for(experiment_.model->device()).stats().peak;
  summary.threads = num_threads();
  summary.ranks = communicator_.size();
  return summary;
}

RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop, Communicator& communicator) {
  const fs::path path = config.output.dir;
  require_one_config(config, communicator);
  require_work_for_all(config.train, communicator);
  const Resume from = with_file(resume, progress, communicator);
  if (communicator.is_root()) require_usable_folder(path, from);
  require_room(config, progress, communicator);
  const ThreadScope threads(config.train.threads);
  Experiment experiment = build_experiment(config, {communicator.rank(), communicator.size()});
  const RunFolder folder = communicator.is_root() ? RunFolder::take(path) : RunFolder(path);
  const auto start = find_start(folder, from, progress, communicator);
  return Trainer(config, std::move(experiment), folder, start, known, progress, communicator)
      .run(stop);
}

RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop) {
  OneRank alone(device_of(config));
  return run_training(config, resume, known, progress, stop, alone);
}

}  // namespace mobius
