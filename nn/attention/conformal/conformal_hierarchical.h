// Conformal attention in time and memory linear in the sequence: exact weights for the `window`
// newest keys of a query, products of features for all keys before (docs/MATH.md, section 2).
#pragma once

#include <memory>

#include "nn/attention/conformal/conformal.h"
#include "nn/attention/conformal/far_field.h"
#include "nn/attention/conformal/kv_tree.h"

namespace mobius {

/// out = near + far. Query i stands at position p = i + n_k - n_q: near are the keys p - window < j
/// <= p, far the keys j <= p - window, whose weights are <far_q, far_k>.
struct HierarchicalCall {
  AttentionCall near;
  std::int64_t window = 0;
  // Undefined if no query has far keys.
  Variable far_q = {};  // [B, H, n_q, M]
  Variable far_k = {};  // [B, G, n_k, M]
};

/// `in` has a causal mask, and `points` are its queries and keys in the ball. The normalisation is
/// none, or analytic with all visible keys as the count. Throws Error for any other mask, for an
/// empirical normalisation, and for a window below 1.
HierarchicalCall hierarchical_call(const HeadInputs& in, const BallPoints& points,
                                   const FarField& far_field, const ConformalKernel& kernel,
                                   ConformalNormalize normalize, std::int64_t window);

/// -> [B, H, n_q, d].
Variable attention(const HierarchicalCall& call);
/// Returns the weights, [B, H, n_q, n_k].
Variable attention_weights(const HierarchicalCall& call);

/// Returns the attention of one query, [B, H, 1, d], as if it stood at a position that the cache
/// has read: the row of attention(HierarchicalCall) with the far field and window of the cache. The
/// keys of `query` are not read. Throws Error as ConformalKVTree::moments().
Variable attend_at(ConformalTreeCache& cache, std::int64_t position, const BallPoints& query,
                   const ConformalKernel& kernel, ConformalNormalize normalize);
/// Appends the keys of `points` and their values v[B, G, n_new, d] to the cache and returns the
/// attention of the queries of `points`, [B, H, n_new, d], each at the position of its key.
Variable read_on(ConformalTreeCache& cache, const BallPoints& points, const Variable& v,
                 const ConformalKernel& kernel, ConformalNormalize normalize);

class ConformalHierarchicalOptions : public ConformalOptions {
 public:
  std::int64_t window = 64;
  FarFieldOptions far;

  std::string kind() const override { return "conformal_hierarchical"; }
  void describe(Schema& schema) override;
  void require_trainable() const override;

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
