#include "nn/attention/attention.h"
#include "nn/attention/conformal.h"
#include "nn/attention/softmax.h"

namespace mobius {

Registry<AttentionOptions> builtin_attentions() {
  Registry<AttentionOptions> registry;
  registry.add<SoftmaxOptions>("softmax", "scaled dot products, softmax over the keys");
  registry.add<ConformalOptions>("conformal", "harmonic kernels of the ball, keys on its boundary");
  return registry;
}

}  // namespace mobius
