#include "core/ops/norm.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

Shape row_shape(const Tensor& x) { return {x.shape().begin(), x.shape().end() - 1}; }

void require_norm_operand(std::string_view op, std::string_view what, const Tensor& x,
                          const Tensor& parameter) {
  require_real(op, x);
  if (x.ndim() == 0) throw ShapeError("{}: a scalar has no last dimension", op);
  require_like(op, what, parameter, x, {x.size(-1)});
}

void require_eps(std::string_view op, double eps) {
  if (!(eps >= 0)) throw Error("{}: expected an eps of at least 0, got {}", op, eps);
}

// A number a row that the forward pass kept.
void require_statistic(std::string_view op, std::string_view what, const Tensor& x,
                       const Tensor& statistic) {
  require_shape(op, what, statistic, row_shape(x));
  require_dtype(op, what, statistic, x, DType::f64);
}

Tensor empty_statistic(const Tensor& x) {
  return Tensor::empty(row_shape(x), DType::f64, x.device());
}

}  // namespace

NormResult rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  require_norm_operand("rms_norm", "weight", x, weight);
  require_eps("rms_norm", eps);
  NormResult result{x.empty_like(), {}, empty_statistic(x)};
  kernels(x, &Backend::norm)
      ->rms_norm(as_rows("rms_norm", x), weight.contiguous(), eps, result.y, result.rstd);
  return result;
}

NormGrads rms_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& rstd,
                            const Tensor& grad_y) {
  constexpr std::string_view op = "rms_norm_backward";
  require_norm_operand(op, "weight", x, weight);
  require_statistic(op, "rstd", x, rstd);
  require_like(op, "grad_y", grad_y, x, x.shape());
  NormGrads grads{x.empty_like(), weight.empty_like(), {}};
  kernels(x, &Backend::norm)
      ->rms_norm_backward(as_rows(op, x), weight.contiguous(), rstd.contiguous(),
                          grad_y.contiguous(), grads.x, grads.weight);
  return grads;
}

NormResult layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_norm_operand("layer_norm", "weight", x, weight);
  require_norm_operand("layer_norm", "bias", x, bias);
  require_eps("layer_norm", eps);
  NormResult result{x.empty_like(), empty_statistic(x), empty_statistic(x)};
  kernels(x, &Backend::norm)
      ->layer_norm(as_rows("layer_norm", x), weight.contiguous(), bias.contiguous(), eps, result.y,
                   result.mean, result.rstd);
  return result;
}

NormGrads layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean,
                              const Tensor& rstd, const Tensor& grad_y) {
  constexpr std::string_view op = "layer_norm_backward";
  require_norm_operand(op, "weight", x, weight);
  require_statistic(op, "mean", x, mean);
  require_statistic(op, "rstd", x, rstd);
  require_like(op, "grad_y", grad_y, x, x.shape());
  NormGrads grads{x.empty_like(), weight.empty_like(), weight.empty_like()};
  kernels(x, &Backend::norm)
      ->layer_norm_backward(as_rows(op, x), weight.contiguous(), mean.contiguous(),
                            rstd.contiguous(), grad_y.contiguous(), grads.x, grads.weight,
                            grads.bias);
  return grads;
}

}  // namespace mobius
