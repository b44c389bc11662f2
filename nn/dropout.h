// Dropout without state: the mask depends only on the ForwardContext and the site of use.
#pragma once

#include <string>

#include "autograd/ops.h"
#include "nn/module.h"

namespace mobius {

/// Zeroes each element with probability p in training and scales the others by 1 / (1 - p). It is
/// the identity otherwise. Each site has its own random stream and repeats its mask under an equal
/// context.
class Dropout {
 public:
  /// `site` is unique to this use, such as a module path.
  Dropout(double p, std::string site);

  Variable forward(const Variable& x, const ForwardContext& context) const;

 private:
  double p_;
  std::string site_;
};

}  // namespace mobius
