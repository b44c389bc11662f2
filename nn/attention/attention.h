// What every attention variant looks like from outside, and the list of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend.h"
#include "core/options/registry.h"
#include "core/options/schema.h"
#include "nn/attention/cache.h"
#include "nn/attention/positions.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

/// What a layer says about itself, one number a head; empty where it has no such number.
struct AttentionDiagnostics {
  /// [H, N, N] of the first sequence of the last forward pass with a diagnosis, where that was
  /// Diagnosis::weights; else undefined.
  Tensor weights = {};
  /// Mean entropy of the weights, in nats (MeanEntropy); empty before a forward pass with a
  /// diagnosis.
  std::vector<double> entropy = {};
  std::vector<double> alpha = {};  // of conformal, now
  std::vector<double> tau = {};    // of w2, now; one a key/value head
  /// Of conformal: share_beyond_resolution() head by head; empty before a forward pass.
  std::vector<double> beyond_resolution = {};
};

/// One attention layer: x[B, N, d_model] -> [B, N, d_model].
class Attention : public Module {
 public:
  virtual Variable forward(const Variable& x, const AttentionMask& mask,
                           const ForwardContext& context) = 0;

  /// An empty memory for extend(). Unless a variant has one of its own, that of the inputs.
  virtual std::unique_ptr<AttentionCache> make_cache() const;
  /// The outputs of the positions x[B, n, d_model] that follow those in the cache, which remembers
  /// them: the last n rows of a causal forward() over all. Without gradients and dropout.
  virtual Variable extend(const Variable& x, AttentionCache& cache);

  virtual AttentionDiagnostics diagnostics() const = 0;

  /// Share of the queries of the last forward pass that lie beyond the resolution limit of their
  /// key count (docs/MATH.md, section 1). Negative where the variant has no such limit.
  virtual double share_beyond_resolution() const { return -1; }
};

/// What a variant learns about the model around it.
struct AttentionContext {
  std::int64_t d_model;
  std::int64_t n_heads;
  std::int64_t n_kv_heads = 0;  // a divisor of n_heads; 0: as many
  bool bias;                    // of the projections
  Positions positions = Positions::none;
  double rope_base = 10000;         // of Positions::rope
  std::int64_t max_distance = 128;  // of Positions::relative
  double dropout = 0;               // of the weights
  Initializer init;
  double output_scale = 1;  // factor on the std of the initial output projection
};

/// The options of one variant: its configuration keys, and how to build it. A new variant derives
/// from this in its own file and is added to builtin_attentions().
class AttentionOptions {
 public:
  virtual ~AttentionOptions() = default;
  virtual void describe(Schema& schema) = 0;
  /// Throws ConfigError on an impossible combination.
  virtual std::shared_ptr<Attention> build(const AttentionContext& context) const = 0;
};

/// For variants whose scores take no number by distance: throws ConfigError that says `why` where
/// the context asks for alibi or relative positions.
void refuse_distance_bias(const AttentionContext& context, std::string_view variant,
                          std::string_view why);
/// For variants that never form their weights: throws ConfigError where the context asks for
/// dropout on them.
void refuse_weight_dropout(const AttentionContext& context, std::string_view variant);

/// softmax, softmax_naive, conformal, linear, performer, sparse, w2, w2_overlap.
Registry<AttentionOptions> builtin_attentions();

}  // namespace mobius
