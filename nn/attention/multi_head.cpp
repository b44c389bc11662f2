#include "nn/attention/multi_head.h"

#include <algorithm>

namespace mobius {

namespace {

// [B, H, N, d] -> [B, N, H d].
Variable merge_heads(const Variable& x) {
  return reshape(transpose(x, 1, 2), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// Returns the slopes of alibi, [H, 1]. They are computed once, on the host.
Tensor slopes_of(const Initializer& init, std::int64_t n_heads) {
  if (!init.has_values()) return init.zeros({n_heads, 1});
  return Tensor::from(alibi_slopes(n_heads), {n_heads, 1}, init.device()).to(init.dtype());
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const AttentionContext& context, std::int64_t qk_parts)
    : n_heads_(context.model.n_heads),
      n_kv_heads_(context.model.n_kv_heads == 0 ? n_heads_ : context.model.n_kv_heads),
      head_dim_(context.model.head_dim()),
      qk_parts_(qk_parts),
      dropout_(context.model.attention_dropout),
      dropout_site_(context.init.at("weights").path()) {
  const auto& [model, init, kind] = context;
  const std::int64_t d_q = qk_parts_ * head_dim_;
  qkv_ = make_child<Linear>("qkv", init, model.d_model,
                            std::vector{n_heads_ * d_q, n_kv_heads_ * d_q, n_kv_heads_ * head_dim_},
                            model.bias);
  proj_ = make_child<Linear>("proj", init, model.d_model, model.d_model, model.bias,
                             model.residual_gain());
  if (model.positions == Positions::rope) rope_base_ = model.rope_base;
  if (model.positions == Positions::alibi) alibi_slopes_ = slopes_of(init, n_heads_);
  if (model.positions == Positions::relative)
    relative_ = register_parameter("relative", init.zeros({2 * model.max_distance + 1}));
}

Variable MultiHeadAttention::distance_bias(const HeadInputs& in) const {
  const std::int64_t n_q = in.q.size(2), n_k = in.k.size(2);
  if (alibi_slopes_.defined()) return Variable(alibi_bias(alibi_slopes_, n_q, n_k));
  if (relative_.defined()) return relative_bias(relative_, n_heads_, n_q, n_k);
  return {};
}

HeadInputs MultiHeadAttention::head_inputs(const Variable& x, const AttentionMask& mask,
                                           std::int64_t position) const {
  const std::int64_t d_q = qk_parts_ * head_dim_;
  const std::vector<Variable> qkv = split_heads(
      qkv_->forward(x), {{n_heads_, d_q}, {n_kv_heads_, d_q}, {n_kv_heads_, head_dim_}});
  HeadInputs in{.q = qkv[0], .k = qkv[1], .v = qkv[2], .mask = mask, .products = qkv_->products()};
  if (rope_base_ && qk_parts_ == 1) {
    in.q = rope(in.q, *rope_base_, position);
    in.k = rope(in.k, *rope_base_, position);
  }
  return in;
}

// Returns some queries of some sequences, and the keys that a causal mask lets the last one see.
HeadInputs MultiHeadAttention::part_of(const HeadInputs& in, const Share& sequences,
                                       const Share& queries) const {
  const std::int64_t n_keys = in.mask.causal ? queries.end : in.k.size(2);
  const auto part = [&](const Variable& x, std::int64_t begin, std::int64_t end) {
    return slice(slice(x, 0, sequences.begin, sequences.end), 2, begin, end);
  };
  HeadInputs out{.q = part(in.q, queries.begin, queries.end),
                 .k = part(in.k, 0, n_keys),
                 .v = part(in.v, 0, n_keys),
                 .mask = in.mask};
  out.extras.distance_bias = distance_bias(out);
  out.all_keys = slice(in.k, 0, sequences.begin, sequences.end);
  return out;
}

// Forms about 2^20 weights at a time: those of several short sequences, or of a few queries of a
// long one. Does not split a given mask or queries that see all keys.
void MultiHeadAttention::diagnose(const HeadInputs& in, DiagnosticsSink& sink) const {
  constexpr std::int64_t at_once = 1 << 20;
  const NoGradGuard no_grad;
  const std::int64_t batch = in.q.size(0), n = in.q.size(2), row = n_heads_ * n;
  const auto up_to = [&](std::int64_t count, std::int64_t weights_of_each) {
    return std::clamp<std::int64_t>(at_once / weights_of_each, 1, count);
  };
  const bool is_given = in.mask.mask.defined();
  const std::int64_t n_sequences = is_given ? batch : up_to(batch, row * n);
  const std::int64_t n_queries = is_given || !in.mask.causal ? n : up_to(n, row);
  const bool keeps_weights = sink.asks_for(Diagnosis::weights);
  const Tensor first_weights =
      keeps_weights ? Tensor::zeros({n_heads_, n, n}, in.q.dtype(), in.q.device()) : Tensor();
  MeanEntropy entropy(n_heads_);
  for (std::int64_t first = 0; first < batch; first += n_sequences) {
    const Share sequences{first, std::min(first + n_sequences, batch)};
    for (std::int64_t begin = 0; begin < n; begin += n_queries) {
      const Share queries{begin, std::min(begin + n_queries, n)};
      const Tensor part = weights(part_of(in, sequences, queries)).data();
      entropy.add(part);
      if (!keeps_weights || first > 0) continue;
      first_weights.slice(1, queries.begin, queries.end)
          .slice(2, 0, part.size(3))
          .copy_from(part.slice(0, 0, 1).squeeze(0));
    }
  }
  sink.tell({"entropy", entropy.value()});
  sink.tell_weights(first_weights);
}

Variable MultiHeadAttention::forward(const Variable& x, const AttentionMask& mask,
                                     const ForwardContext& context) const {
  HeadInputs in = head_inputs(x, mask, /*position=*/0);
  in.extras.distance_bias = distance_bias(in);
  if (context.training) {
    in.extras.dropout = dropout_;
    in.extras.dropout_key = {context.rng.seed, stream_id(dropout_site_, context.rng.stream)};
  }
  in.sink = context.sink;
  if (in.sink != nullptr && in.sink->asks_for(Diagnosis::entropy)) {
    diagnose(in, *in.sink);
    tell_parameters(*in.sink);
  }
  return proj_->forward(merge_heads(attend(in)));
}

std::unique_ptr<AttentionCache> MultiHeadAttention::make_cache() const {
  return std::make_unique<KeyValueCache>();
}

Variable MultiHeadAttention::extend(const Variable& x, AttentionCache& cache) const {
  const NoGradGuard no_grad;
  const HeadInputs in = head_inputs(x, {.causal = true}, cache.length());
  return proj_->forward(merge_heads(attend_cached(in, cache)));
}

Variable MultiHeadAttention::attend(const HeadInputs& in) const {
  return apply_weights(weights(in), in);
}

Variable MultiHeadAttention::attend_cached(HeadInputs in, AttentionCache& cache) const {
  auto& memory = dynamic_cast<KeyValueCache&>(cache);
  memory.append(in.k, in.v);
  in.k = memory.keys();
  in.v = memory.values();
  in.extras.distance_bias = distance_bias(in);
  return attend(in);
}

AttentionCall product_call(const HeadInputs& in) {
  return {.spec = {.mask = in.mask,
                   .dropout = in.extras.dropout,
                   .dropout_key = in.extras.dropout_key,
                   .precision = in.products},
          .inputs = {.q = in.q, .k = in.k, .v = in.v, .distance_bias = in.extras.distance_bias}};
}

Variable apply_weights(const Variable& weights, const HeadInputs& in) {
  const double p = in.extras.dropout;
  return apply_weights(p > 0 ? dropout(weights, p, in.extras.dropout_key) : weights, in.v);
}

}  // namespace mobius
