// What every attention variant looks like from outside, and the list of them.
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

  /// An empty memory for extend(). Unless a variant has one of its own, that of the inputs.
  virtual std::unique_ptr<AttentionCache> make_cache() const;
  /// The outputs of the positions x[B, n, d_model] that follow those in the cache, which remembers
  /// them: the last n rows of a causal forward() over all. Without gradients and dropout.
  virtual Variable extend(const Variable& x, AttentionCache& cache) const;

  /// Tells what the layer's parameters mean, which needs no forward pass: its alpha, its tau, ...
  virtual void tell_parameters(DiagnosticsSink&) const {}
};

/// What a variant learns about the model around it.
struct AttentionContext {
  ModelOptions model;
  Initializer init;       // of the layer
  std::string kind = {};  // the variant's name in messages; AttentionOptions::build() gives it
};

/// The options of one variant: its configuration keys, and how to build it. A new variant derives
/// from this in its own file and is added to builtin_attentions().
class AttentionOptions {
 public:
  virtual ~AttentionOptions() = default;
  /// The variant's name.
  virtual std::string kind() const = 0;
  virtual void describe(Schema& schema) = 0;
  /// Throws ConfigError on options out of range, a model that cannot be, or a variant that does not
  /// go with it.
  std::shared_ptr<Attention> build(AttentionContext context) const;

 protected:
  /// The layer. Options and model are valid.
  virtual std::shared_ptr<Attention> make(const AttentionContext& context) const = 0;
};

/// For variants whose scores take no number by distance: throws ConfigError that says `why` where
/// the model asks for alibi or relative positions.
void refuse_distance_bias(const AttentionContext& context, std::string_view why);

/// softmax, softmax_naive, conformal, linear, performer, sparse, w2, w2_overlap.
Registry<AttentionOptions> builtin_attentions();

}  // namespace mobius
