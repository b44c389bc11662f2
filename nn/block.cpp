#include "nn/block.h"

#include <string>

namespace mobius {

Block::Block(const Initializer& init, const ModelOptions& model, const AttentionOptions& attention)
    : attention_dropout_(model.dropout, init.at("attention_dropout").path()),
      mlp_dropout_(model.dropout, init.at("mlp_dropout").path()) {
  const std::int64_t d = model.d_model;
  attention_norm_ = make_child<Norm>("attention_norm", init, model.norm, d);
  attention_ =
      register_module("attention", attention.build({.model = model, .init = init.at("attention")}));
  mlp_norm_ = make_child<Norm>("mlp_norm", init, model.norm, d);
  mlp_ = make_child<Mlp>("mlp", init, model.mlp,
                         MlpSizes{d, model.hidden_width(), model.bias, model.residual_gain()});
}

Variable Block::forward(Variable h, const AttentionMask& mask,
                        const ForwardContext& context) const {
  h = h + attention_dropout_.forward(
              attention_->forward(attention_norm_->forward(h), mask, context), context);
  h = h + mlp_dropout_.forward(mlp_->forward(mlp_norm_->forward(h)), context);
  return h;
}

Variable Block::extend(Variable h, AttentionCache& cache) const {
  h = h + attention_->extend(attention_norm_->forward(h), cache);
  h = h + mlp_->forward(mlp_norm_->forward(h));
  return h;
}

BlockStack::BlockStack(const Initializer& init, const ModelOptions& model,
                       const AttentionOptions& attention) {
  for (std::int64_t layer = 0; layer < model.n_layers; ++layer)
    blocks_.push_back(make_child<Block>(std::to_string(layer), init, model, attention));
}

Variable BlockStack::forward(Variable h, const AttentionMask& mask,
                             const ForwardContext& context) const {
  for (const std::shared_ptr<Block>& block : blocks_) {
    if (context.sink != nullptr) context.sink->begin_layer();
    h = block->forward(h, mask, context);
  }
  return h;
}

BlockCaches BlockStack::make_caches() const {
  BlockCaches caches;
  for (const std::shared_ptr<Block>& block : blocks_)
    caches.push_back(block->attention()->make_cache());
  return caches;
}

Variable BlockStack::extend(Variable h, const BlockCaches& caches) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) h = blocks_[i]->extend(h, *caches.at(i));
  return h;
}

}  // namespace mobius
