#include "nn/attention/multi_head.h"

namespace mobius {

MultiHeadAttention::MultiHeadAttention(const AttentionContext& context)
    : d_model_(context.d_model),
      n_heads_(context.n_heads),
      rope_(context.rope),
      rope_base_(context.rope_base) {
  if (n_heads_ < 1 || d_model_ % n_heads_ != 0)
    throw ConfigError("attention: expected a number of heads that divides d_model = {}, got {}",
                      d_model_, n_heads_);
  if (rope_ && head_dim() % 2 != 0)
    throw ConfigError("attention: rope needs an even head dimension, got {} / {} = {}", d_model_,
                      n_heads_, head_dim());
  qkv_ = make_child<Linear>("qkv", context.init, d_model_, 3 * d_model_, context.bias);
  proj_ = make_child<Linear>("proj", context.init, d_model_, d_model_, context.bias,
                             context.output_scale);
}

Variable MultiHeadAttention::forward(const Variable& x, const AttentionMask& mask,
                                     const ForwardContext&) {
  const std::vector<Variable> qkv = split(qkv_->forward(x), {d_model_, d_model_, d_model_}, -1);
  const Variable q = rotate(split_heads(qkv[0]));  // [B, H, N, d]
  const Variable k = rotate(split_heads(qkv[1]));
  const Variable v = split_heads(qkv[2]);
  return proj_->forward(merge_heads(attend(q, k, v, mask)));
}

// [B, N, H d] -> [B, H, N, d], a view.
Variable MultiHeadAttention::split_heads(const Variable& x) const {
  return transpose(reshape(x, {x.size(0), x.size(1), n_heads_, head_dim()}), 1, 2);
}

// [B, H, N, d] -> [B, N, H d].
Variable MultiHeadAttention::merge_heads(const Variable& x) const {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), d_model_});
}

}  // namespace mobius
