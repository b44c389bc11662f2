#include "train/run/experiment.h"

#include <utility>

#include "train/run/device.h"
#include "train/run/memory.h"

namespace mobius {

std::unique_ptr<Task> build_task(const Config& config,
                                 const std::optional<TokenizerModel>& tokenizer) {
  return tokenizer ? config.task->rebuild(config.train.seed, *tokenizer)
                   : config.task->build(config.train.seed);
}

Experiment build_experiment(const Config& config, std::unique_ptr<Task> task, Shard rank) {
  const TaskSize size = {task->vocab_size(), task->max_seq_len()};
  const Device device = device_of(config);
  require_memory(memory_need(config, size, MemoryUse::experiment, rank.count), device);
  Experiment experiment;
  experiment.task = std::move(task);
  experiment.model = std::make_shared<LanguageModel>(config.model, *config.attention, size.vocab,
                                                     size.seq_len, config.train.seed, DType::f32,
                                                     device, config.train.precision);
  constexpr std::int64_t mib = 1 << 20;
  experiment.optimizer =
      config.optimizer->build(ParameterArena(trained_parameters(*experiment.model), rank.count,
                                             config.distributed.bucket_mib * mib),
                              config.distributed.zero_stage == 0 ? Shard{} : rank);
  return experiment;
}

Experiment build_experiment(const Config& config, Shard rank,
                            const std::optional<TokenizerModel>& tokenizer) {
  require_memory(memory_need(config, config.task->least_size(), MemoryUse::experiment, rank.count),
                 device_of(config));
  return build_experiment(config, build_task(config, tokenizer), rank);
}

std::optional<TokenizerModel> tokenizer_model(const Task& task) {
  if (task.tokenizer() == nullptr) return std::nullopt;
  return task.tokenizer()->model();
}

}  // namespace mobius
