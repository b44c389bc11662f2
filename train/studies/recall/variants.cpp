#include "train/studies/recall/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace mobius {

namespace {

std::vector<RecallVariant> known_variants(const RecallSettings& settings) {
  const double d = static_cast<double>(settings.d_model) / static_cast<double>(settings.n_heads),
               w = static_cast<double>(settings.window);
  const auto all_keys = [d](double n) { return n * 2 * d; };
  const auto wider_keys = [d](double n) { return n * 3 * d; };
  const auto newest = [d](double keys) {
    return [=](double n) { return std::min(n, keys) * 2 * d; };
  };
  const auto sums = [d](double features) { return [=](double) { return features * (d + 1); }; };
  const auto tree = [=](double features) {
    return [=](double n) {
      return std::min(n, w) * 2 * d + features * d * std::ceil(std::log2(std::max(n, 2.0)));
    };
  };
  const auto hierarchical = [&](const std::string& far_field) {
    return fmt::format("{{kind: conformal_hierarchical, alpha: {}, window: {}, {}}}",
                       settings.alpha, settings.window, far_field);
  };
  const auto local = [](std::int64_t keys) {
    return fmt::format("{{kind: sparse, pattern: local, window: {}}}", keys);
  };
  return {
      {"softmax", "{kind: softmax}", all_keys},
      {"conformal_analytic", fmt::format("{{kind: conformal, alpha: {}}}", settings.alpha),
       all_keys},
      {"conformal_empirical",
       fmt::format("{{kind: conformal, normalize: empirical, alpha: {}}}", settings.alpha),
       all_keys},
      {"hierarchical_degree_1", hierarchical("far_degree: 1"), tree(1 + d)},
      {"hierarchical_landmarks",
       hierarchical(fmt::format("far_field: landmarks, landmark_source: learned, n_landmarks: {}",
                                settings.n_landmarks)),
       tree(static_cast<double>(settings.n_landmarks))},
      {"sparse_local", local(settings.window), newest(w)},
      {"sparse_local_double", local(2 * settings.window), newest(2 * w)},
      {"sparse_strided",
       fmt::format("{{kind: sparse, pattern: strided, window: {}, stride: {}}}", settings.window,
                   settings.window),
       all_keys},
      {"sparse_topk", "{kind: sparse, pattern: topk, topk: 8}", all_keys},
      {"linear", "{kind: linear}", sums(d)},
      {"performer", "{kind: performer, n_features: 128}", sums(128)},
      {"w2", "{kind: w2}", wider_keys},
  };
}

}  // namespace

void RecallSettings::describe(Schema& schema) {
  schema.field("seq_len", seq_len, "length of the training sequences").at_least(8).at_most(4096);
  schema.field("longer_seq_len", longer_seq_len, "length of those that show distances")
      .at_least(8)
      .at_most(4096);
  schema.field("n_pairs", n_pairs, "pairs of a key and a value in a sequence").positive();
  schema.field("vocab", vocab, "tokens: half of them keys, half values")
      .at_least(10)
      .at_most(100000);
  schema.field("d_model", d_model, "width of the model").positive().at_most(4096);
  schema.field("n_heads", n_heads, "of each of the two layers").positive();
  schema.field("max_steps", max_steps, "of training, at most").at_least(50).at_most(1000000);
  schema.field("batch_size", batch_size, "sequences of a step").positive().at_most(65536);
  schema.field("lr", lr, "learning rate, after 50 steps").positive();
  schema.field("alpha", alpha, "initial inverse temperature of conformal attention")
      .positive()
      .at_most(1e6);
  schema.field("window", window, "newest keys of local and hierarchical attention").positive();
  schema.field("n_landmarks", n_landmarks, "of hierarchical attention").positive();
  schema.field("variants", asked_variants, "names, as in the results; empty: all");
  schema.check("variants", [this] { recall_variants(*this); });
}

std::vector<RecallVariant> recall_variants(const RecallSettings& settings) {
  std::vector<RecallVariant> all = known_variants(settings);
  for (const std::string& asked : settings.asked_variants)
    if (std::none_of(all.begin(), all.end(),
                     [&](const auto& known) { return known.name == asked; }))
      throw ConfigError("unknown variant '{}'", asked);
  if (!settings.asked_variants.empty())
    std::erase_if(all, [&](const RecallVariant& variant) {
      return std::find(settings.asked_variants.begin(), settings.asked_variants.end(),
                       variant.name) == settings.asked_variants.end();
    });
  return all;
}

std::string recall_config(const RecallSettings& settings, const RecallVariant& variant,
                          std::int64_t n, std::uint64_t seed) {
  return fmt::format(R"(
task: {{name: mqar, vocab: {}, seq_len: {}, n_pairs: {}, filler: random_unused, n_test: 256}}
model:
  {{d_model: {}, n_layers: 2, n_heads: {}, mlp: swiglu, norm: rms_norm, positions: rope, bias: false,
   tied_head: false, init: orthogonal}}
attention: {}
optimizer: {{name: adamw, lr: {:e}, betas: [0.9, 0.99], weight_decay: 0.01}}
schedule: {{kind: constant, warmup_steps: 50}}
train: {{max_steps: {}, batch_size: {}, seed: {}, early_stop: {{metric: accuracy, threshold: 0.998}}}}
eval: {{every: 25}}
)",
                     settings.vocab, n, settings.n_pairs, settings.d_model, settings.n_heads,
                     variant.attention, settings.lr, settings.max_steps, settings.batch_size, seed);
}

}  // namespace mobius
