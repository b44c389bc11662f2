#include "nn/attention/attention.h"
#include "nn/attention/conformal/conformal.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax.h"
#include "nn/attention/softmax_naive.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"

namespace mobius {

Registry<AttentionOptions> builtin_attentions() {
  Registry<AttentionOptions> registry;
  registry.add<SoftmaxOptions>("softmax", "scaled dot products, softmax over the keys");
  registry.add<SoftmaxNaiveOptions>("softmax_naive", "softmax that overflows, for experiments");
  registry.add<ConformalOptions>("conformal", "harmonic kernels of the ball, keys on its boundary");
  registry.add<ConformalHierarchicalOptions>(
      "conformal_hierarchical", "conformal near the query, features of the kernel beyond");
  registry.add<LinearAttentionOptions>("linear", "products of elu + 1, linear in the sequence");
  registry.add<PerformerOptions>("performer", "random features of softmax, linear in the sequence");
  registry.add<SparseOptions>("sparse", "softmax over a local, strided or topk part of the keys");
  registry.add<W2Options>("w2", "Wasserstein-2 distance of Gaussians, softmax over the keys");
  registry.add<W2OverlapOptions>("w2_overlap", "overlap of Gaussians, softmax over the keys");
  return registry;
}

}  // namespace mobius
