#include "nn/language_model.h"

namespace mobius {

void require_buildable(const ModelOptions& model, const AttentionOptions& attention) {
  model.validate();
  Block(Initializer::without_values(), model, attention);
}

// Counts the parts that the constructor below makes. Blocks are alike, so one is enough.
ModelSize size_of_model(const ModelOptions& model, const AttentionOptions& attention,
                        std::int64_t vocab_size, std::int64_t max_seq_len) {
  const Initializer init = Initializer::without_values();
  const auto width = static_cast<double>(model.d_model);
  const auto n_layers = static_cast<double>(model.n_layers);
  const double table = static_cast<double>(vocab_size) * width;
  const bool has_positions = model.positions == Positions::learned;
  ModelSize size;
  size.embedding = table;
  size.positions = has_positions ? static_cast<double>(max_seq_len) * width : 0;
  size.head = static_cast<double>(Norm(init, model.final_norm, model.d_model).parameter_count());
  if (!model.tied_head) size.head += table;

  const Block block(init, model, attention);
  std::int64_t largest = 0;
  const auto count = [&](const std::string& name, const Shape& shape, double& sum) {
    sum += n_layers * static_cast<double>(numel(shape));
    if (numel(shape) <= largest) return;
    largest = numel(shape);
    size.largest_of_block = name + " " + to_string(shape);
  };
  for (const auto& [name, value] : block.parameters()) count(name, value.shape(), size.blocks);
  for (const auto& [name, value] : block.buffers()) count(name, value.shape(), size.buffers);
  return size;
}

LanguageModel::LanguageModel(const ModelOptions& model, const AttentionOptions& attention,
                             std::int64_t vocab_size, std::int64_t max_seq_len,
                             std::uint64_t init_seed, DType dtype, Device device,
                             MatmulPrecision products)
    : vocab_size_(vocab_size),
      max_seq_len_(max_seq_len),
      dropout_(model.dropout, "embedding_dropout") {
  model.validate();
  if (vocab_size < 1 || max_seq_len < 1)
    throw ConfigError("language model: expected a vocabulary and a length, got sizes {} and {}",
                      vocab_size, max_seq_len);
  const Initializer init(init_seed, model.init_std, model.init == InitKind::orthogonal, dtype,
                         device, products);
  embedding_ = make_child<Embedding>("embedding", init, vocab_size, model.d_model);
  if (model.positions == Positions::learned)
    positions_ = make_child<Embedding>("positions", init, max_seq_len, model.d_model);
  blocks_ = make_child<BlockStack>("blocks", init, model, attention);
  final_norm_ = make_child<Norm>("final_norm", init, model.final_norm, model.d_model);
  head_ = model.tied_head
              ? register_module("head", std::make_shared<Linear>(embedding_->weight(), products))
              : make_child<Linear>("head", init, model.d_model, vocab_size, /*bias=*/false);
}

RowIndex LanguageModel::prepared(const Tensor& tokens) const {
  return RowIndex("language model", tokens, vocab_size_).to(device());
}

Variable LanguageModel::embed(const RowIndex& tokens, std::int64_t position) const {
  if (tokens.shape().size() != 2)
    throw ShapeError("language model: expected tokens [batch, positions], got {}",
                     to_string(tokens.shape()));
  const Variable embedded = embedding_->forward(tokens);
  if (!positions_) return embedded;
  const std::int64_t end = position + tokens.shape()[1];
  if (end > max_seq_len_)
    throw ShapeError("language model: {} tokens a sequence, but positions are learned up to {}",
                     end, max_seq_len_);
  return embedded + positions_->rows(position, end);
}

Variable LanguageModel::hidden(const RowIndex& tokens, const ForwardContext& context) const {
  const Variable h = dropout_.forward(embed(tokens, /*position=*/0), context);
  return final_norm_->forward(blocks_->forward(h, {.causal = true}, context));
}

Variable LanguageModel::logits(const Tensor& tokens, const ForwardContext& context) const {
  return head_->forward(hidden(prepared(tokens), context));
}

Variable LanguageModel::extend(const Tensor& tokens, ModelCache& cache) const {
  const NoGradGuard no_grad;
  const Variable h = blocks_->extend(embed(prepared(tokens), cache.length), cache.blocks);
  cache.length += tokens.size(1);
  return head_->forward(final_norm_->forward(h));
}

LossResult LanguageModel::loss(const RowIndex& tokens, const Labels& labels,
                               const ForwardContext& context, double normalizer) const {
  return linear_cross_entropy(hidden(tokens, context), head_->weight(), labels, normalizer,
                              head_->products());
}

std::vector<std::shared_ptr<Attention>> LanguageModel::attentions() const {
  std::vector<std::shared_ptr<Attention>> attentions;
  for (const std::shared_ptr<Block>& block : blocks_->blocks())
    attentions.push_back(block->attention());
  return attentions;
}

}  // namespace mobius
