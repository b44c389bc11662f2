// The interface of attention variants, and the list of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/ops/attention_mask.h"
#include "core/options/registry.h"
#include "core/options/schema.h"
#include "nn/attention/cache.h"
#include "nn/init.h"
#include "nn/model_options.h"
#include "nn/module.h"

namespace mobius {

/// One attention layer: x[B, N, d_model] -> [B, N, d_model].
class Attention : public Module {
 public:
  virtual Variable forward(const Variable& x, const AttentionMask& mask,
                           const ForwardContext& context) const = 0;

  /// Returns an empty cache for extend(): an InputCache, unless the variant has its own kind.
  virtual std::unique_ptr<AttentionCache> make_cache() const;
  /// Appends the positions x[B, n, d_model] to the cache and returns their outputs, which are the
  /// last n rows of a causal forward() over all positions. Uses no gradients and no dropout.
  virtual Variable extend(const Variable& x, AttentionCache& cache) const;

  /// Reports what the parameters mean, such as alpha or tau. This needs no forward pass.
  virtual void tell_parameters(DiagnosticsSink&) const {}
};

/// What a variant is built from.
struct AttentionContext {
  ModelOptions model;
  Initializer init;       // for the layer
  std::string kind = {};  // the name in messages, set by AttentionOptions::build()
};

/// The options of one variant. A new variant derives its options from this class in its own file
/// and is added to builtin_attentions().
class AttentionOptions {
 public:
  virtual ~AttentionOptions() = default;
  /// The variant's name.
  virtual std::string kind() const = 0;
  virtual void describe(Schema& schema) = 0;
  /// Throws ConfigError, naming the key, if a layer of these options would let a causal model learn
  /// from later positions.
  virtual void require_trainable() const {}
  /// Throws ConfigError if an option is out of range, if the model is impossible, or if the variant
  /// does not support the model.
  std::shared_ptr<Attention> build(AttentionContext context) const;

 protected:
  /// Makes the layer. Options and model are valid.
  virtual std::shared_ptr<Attention> make(const AttentionContext& context) const = 0;
};

/// Throws ConfigError with the reason `why` if the model asks for alibi or relative positions,
/// which add a number to each score.
void refuse_distance_bias(const AttentionContext& context, std::string_view why);

/// Throws ConfigError if the model asks for dropout of the weights, which this variant never forms.
void refuse_weight_dropout(const AttentionContext& context);

/// softmax, softmax_naive, conformal, conformal_hierarchical, linear, performer, sparse, w2,
/// w2_overlap.
Registry<AttentionOptions> builtin_attentions();

}  // namespace mobius
