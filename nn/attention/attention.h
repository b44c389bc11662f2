// What every attention variant looks like from outside, and the list of them.
#pragma once

#include <memory>
#include <string>

#include "core/backend.h"
#include "core/registry.h"
#include "core/schema.h"
#include "nn/init.h"
#include "nn/module.h"

namespace mobius {

/// One attention layer: x[B, N, d_model] -> [B, N, d_model].
class Attention : public Module {
 public:
  virtual Variable forward(const Variable& x, const AttentionMask& mask,
                           const ForwardContext& context) = 0;

  /// Share of the queries of the last forward pass that lie beyond the resolution limit of their
  /// key count (docs/MATH.md, section 1). Negative where the variant has no such limit.
  virtual double share_beyond_resolution() const { return -1; }
};

/// What a variant learns about the model around it.
struct AttentionContext {
  std::int64_t d_model;
  std::int64_t n_heads;
  bool bias;  // of the projections
  bool rope;  // rotary positions on q and k
  double rope_base;
  Initializer init;
  double output_scale;  // factor on the std of the initial output projection
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

/// softmax, conformal.
Registry<AttentionOptions> builtin_attentions();

}  // namespace mobius
