#include "train/run/trainer.h"

#include <fmt/core.h>

#include <chrono>
#include <limits>
#include <utility>

#include "core/backend.h"
#include "core/cpu/simd/flush_to_zero.h"
#include "core/parallel.h"
#include "data/loader.h"
#include "train/optim/sharding.h"
#include "train/run/device.h"
#include "train/run/memory.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr double recalled = 0.99;  // the accuracy whose step the summary names

// Sets the configured thread count until the end of the scope.
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

// Announces a large model, because making it takes a while.
void require_room(const Config& config, Progress& progress, const Communicator& communicator) {
  constexpr double worth_a_line = 1 << 30;
  const std::vector<MemoryPart> need =
      memory_need(config, config.task->least_size(), MemoryUse::training, communicator.size());
  require_memory(need, device_of(config));
  if (total_bytes(need) < worth_a_line) return;
  progress.say(fmt::format("needs at least {} of memory", format_bytes(total_bytes(need))));
}

// Takes a folder that holds a run before its checkpoints are looked at, so that nobody adds any.
// Any other folder is made once all is built.
RunFolder take_to_resume(const fs::path& path, const Resume& resume,
                         const Communicator& communicator) {
  const bool is_looked_at = communicator.is_root() && resume.from == Resume::From::newest;
  return is_looked_at && holds_run(path) ? RunFolder::take(path) : RunFolder(path);
}

}  // namespace

Trainer::Trainer(Config& config, Experiment experiment, const RunFolder& folder,
                 const std::optional<Start>& start, const Registries& known, Progress& progress,
                 Communicator& communicator)
    : config_(config),
      experiment_(std::move(experiment)),
      folder_(folder),
      communicator_(communicator),
      gradient_sum_(communicator, experiment_.optimizer->arena(),
                    experiment_.optimizer->shard().is_whole() ? SumScope::whole : SumScope::shard),
      keeper_(config, experiment_, folder, communicator),
      recorder_(config, experiment_, folder, progress, communicator) {
  if (start) {
    record_ = keeper_.restore(*start, known, progress);
    step_ = start->header.step;
  }
  // Machines of different kinds may round initial values differently.
  for (const auto& [name, value] : experiment_.model->parameters()) {
    communicator_.broadcast(value.data());
  }
  for (const auto& [name, value] : experiment_.model->buffers()) communicator_.broadcast(value);
  keeper_.prune(step_);  // a run that was killed may have saved a step and not pruned
  recorder_.begin(step_, record_.evaluated_step);
}

RunSummary Trainer::run(const StopSignal& stop) {
  recorder_.announce();
  try {
    const RunStatus status = train(stop);
    return recorder_.finish(status, step_, record_, evaluation_);
  } catch (const TrainingDiverged& error) {
    recorder_.finish(RunStatus::diverged, step_, record_, evaluation_);
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
    recorder_.record_step(step_, report_);
    if (const std::optional<RunStatus> end = finish_step(stop)) return *end;
  }
}

// Prepares this rank's sequences of a step.
StepBatch Trainer::make_batch(std::uint64_t step) const {
  const std::int64_t size = config_.train.batch_size;
  const Share share = share_of(size, communicator_.rank(), communicator_.size());
  const auto first =
      step * static_cast<std::uint64_t>(size) + static_cast<std::uint64_t>(share.begin);
  const Task& task = *experiment_.task;
  return prepare_step(task.sequences(Split::train, task.group_at(step), first, share.size()),
                      config_.train.accumulation_steps, *experiment_.model);
}

// Completes the step that the run resumes from: repeats a test pass that a signal cut short, and
// checks by the present settings whether the run is over. Returns how it ends, if it does.
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

// Tests and saves if that is due. Returns how the run ends, if it does.
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
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const TrainOptions& train = config_.train;
  experiment_.model->zero_grad();
  DiagnosticsSink sink;
  const bool is_logged = communicator_.is_root() && (step_ + 1) % train.log_every == 0;
  unread_score_ = accumulate_gradients(*experiment_.model, batch, train.seed, step_ + 1,
                                       gradient_sum_, is_logged ? &sink : nullptr);
  report_.summaries = sink.summaries();
  report_.learning_rate =
      learning_rate(config_.schedule, config_.optimizer->lr, step_, train.max_steps);
  constexpr double unlimited = std::numeric_limits<double>::infinity();
  experiment_.optimizer->clipped_step(report_.learning_rate,
                                      train.clip_grad_norm.value_or(unlimited), communicator_);
  gather_parameters(*experiment_.optimizer, communicator_);
  ++step_;
  if (is_read_now()) read_step();

  report_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  report_.tokens = train.batch_size * batch.seq_len;
  record_.train_seconds += report_.seconds;
  record_.tokens += report_.tokens;
}

