// Generates text from a language model, token by token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/language_model.h"
#include "nn/sampling.h"

namespace mobius {

/// Reads tokens and draws the next ones, with caches (nn/attention/cache.h):
///
///   Generator generator(model, {.temperature = 0.8}, /*context=*/256, /*seed=*/1);
///   generator.read(prompt);
///   while (...) use(generator.next());
class Generator {
 public:
  /// The model must outlive the generator. `context`, at least 2, is the largest number of tokens
  /// in the cache. When it is full, the generator drops the older half and reads the newer half
  /// again. Throws ConfigError if an option or the context is out of range; learned positions limit
  /// the context.
  Generator(const LanguageModel& model, SamplingOptions options, std::int64_t context,
            std::uint64_t seed);

  /// Throws Error on a token outside the vocabulary.
  void read(std::span<const std::int32_t> tokens);
  /// Draws a token and reads it. Throws Error if nothing was read before.
  std::int32_t next();

 private:
  void append(std::span<const std::int32_t> tokens);

  const LanguageModel& model_;
  SamplingOptions options_;
  std::size_t context_;
  Rng rng_;
  ModelCache cache_;
  std::vector<std::int32_t> window_;  // the tokens in the cache
  std::vector<double> logits_;        // of the next token
};

}  // namespace mobius
