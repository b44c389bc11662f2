#include "nn/generator.h"

#include <algorithm>

#include "core/options/validate.h"

namespace mobius {

Generator::Generator(const LanguageModel& model, SamplingOptions options, std::int64_t context,
                     std::uint64_t seed)
    : model_(model),
      options_(options),
      context_(static_cast<std::size_t>(context)),
      rng_({.seed = seed, .stream = stream_id("generate")}),
      cache_(model.make_cache()) {
  validate_options(options_, "sampling");
  if (context < 2) throw ConfigError("generate: expected a context of at least 2, got {}", context);
  if (context > model.max_seq_len() && !model.reads_longer_sequences())
    throw ConfigError(
        "generate: expected a context of at most {}, as positions are learned, got {}",
        model.max_seq_len(), context);
}

void Generator::read(std::span<const std::int32_t> tokens) {
  // The model sees no more than one context.
  if (tokens.size() >= context_) {
    cache_ = model_.make_cache();
    window_.clear();
    tokens = tokens.last(context_);
  }
  if (window_.size() + tokens.size() > context_) {
    std::vector<std::int32_t> kept(window_.end() - std::min(window_.size(), context_ / 2),
                                   window_.end());
    kept.insert(kept.end(), tokens.begin(), tokens.end());
    cache_ = model_.make_cache();
    window_.clear();
    append(std::span(kept).last(std::min(kept.size(), context_)));
  } else if (!tokens.empty()) {
    append(tokens);
  }
}

void Generator::append(std::span<const std::int32_t> tokens) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  const std::vector<std::int32_t> ids(tokens.begin(), tokens.end());
  const Tensor logits = model_.extend(Tensor::from(ids, {1, n}, model_.device()), cache_).data();
  logits_ = logits.slice(1, n - 1, n).to(DType::f64).to_vector<double>();
  window_.insert(window_.end(), tokens.begin(), tokens.end());
}

std::int32_t Generator::next() {
  if (logits_.empty()) throw Error("generate: expected a token to go on from, got none");
  const auto token = static_cast<std::int32_t>(sample_token(logits_, options_, rng_));
  read(std::span(&token, 1));
  return token;
}

}  // namespace mobius
