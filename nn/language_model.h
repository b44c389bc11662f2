// The model of every experiment: embedding, pre-norm blocks, final norm, head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "nn/block.h"
#include "nn/linear.h"

namespace mobius {

/// Throws the ConfigError that building this model would throw, without making its parameters.
void require_buildable(const ModelOptions& model, const AttentionOptions& attention);

/// How many numbers the parameters of a model hold, by part, and its buffers. They are doubles
/// because those of an impossible model may not fit an integer.
struct ModelSize {
  double embedding = 0;
  double positions = 0;
  double blocks = 0;
  double head = 0;  // with the final norm
  double buffers = 0;
  std::string largest_of_block{};  // name and shape: "mlp.w_up.weight [256, 64]"

  double parameters() const { return embedding + positions + blocks + head; }
};

/// Computes the size of a LanguageModel with these options without making it.
ModelSize size_of_model(const ModelOptions& model, const AttentionOptions& attention,
                        std::int64_t vocab_size, std::int64_t max_seq_len);

/// The caches of a model for LanguageModel::extend().
struct ModelCache {
  BlockCaches blocks;
  std::int64_t length = 0;  // tokens read
};

/// A causal language model. Parameters are named embedding.weight, positions.weight (if positions
/// are learned), blocks.I.attention_norm, .attention, .mlp_norm, .mlp, final_norm and head.weight
/// (if the head is not tied).
class LanguageModel : public Module {
 public:
  /// vocab_size and max_seq_len come from the task. init_seed determines the initial values.
  /// `products` is the matmul precision of all linear layers, including the head. Throws
  /// ConfigError if the options do not fit together.
  LanguageModel(const ModelOptions& model, const AttentionOptions& attention,
                std::int64_t vocab_size, std::int64_t max_seq_len, std::uint64_t init_seed,
                DType dtype = DType::f32, Device device = {},
                MatmulPrecision products = MatmulPrecision::full);

  /// tokens[B, N] -> normalised hidden states [B, N, d_model], the input of the head. N may not
  /// exceed max_seq_len if positions are learned.
  Variable hidden(const RowIndex& tokens, const ForwardContext& context) const;
  /// [B, N, V]. Here and below, tokens in a tensor (i32 or i64) are checked on the host and copied
  /// to the device of the model if they lie elsewhere. Throws Error on a token outside the
  /// vocabulary.
  Variable logits(const Tensor& tokens, const ForwardContext& context) const;
  /// Returns an empty cache.
  ModelCache make_cache() const { return {.blocks = blocks_->make_caches()}; }
  /// Appends tokens[B, n] to the cache and returns their logits, [B, n, V]. Uses no gradients and
  /// no dropout.
  Variable extend(const Tensor& tokens, ModelCache& cache) const;
  /// Returns the mean cross-entropy over the labels of [B, N] that are not ignored. The label at
  /// [b, n] is the target of position n, already shifted; see linear_cross_entropy().
  LossResult loss(const RowIndex& tokens, const Labels& labels, const ForwardContext& context,
                  double normalizer = 0) const;

  /// The device of the parameters.
  Device device() const { return embedding_->weight().device(); }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t max_seq_len() const { return max_seq_len_; }
  /// Whether it can read sequences longer than max_seq_len(), which learned positions prevent.
  bool reads_longer_sequences() const { return !positions_; }
  /// Returns the attention of each layer, for diagnostics.
  std::vector<std::shared_ptr<Attention>> attentions() const;

 private:
  RowIndex prepared(const Tensor& tokens) const;
  /// `position` is that of the first token.
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
