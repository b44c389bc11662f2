// Special functions.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// log 2F1(a, b; c; x) and its derivative in x, elementwise, 0 <= x < 1.
struct LogHyp2f1Result {
  Tensor value, derivative;
};
LogHyp2f1Result log_hyp2f1(double a, double b, double c, const Tensor& x);

class SpecialKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "special";

  virtual void log_hyp2f1(double a, double b, double c, const Tensor& x, const Tensor& value,
                          const Tensor& derivative) = 0;
};

}  // namespace mobius
