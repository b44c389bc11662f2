#include "core/ops/norm.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

Shape row_shape(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 1}; }

void require_parameter(std::string_view op, std::string_view what, const Tensor& x,
                       const Tensor& parameter) {
  require_real(op, x);
  if (x.ndim() == 0) throw ShapeError("{}: a scalar has no last dimension", op);
  require_like(op, what, parameter, x, {x.size(-1)});
}

void require_statistic(std::string_view op, std::string_view what, const Tensor& x,
                       const Tensor& statistic) {
  require_shape(op, what, statistic, row_shape(x));
  require_dtype(op, what, statistic, x, DType::f64);
}

// RMS norm, or layer norm when there is a bias.
NormResult norm(std::string_view op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                double eps) {
  if (!(eps >= 0)) throw Error("{}: expected an eps of at least 0, got {}", op, eps);
  const auto empty_statistic = [&] { return Tensor::empty(row_shape(x), DType::f64, x.device()); };
  NormResult result{x.empty_like(), bias.defined() ? empty_statistic() : Tensor(),
                    empty_statistic()};
  kernels(x, &Backend::norm)
      ->norm(as_rows(op, x), weight.contiguous(), contiguous_if_defined(bias), eps, result);
  return result;
}

// The gradients of RMS norm, or of layer norm when there is a mean.
NormGrads norm_backward(std::string_view op, const Tensor& x, const Tensor& weight,
                        const Tensor& mean, const Tensor& rstd, const Tensor& grad_y) {
  require_statistic(op, "rstd", x, rstd);
  require_like(op, "grad_y", grad_y, x, x.shape());
  NormGrads grads{x.empty_like(), weight.empty_like(),
                  mean.defined() ? weight.empty_like() : Tensor()};
  kernels(x, &Backend::norm)
      ->norm_backward(as_rows(op, x), weight.contiguous(), contiguous_if_defined(mean),
                      rstd.contiguous(), grad_y.contiguous(), grads);
  return grads;
}

}  // namespace

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  require_parameter("rms_norm", "weight", x, weight);
  return norm("rms_norm", x, weight, {}, eps);
}

NormGrads rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y) {
  constexpr std::string_view op = "rms_norm_backward";
  require_parameter(op, "weight", x, weight);
  return norm_backward(op, x, weight, {}, rstd, grad_y);
}

NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_parameter("layer_norm", "weight", x, weight);
  require_parameter("layer_norm", "bias", x, bias);
  return norm("layer_norm", x, weight, bias, eps);
}

NormGrads layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y) {
  constexpr std::string_view op = "layer_norm_backward";
  require_parameter(op, "weight", x, weight);
  require_statistic(op, "mean", x, mean);
  return norm_backward(op, x, weight, mean, rstd, grad_y);
}

}  // namespace mobius
