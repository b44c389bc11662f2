#include "nn/attention/sparse.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/options/validate.h"

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

AttentionCall selected_call(const HeadInputs& in, const SparseSelection& selection,
                            std::optional<double> scale) {
  AttentionCall call = softmax_call(in, scale);
  call.spec.mask = pattern_mask(selection, in.mask);
  if (selection.pattern == SparsePattern::topk) {
    AttentionInputs inputs;
    inputs.q = in.q.data();
    inputs.k = in.k.data();
    inputs.v = in.v.data();
    call.spec.mask.selected = attention_topk(call.spec, inputs, selection.topk);
  }
  return call;
}

class SparseAttention final : public FusedAttention {
 public:
  SparseAttention(const AttentionContext& context, const SparseOptions& options)
      : FusedAttention(context), selection_(options.selection), scale_(options.scale) {}

 protected:
  AttentionCall call(const HeadInputs& in) const override {
    return selected_call(in, selection_, scale_);
  }
  Variable weights(const HeadInputs& in) const override {
    return sparse_weights(in, selection_, scale_);
  }

 private:
  SparseSelection selection_;
  std::optional<double> scale_;
};

}  // namespace

AttentionCall sparse_call(const HeadInputs& in, const SparseSelection& selection,
                          std::optional<double> scale) {
  validate_options(selection, "sparse");
  return selected_call(in, selection, scale);
}

Variable sparse_weights(const HeadInputs& in, const SparseSelection& selection,
                        std::optional<double> scale) {
  HeadInputs selected = in;
  selected.mask = {.mask = sparse_allowed(in.q.data(), in.k.data(), selection, in.mask, scale)};
  return attention_weights(softmax_call(selected, scale));
}

Tensor sparse_allowed(const Tensor& q, const Tensor& k, const SparseSelection& selection,
                      const AttentionMask& mask, std::optional<double> scale) {
  validate_options(selection, "sparse");
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

void SparseSelection::describe(Schema& schema) {
  schema.choice("pattern", pattern,
                {{"local", SparsePattern::local},
                 {"strided", SparsePattern::strided},
                 {"topk", SparsePattern::topk}},
                "which keys a query looks at");
  const auto is_strided = [this] { return pattern == SparsePattern::strided; };
  const auto is_topk = [this] { return pattern == SparsePattern::topk; };
  schema.field("window", window, "keys nearer than this")
      .positive()
      .unbounded()
      .only_if([=] { return !is_topk(); }, "pattern: local or strided");
  schema.field("stride", stride, "keys at multiples of this distance, too")
      .positive()
      .unbounded()
      .only_if(is_strided, "pattern: strided");
  schema.field("n_global", n_global, "the first keys, too")
      .non_negative()
      .unbounded()
      .only_if(is_strided, "pattern: strided");
  schema.field("topk", topk, "number of keys with the largest scores")
      .positive()
      .unbounded()
      .only_if(is_topk, "pattern: topk");
}

void SparseOptions::describe(Schema& schema) {
  selection.describe(schema);
  schema.field("scale", scale, "factor on the dot products; null: 1 / sqrt(head dimension)")
      .positive();
}

std::shared_ptr<Attention> SparseOptions::make(const AttentionContext& context) const {
  return std::make_shared<SparseAttention>(context, *this);
}

}  // namespace mobius