// Reading waits for the device, so it happens only if a number is logged, tested or saved.
bool Trainer::is_read_now() const {
  return is_last() || is_due(config_.train.log_every) || is_due(config_.eval.every) ||
         is_due(config_.checkpoint.every) ||
         backend_for(experiment_.model->device()).reads_are_free;
}

// Reads the score and the gradient norm of the last step, once. Steps that changed nothing, because
// a norm was not finite, do not count. The score is that of the first of them, if it is the last
// step.
void Trainer::read_step() {
  if (!unread_score_) return;
  const StepScore score = *std::exchange(unread_score_, std::nullopt);
  Optimizer& optimizer = *experiment_.optimizer;
  const std::int64_t last = step_, n_skipped = optimizer.gradient_norm().n_skipped;
  step_ -= n_skipped;
  optimizer.set_steps_taken(optimizer.steps_taken() - n_skipped);
  if (n_skipped <= 1) report_.score = read_score(score, *experiment_.model, last, communicator_);
  report_.grad_norm = finite_gradient_norm(optimizer, step_ + 1);
}

// Scores the test sequences. Returns false and changes nothing if a signal comes before the end.
// Throws TrainingDiverged if the score or the state is not finite.
bool Trainer::test(const StopSignal& stop) {
  read_step();
  std::optional<Evaluation> evaluation =
      evaluate(*experiment_.model, *experiment_.task, config_.train.micro_batch_size(),
               communicator_, [&stop] { return stop.is_requested(); });
  if (!evaluation) return false;
  const bool is_repeated = record_.evaluated_step == step_;  // a resumed run has its line already
  if (!is_repeated) recorder_.record_test(step_, *evaluation);
  require_finite_loss(*experiment_.model, "test loss", evaluation->total.loss(), step_);
  require_finite_state(*experiment_.optimizer, step_, communicator_);
  evaluation_ = std::move(evaluation);
  if (!is_repeated) note_test_score(evaluation_->total);
  return true;
}

void Trainer::note_test_score(const Score& score) {
  record_.evaluated_step = step_;
  if (!record_.steps_to_99 && score.accuracy() >= recalled) record_.steps_to_99 = step_;
  const Metric metric = config_.checkpoint.metric;
  const double value = value_of(metric, score);
  if (record_.best && !is_better(metric, value, record_.best->value)) return;
  record_.best = BestState{step_, value};
  if (config_.checkpoint.keep_best) keeper_.save_best(step_, record_);
}

void Trainer::save_step() {
  read_step();
  require_finite_state(*experiment_.optimizer, step_, communicator_);
  keeper_.save_step(step_, record_);
}

RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop, Communicator& communicator) {
  const fs::path path = config.output.dir;
  require_one_config(config, communicator);
  require_work_for_all(config.train, communicator);
  const Resume from = with_file(resume, progress, communicator);
  if (communicator.is_root()) require_usable_folder(path, from);
  const std::string unused = unused_gpu(config);
  if (!unused.empty()) progress.say("warning: the GPU is not used: " + unused);
  require_room(config, progress, communicator);
  const ThreadScope threads(config.train.threads);
  RunFolder folder = take_to_resume(path, from, communicator);
  const auto start = find_start(config, folder, from, known, progress, communicator);
  auto task = start ? build_task_of(*start, config) : build_task(config);
  Experiment experiment =
      build_experiment(config, std::move(task), Shard{communicator.rank(), communicator.size()});
  if (communicator.is_root() && !folder.is_taken()) folder = RunFolder::take(path);
  return Trainer(config, std::move(experiment), folder, start, known, progress, communicator)
      .run(stop);
}

RunSummary run_training(Config& config, const Resume& resume, const Registries& known,
                        Progress& progress, const StopSignal& stop) {
  OneRank alone(device_of(config));
  return run_training(config, resume, known, progress, stop, alone);
}

}  // namespace mobius
