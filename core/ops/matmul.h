// Matrix products. With bf16 operands (a and b, x and weight), products and sums are in f32, and
// bias and result are f32.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// What follows a matrix product, applied while the result is still in cache: C = act(A B + bias).
enum class Activation { none, relu, silu, gelu, gelu_tanh };

/// The precision of the operands of a product: unchanged, or rounded to bf16 (to nearest, ties to
/// even), which is mixed precision.
enum class MatmulPrecision { full, bf16 };
/// Returns x itself, or rounded as `precision` asks. Throws Error if it would round anything but
/// f32.
Tensor product_operand(const Tensor& x, MatmulPrecision precision);
/// [..., M, K] x [..., K, N] -> [..., M, N]; batch dimensions broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);
/// out += a b, for 2-d operands.
void matmul_add(Tensor& out, const Tensor& a, const Tensor& b);
/// x[..., K] weight[N, K]^T + bias[N] -> [..., N]; bias may be undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
struct LinearActivation {
  Tensor pre;  // x weight^T + bias
  Tensor out;  // activation(pre)
};
LinearActivation linear_activation(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Activation activation);

/// The operands (a and b, x and weight) may be bf16, all else being f32. Results do not depend on
/// the thread count.
class MatmulKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "matmul";

  /// out[..., M, N] = a[..., M, K] b[..., K, N] (accumulates when `accumulate`). a and b are
  /// strided, with the batch shape of out (stride 0 repeats a matrix).
  virtual void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) = 0;
  /// pre[R, N] = x[R, K] weight[N, K]^T + bias[N]; bias may be undefined. When `activation` is not
  /// none, `out` = activation(pre) is written too, else `out` is undefined.
  virtual void linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      Activation activation, const Tensor& pre, const Tensor& out) = 0;
};

}  // namespace mobius
