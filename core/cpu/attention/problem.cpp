#include "core/cpu/attention/problem.h"

#include <cmath>

#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace mobius {
namespace {

// x[rows, n] copied into rows of `width`, zeros behind.
template <class T>
Tensor widened(const Tensor& x, std::int64_t width) {
  const std::int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  Tensor out = Tensor::zeros({rows, width}, x.dtype(), x.device());
  out.slice(1, 0, n).copy_from(x.reshape({rows, n}));
  return out;
}

unsigned whole_or_zero(double x) {
  return x == std::floor(x) && x < 1e6 ? static_cast<unsigned>(x) : 0u;
}

}  // namespace

template <class T>
AttentionProblem<T>::AttentionProblem(const AttentionSpec& s, const AttentionInputs& in)
    : spec(s),
      batch(in.q.size(0)),
      heads(in.q.size(1)),
      groups(in.k.size(1)),
      n_q(in.q.size(2)),
      n_k(in.k.size(2)),
      d(in.q.size(3)),
      dv(in.v.size(3)),
      q(in.q),
      k(in.k),
      v(in.v),
      visibility(s.mask, {batch, heads, n_q, n_k}),
      sharpness(in.sharpness.defined() ? in.sharpness.data<T>() : nullptr),
      twice_exponent(whole_or_zero(2 * s.exponent)),
      factor(nullptr),
      cap(static_cast<T>(std::exp(s.log_cap))),
      threshold(s.threshold.value.defined() ? s.threshold.value.data<T>() : nullptr),
      last_key(s.threshold.value.defined() ? s.threshold.last_key.data<std::int64_t>() : nullptr) {
  if (in.log_factor.defined()) {
    factor_of_query = twice_exponent == 0
                          ? in.log_factor
                          : unary({UnaryOp::exp}, mobius::scale(in.log_factor, 1 / s.exponent));
    factor = factor_of_query.data<T>();
  }
  if (in.key_bias.defined()) {
    key_bias = widened<T>(in.key_bias, key_tiles() * attention_block_k);
  }
  if (in.distance_bias.defined()) {
    distance_bias = widened<T>(in.distance_bias, n_q + n_k - 1 + attention_block_k);
  }
}

template struct AttentionProblem<float>;
template struct AttentionProblem<double>;

}  // namespace mobius
