#include "nn/attention/multi_head.h"

#include <algorithm>

namespace mobius {

namespace {

// [B, H, N, d] -> [B, N, H d].
Variable merge_heads(const Variable& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

}  // namespace

std::unique_ptr<AttentionCache> Attention::make_cache() const {
  return std::make_unique<InputCache>();
}

Variable Attention::extend(const Variable& x, AttentionCache& cache) {
  const NoGradGuard no_grad;
  const Variable all = dynamic_cast<InputCache&>(cache).append(x);
  const Variable out = forward(all, {.causal = true}, {});
  return slice(out, 1, out.size(1) - x.size(1), out.size(1));
}

void refuse_distance_bias(const AttentionContext& context, std::string_view variant,
                          std::string_view why) {
  if (context.positions == Positions::alibi || context.positions == Positions::relative)
    throw ConfigError("{}: positions {} do not go with it: {}", variant,
                      context.positions == Positions::alibi ? "alibi" : "relative", why);
}

void refuse_weight_dropout(const AttentionContext& context, std::string_view variant) {
  if (context.dropout > 0)
    throw ConfigError(
        "{}: attention_dropout does not go with it: it never forms the weights to drop, got {}",
        variant, context.dropout);
}

MultiHeadAttention::MultiHeadAttention(const AttentionContext& context, std::int64_t qk_parts)
    : d_model_(context.d_model),
      n_heads_(context.n_heads),
      n_kv_heads_(context.n_kv_heads == 0 ? context.n_heads : context.n_kv_heads),
      qk_parts_(qk_parts),
      positions_(context.positions),
      rope_base_(context.rope_base),
      dropout_(context.dropout),
      dropout_site_(context.init.at("weights").path()) {
  if (n_heads_ < 1 || d_model_ % n_heads_ != 0)
    throw ConfigError("attention: expected a number of heads that divides d_model = {}, got {}",
                      d_model_, n_heads_);
  if (n_kv_heads_ < 1 || n_heads_ % n_kv_heads_ != 0)
    throw ConfigError("attention: expected n_kv_heads that divide n_heads = {}, got {}", n_heads_,
                      n_kv_heads_);
  if (positions_ == Positions::rope && head_dim() % 2 != 0)
    throw ConfigError("attention: rope needs an even head dimension, got {} / {} = {}", d_model_,
                      n_heads_, head_dim());
  if (!(dropout_ >= 0 && dropout_ < 1))
    throw ConfigError("attention: expected a dropout in [0, 1), got {}", dropout_);
  const std::int64_t d_q = qk_parts_ * head_dim();
  qkv_ = make_child<Linear>(
      "qkv", context.init, d_model_,
      std::vector{n_heads_ * d_q, n_kv_heads_ * d_q, n_kv_heads_ * head_dim()}, context.bias);
  proj_ = make_child<Linear>("proj", context.init, d_model_, d_model_, context.bias,
                             context.output_scale);
  if (positions_ == Positions::relative) {
    if (context.max_distance < 1 || context.max_distance > largest_count)
      throw ConfigError("attention: expected max_distance in [1, {}], got {}", largest_count,
                        context.max_distance);
    relative_ = register_parameter("relative", context.init.zeros({2 * context.max_distance + 1}));
  }
}

Variable MultiHeadAttention::rotate(const Variable& x, std::int64_t position) const {
  return positions_ == Positions::rope ? rope(x, rope_base_, position) : x;
}

Variable MultiHeadAttention::distance_bias(const HeadInputs& in) const {
  const std::int64_t n_q = in.q.size(2), n_k = in.k.size(2);
  if (positions_ == Positions::alibi)
    return Variable(alibi_bias(n_heads_, n_q, n_k, in.q.dtype(), in.q.device()));
  if (positions_ == Positions::relative) return relative_bias(relative_, n_heads_, n_q, n_k);
  return {};
}

HeadInputs MultiHeadAttention::head_inputs(const Variable& x, const AttentionMask& mask,
                                           std::int64_t position) const {
  const std::int64_t d_q = qk_parts_ * head_dim();
  const std::vector<Variable> qkv = split_heads(
      qkv_->forward(x), {{n_heads_, d_q}, {n_kv_heads_, d_q}, {n_kv_heads_, head_dim()}});
  HeadInputs in{.q = qkv[0], .k = qkv[1], .v = qkv[2], .mask = mask, .extras = {}};
  if (qk_parts_ == 1) {
    in.q = rotate(in.q, position);
    in.k = rotate(in.k, position);
  }
  return in;
}

// The queries of some sequences, and the keys that a causal mask lets the last of them see.
HeadInputs MultiHeadAttention::part_of(const HeadInputs& in, const Share& sequences,
                                       const Share& queries) const {
  const std::int64_t n_keys = in.mask.causal ? queries.end : in.k.size(2);
  const auto part = [&](const Variable& x, std::int64_t begin, std::int64_t end) {
    return slice(slice(x, 0, sequences.begin, sequences.end), 2, begin, end);
  };
  HeadInputs out{.q = part(in.q, queries.begin, queries.end),
                 .k = part(in.k, 0, n_keys),
                 .v = part(in.v, 0, n_keys),
                 .mask = in.mask,
                 .extras = {}};
  out.extras.distance_bias = distance_bias(out);
  return out;
}

// Of as many weights at a time as are worth the calls: of several short sequences, or of a few
// queries of a long one. A mask that is given is not taken apart, nor are queries that see all
// keys.
void MultiHeadAttention::diagnose(const HeadInputs& in, Diagnosis diagnosis) {
  constexpr std::int64_t at_once = 1 << 20;
  const NoGradGuard no_grad;
  const std::int64_t batch = in.q.size(0), n = in.q.size(2), row = n_heads_ * n;
  const auto up_to = [&](std::int64_t count, std::int64_t weights_of_each) {
    return std::clamp<std::int64_t>(at_once / weights_of_each, 1, count);
  };
  const bool is_given = in.mask.mask.defined();
  const std::int64_t n_sequences = is_given ? batch : up_to(batch, row * n);
  const std::int64_t n_queries = is_given || !in.mask.causal ? n : up_to(n, row);
  const bool keeps_weights = diagnosis == Diagnosis::weights;
  first_weights_ =
      keeps_weights ? Tensor::zeros({n_heads_, n, n}, in.q.dtype(), in.q.device()) : Tensor();
  MeanEntropy entropy(n_heads_);
  for (std::int64_t first = 0; first < batch; first += n_sequences) {
    const Share sequences{first, std::min(first + n_sequences, batch)};
    for (std::int64_t begin = 0; begin < n; begin += n_queries) {
      const Share queries{begin, std::min(begin + n_queries, n)};
      const Tensor part = weights(part_of(in, sequences, queries)).data();
      entropy.add(part);
      if (!keeps_weights || first > 0) continue;
      first_weights_.slice(1, queries.begin, queries.end)
          .slice(2, 0, part.size(3))
          .copy_from(part.slice(0, 0, 1).squeeze(0));
    }
  }
  entropy_ = entropy.value();
}

Variable MultiHeadAttention::forward(const Variable& x, const AttentionMask& mask,
                                     const ForwardContext& context) {
  HeadInputs in = head_inputs(x, mask, /*position=*/0);
  in.extras.distance_bias = distance_bias(in);
  if (context.training) {
    in.extras.dropout = dropout_;
    in.extras.dropout_key = {context.rng.seed, stream_id(dropout_site_, context.rng.stream)};
  }
  if (context.diagnosis != Diagnosis::none) diagnose(in, context.diagnosis);
  return proj_->forward(merge_heads(attend(in)));
}

std::unique_ptr<AttentionCache> MultiHeadAttention::make_cache() const {
  return std::make_unique<KeyValueCache>();
}

Variable MultiHeadAttention::extend(const Variable& x, AttentionCache& cache) {
  const NoGradGuard no_grad;
  const HeadInputs in = head_inputs(x, {.causal = true}, cache.length());
  return proj_->forward(merge_heads(attend_cached(in, cache)));
}

Variable MultiHeadAttention::attend_cached(HeadInputs in, AttentionCache& cache) {
  auto& memory = dynamic_cast<KeyValueCache&>(cache);
  memory.append(in.k, in.v);
  in.k = memory.keys();
  in.v = memory.values();
  in.extras.distance_bias = distance_bias(in);
  return attend(in);
}

}  // namespace mobius
