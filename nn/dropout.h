// Dropout without state: the mask is a function of the ForwardContext and of where it is used.
#pragma once

#include <string>

#include "autograd/ops.h"
#include "nn/module.h"

namespace mobius {

/// Zeroes each element with probability p while training and scales the others by 1 / (1 - p);
/// the identity otherwise. Every site draws from a stream of its own, and one site drops the same
/// elements again under the same context.
class Dropout {
 public:
  /// `site` tells this use from all others: a module path.
  Dropout(double p, std::string site);

  Variable forward(const Variable& x, const ForwardContext& context) const;

 private:
  double p_;
  std::string site_;
};

}  // namespace mobius
