// The model of every experiment: embedding, pre-norm blocks, final norm, head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/block.h"
#include "nn/linear.h"

namespace mobius {

/// Throws the ConfigError that building such a model would, without making its parameters.
void require_buildable(const ModelOptions& model, const AttentionOptions& attention);

/// How many numbers the parameters of a model hold, by part, and its buffers. As doubles, for those
/// of a model that cannot be may not fit an integer.
struct ModelSize {
  double embedding = 0;
  double positions = 0;
  double blocks = 0;
  double head = 0;  // with the final norm
  double buffers = 0;
  std::string largest_of_block{};  // name and shape: "mlp.w_up.weight [256, 64]"

  double parameters() const { return embedding + positions + blocks + head; }
};

/// Those of a LanguageModel of these options, found without making one.
ModelSize size_of_model(const ModelOptions& model, const AttentionOptions& attention,
                        std::int64_t vocab_size, std::int64_t max_seq_len);

/// What a model remembers of the tokens it has read, for LanguageModel::extend().
struct ModelCache {
  BlockCaches blocks;
  std::int64_t length = 0;  // tokens read
};

/// A causal language model. Parameters are named embedding.weight, positions.weight (learned
/// positions), blocks.I.attention_norm, .attention, .mlp_norm, .mlp, final_norm and, where the head
/// is not tied, head.weight.
class LanguageModel : public Module {
 public:
  /// vocab_size and max_seq_len come from the task; init_seed makes the initial values. Throws
  /// ConfigError on options that do not fit together. `products` is the precision of the products
  /// of all its linear layers, the head's too.
  LanguageModel(const ModelOptions& model, const AttentionOptions& attention,
                std::int64_t vocab_size, std::int64_t max_seq_len, std::uint64_t init_seed,
                DType dtype = DType::f32, Device device = {},
                ProductPrecision products = ProductPrecision::full);

  /// tokens[B, N] -> hidden states [B, N, d_model], normalised, ready for the head. N may not
  /// exceed max_seq_len where positions are learned.
  Variable hidden(const RowIndex& tokens, const ForwardContext& context) const;
  /// [B, N, V]. Here and below, tokens in a tensor (i32 or i64) are checked on the host and copied
  /// to the device of the model if they lie elsewhere. Throws Error on a token outside the
  /// vocabulary.
  Variable logits(const Tensor& tokens, const ForwardContext& context) const;
  /// An empty memory.
  ModelCache make_cache() const { return {.blocks = blocks_->make_caches()}; }
  /// logits() of tokens[B, n] that follow those in the cache, [B, n, V], without reading the former
  /// again. Without gradients and dropout.
  Variable extend(const Tensor& tokens, ModelCache& cache) const;
  /// Mean cross-entropy over the labels of [B, N] that count: the one at [b, n] is what the model
  /// should predict at position n (already shifted); see linear_cross_entropy().
  LossResult loss(const RowIndex& tokens, const Labels& labels, const ForwardContext& context,
                  double normalizer = 0) const;

  /// Where its parameters lie, and its inputs are copied to.
  Device device() const { return embedding_->weight().device(); }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t max_seq_len() const { return max_seq_len_; }
  /// Whether sequences longer than max_seq_len() can be read: not where positions are learned.
  bool reads_longer_sequences() const { return !positions_; }
  /// One a layer, for diagnostics.
  std::vector<std::shared_ptr<Attention>> attentions() const;

 private:
  RowIndex prepared(const Tensor& tokens) const;
  /// `position`: of the first token.
  Variable embed(const RowIndex& tokens, std::int64_t position) const;

  std::int64_t vocab_size_;
  std::int64_t max_seq_len_;
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<Embedding> positions_;  // null unless learned
  Dropout dropout_;
  std::shared_ptr<BlockStack> blocks_;
  std::shared_ptr<Norm> final_norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace mobius
