#include "nn/attention/sparse.h"

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

AttentionCall selected_call(const HeadInputs& in, const SparseSelection& selection,
                            std::optional<double> scale) {
  AttentionCall call = softmax_call(in, scale);
  call.spec.mask = pattern_mask(selection, in.mask);
  if (selection.pattern == SparsePattern::topk) {
    const AttentionInputs inputs{.q = in.q.data(), .k = in.k.data(), .v = in.v.data()};
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
