#include "nn/attention/sparse.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/options/validate.h"
#include "nn/attention/multi_head.h"

namespace mobius {

namespace {

AttentionMask pattern_mask(const SparseSelection& selection, AttentionMask mask) {
  if (mask.window > 0) throw Error("sparse: expected a mask without a window of its own");
  if (selection.pattern == SparsePattern::topk) return mask;
  mask.window = selection.window;
  if (selection.pattern == SparsePattern::strided) {
    mask.stride = selection.stride;
    mask.n_global = selection.n_global;
  }
  return mask;
}

// For a number that the pattern does not read. Its default may stand there all the same.
void refuse_without_effect(bool is_read, std::int64_t value, std::int64_t unset,
                           const char* unless) {
  if (!is_read && value != unset) throw ConfigError("has no effect unless pattern: {}", unless);
}

// Keeps the topk largest scores of those allowed; ties: the smaller j.
void keep_largest(std::span<const double> scores, std::int64_t topk,
                  std::span<std::uint8_t> allowed) {
  std::vector<std::size_t> seen;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (allowed[j] != 0) seen.push_back(j);
  const auto is_before = [&](std::size_t a, std::size_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  std::sort(seen.begin(), seen.end(), is_before);
  for (std::size_t rank = static_cast<std::size_t>(topk); rank < seen.size(); ++rank)
    allowed[seen[rank]] = 0;
}

class SparseAttention final : public MultiHeadAttention {
 public:
  SparseAttention(const AttentionContext& context, const SparseOptions& options)
      : MultiHeadAttention(context), selection_(options.selection), scale_(options.scale) {}

 protected:
  Variable attend(const HeadInputs& in) override {
    return sparse_attention(in.q, in.k, in.v, selection_, in.mask, scale_, in.extras);
  }
  Variable weights(const HeadInputs& in) override {
    return sparse_weights(in.q, in.k, selection_, in.mask, scale_, in.extras);
  }

 private:
  SparseSelection selection_;
  std::optional<double> scale_;
};

}  // namespace

void SparseSelection::validate() const {
  if (window < 1) throw ConfigError("sparse: expected a window of at least 1, got {}", window);
  if (stride < 1) throw ConfigError("sparse: expected a stride of at least 1, got {}", stride);
  if (n_global < 0) throw ConfigError("sparse: expected n_global of at least 0, got {}", n_global);
  if (topk < 1) throw ConfigError("sparse: expected topk of at least 1, got {}", topk);
}

Variable sparse_attention(const Variable& q, const Variable& k, const Variable& v,
                          const SparseSelection& selection, const AttentionMask& mask,
                          std::optional<double> scale, const AttentionExtras& extras) {
  selection.validate();
  AttentionCall call = softmax_call(q, k, v, pattern_mask(selection, mask), scale, extras);
  if (selection.pattern == SparsePattern::topk) {
    AttentionInputs inputs;
    inputs.q = q.data();
    inputs.k = k.data();
    inputs.v = v.data();
    call.spec.mask.selected = attention_topk(call.spec, inputs, selection.topk);
  }
  return attention(call);
}

Variable sparse_weights(const Variable& q, const Variable& k, const SparseSelection& selection,
                        const AttentionMask& mask, std::optional<double> scale,
                        const AttentionExtras& extras) {
  const AttentionMask allowed{.mask = sparse_allowed(q.data(), k.data(), selection, mask, scale)};
  return attention_weights(softmax_call(q, k, {}, allowed, scale, extras));
}

Tensor sparse_allowed(const Tensor& q, const Tensor& k, const SparseSelection& selection,
                      const AttentionMask& mask, std::optional<double> scale) {
  selection.validate();
  const std::int64_t n_heads = q.size(1), n_q = q.size(2), n_k = k.size(2);
  const Shape pairs{q.size(0), n_heads, n_q, n_k};
  const Tensor seen =
      materialize_mask(pattern_mask(selection, mask), n_q, n_k, q.device()).expand(pairs);
  if (selection.pattern != SparsePattern::topk) return seen.contiguous();

  // Only the order counts, which the usual scale, positive, leaves as it is.
  const Tensor queries = mobius::scale(q, scale.value_or(1));
  const Tensor keys = for_every_head(Variable(k), n_heads).data().transpose(-1, -2);
  const std::vector<double> scores = matmul(queries, keys).to_vector<double>();
  std::vector<std::uint8_t> allowed = seen.to_vector<std::uint8_t>();
  const auto width = static_cast<std::size_t>(n_k);
  for (std::size_t first = 0; first < scores.size(); first += width)
    keep_largest(std::span(scores).subspan(first, width), selection.topk,
                 std::span(allowed).subspan(first, width));
  return Tensor::from(allowed, pairs, q.device());
}

void SparseOptions::describe(Schema& schema) {
  schema.choice("pattern", selection.pattern,
                {{"local", SparsePattern::local},
                 {"strided", SparsePattern::strided},
                 {"topk", SparsePattern::topk}},
                "which keys a query looks at");
  schema.field("window", selection.window, "local, strided: keys nearer than this")
      .positive()
      .unbounded();
  schema.field("stride", selection.stride, "strided: keys at multiples of this distance, too")
      .positive()
      .unbounded();
  schema.field("n_global", selection.n_global, "strided: the first keys, too")
      .non_negative()
      .unbounded();
  schema.field("topk", selection.topk, "topk: number of keys with the largest scores")
      .positive()
      .unbounded();
  schema.field("scale", scale, "factor on the dot products; null: 1 / sqrt(head dimension)")
      .positive();

  const SparseSelection unset;
  const auto is = [this](SparsePattern pattern) { return selection.pattern == pattern; };
  schema.check("window", [this, unset, is] {
    refuse_without_effect(!is(SparsePattern::topk), selection.window, unset.window,
                          "local or strided");
  });
  schema.check("stride", [this, unset, is] {
    refuse_without_effect(is(SparsePattern::strided), selection.stride, unset.stride, "strided");
  });
  schema.check("n_global", [this, unset, is] {
    refuse_without_effect(is(SparsePattern::strided), selection.n_global, unset.n_global,
                          "strided");
  });
  schema.check("topk", [this, unset, is] {
    refuse_without_effect(is(SparsePattern::topk), selection.topk, unset.topk, "topk");
  });
}

std::shared_ptr<Attention> SparseOptions::build(const AttentionContext& context) const {
  validate_option_values(*this, "sparse");
  return std::make_shared<SparseAttention>(context, *this);
}

}  // namespace mobius
