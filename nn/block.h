// The pre-norm Transformer block.
#pragma once

#include <memory>
#include <vector>

#include "nn/attention/attention.h"
#include "nn/dropout.h"
#include "nn/model_options.h"

namespace mobius {

/// h += dropout(attention(norm(h)));  h += dropout(mlp(norm(h))).
class Block : public Module {
 public:
  Block(const Initializer& init, const ModelOptions& model, const AttentionOptions& attention);

  /// h[B, N, d_model] -> [B, N, d_model].
  Variable forward(Variable h, const AttentionMask& mask, const ForwardContext& context) const;

  /// Computes forward() for the positions after those in the cache; see Attention::extend().
  Variable extend(Variable h, AttentionCache& cache) const;

  const std::shared_ptr<Attention>& attention() const { return attention_; }

 private:
  std::shared_ptr<Norm> attention_norm_, mlp_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Mlp> mlp_;
  Dropout attention_dropout_, mlp_dropout_;
};

/// One cache per block.
using BlockCaches = std::vector<std::unique_ptr<AttentionCache>>;

/// A sequence of blocks, named 0, 1, ...
class BlockStack : public Module {
 public:
  BlockStack(const Initializer& init, const ModelOptions& model, const AttentionOptions& attention);

  Variable forward(Variable h, const AttentionMask& mask, const ForwardContext& context) const;

  BlockCaches make_caches() const;
  Variable extend(Variable h, const BlockCaches& caches) const;

  const std::vector<std::shared_ptr<Block>>& blocks() const { return blocks_; }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace mobius
