// One step, and one pass over the test sequences, in one call, and a model that counts.
#pragma once

#include "train/run/evaluation.h"
#include "train/run/step.h"

namespace mobius {

inline Score accumulate_gradients(LanguageModel& model, const Batch& batch,
                                  std::int64_t micro_batches, std::uint64_t seed, std::int64_t step,
                                  GradientSum& ranks) {
  const StepBatch prepared = prepare_step(batch, micro_batches, model);
  const StepScore score = accumulate_gradients(model, prepared, seed, step, ranks);
  return read_score(score, model, step, ranks.communicator());
}

inline Score accumulate_gradients(LanguageModel& model, const Batch& batch,
                                  std::int64_t micro_batches, std::uint64_t seed,
                                  std::int64_t step) {
  OneRank alone;
  const ParameterArena none({});
  GradientSum nothing(alone, none);
  return accumulate_gradients(model, batch, micro_batches, seed, step, nothing);
}

inline Evaluation evaluate(const LanguageModel& model, const Task& task, std::int64_t batch_size) {
  OneRank alone;
  return *evaluate(model, task, batch_size, alone, [] { return false; });
}

/// A model whose blocks add nothing, so that it predicts x + `added` from the embedding of x alone:
/// one-hot embeddings, and a head whose row x + added answers to x.
inline std::shared_ptr<LanguageModel> adding_model(std::int64_t vocab, std::int64_t seq_len,
                                                   std::int64_t added) {
  ModelOptions model;
  model.d_model = vocab;
  model.n_layers = 1;
  model.n_heads = 1;
  model.positions = Positions::none;
  model.tied_head = false;
  const auto attention = builtin_attentions().choose("softmax");
  auto built = std::make_shared<LanguageModel>(model, *attention, vocab, seq_len, 1, DType::f64);
  for (auto& [name, value] : built->parameters()) {
    Tensor data = value.data();
    if (name == "embedding.weight" || name == "head.weight") {
      std::vector<double> values(static_cast<std::size_t>(vocab * vocab), 0.0);
      for (std::int64_t x = 0; x < vocab; ++x) {
        const std::int64_t row = name == "head.weight" ? (x + added) % vocab : x;
        values[static_cast<std::size_t>(row * vocab + x)] = 10;
      }
      data.copy_from(Tensor::from(values, {vocab, vocab}));
    } else if (name.find("proj.weight") != std::string::npos ||
               name.find("down.weight") != std::string::npos) {
      data.fill(0);
    }
  }
  return built;
}

}  // namespace mobius
