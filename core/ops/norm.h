// RMS norm (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016) over the last dimension, of
// size D; a row is the D numbers that lie along it.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

struct NormResult {
  Tensor y;     // as x
  Tensor mean;  // of each row, f64; undefined for rms_norm
  Tensor rstd;  // 1 / sqrt(mean square distance from the mean + eps) of each row, f64
};
struct NormGrads {
  Tensor x, weight, bias;  // bias undefined for rms_norm
};
/// y = weight x / sqrt(mean(x^2) + eps), of a real x[..., D], weight[D], eps >= 0.
NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps);
NormGrads rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y);
/// y = weight (x - mean) / sqrt(var + eps) + bias, bias[D].
NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps);
NormGrads layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y);

/// x is seen as [R, D], the statistics as [R]. `bias`, `mean` and `grad_bias` are undefined for RMS
/// norm.
class NormKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "norm";

  virtual void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                    const NormResult& result) = 0;
  virtual void norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                             const Tensor& rstd, const Tensor& grad_y, const NormGrads& grads) = 0;
};

}  // namespace mobius
