#include "train/run/experiment.h"

#include "train/run/memory.h"

namespace mobius {

std::unique_ptr<Task> build_task(const Config& config,
                                 const std::optional<TokenizerModel>& tokenizer) {
  return tokenizer ? config.task->rebuild(config.train.seed, *tokenizer)
                   : config.task->build(config.train.seed);
}

Experiment build_experiment(const Config& config, Shard rank,
                            const std::optional<TokenizerModel>& tokenizer) {
  const auto require_room_for = [&](const TaskSize& size) {
    require_memory(memory_need(config, size, MemoryUse::experiment, rank.count));
  };
  require_room_for(config.task->least_size());
  Experiment experiment;
  experiment.task = build_task(config, tokenizer);
  require_room_for({experiment.task->vocab_size(), experiment.task->max_seq_len()});
  experiment.model = std::make_shared<LanguageModel>(
      config.model, *config.attention, experiment.task->vocab_size(),
      experiment.task->max_seq_len(), config.train.seed, DType::f32, Device{},
      config.train.precision);
  constexpr std::int64_t mib = 1 << 20;
  experiment.optimizer =
      config.optimizer->build(ParameterArena(trained_parameters(*experiment.model), rank.count,
                                             config.distributed.bucket_mib * mib),
                              config.distributed.zero_stage == 0 ? Shard{} : rank);
  return experiment;
}

std::optional<TokenizerModel> tokenizer_model(const Task& task) {
  if (task.tokenizer() == nullptr) return std::nullopt;
  return task.tokenizer()->model();
}

}  // namespace mobius
