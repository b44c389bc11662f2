#include "nn/dropout.h"

namespace mobius {

Dropout::Dropout(double p, std::string site) : p_(p), site_(std::move(site)) {
  if (!(p >= 0 && p < 1)) throw ConfigError("dropout: expected a probability in [0, 1), got {}", p);
}

Variable Dropout::forward(const Variable& x, const ForwardContext& context) const {
  if (!context.training || p_ == 0) return x;
  return dropout(x, p_, {context.rng.seed, stream_id(site_, context.rng.stream)});
}

}  // namespace mobius
