#include "core/cpu/attention/problem.h"

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

// The arithmetic of a score map on the numbers of all queries.
struct TensorMath {
  static Tensor scale(const Tensor& x, double factor) { return mobius::scale(x, factor); }
  static Tensor exp(const Tensor& x) { return unary({UnaryOp::exp}, x); }
};

// A number that all queries share has no dimensions.
template <class T>
NumberRows<const T> rows_of_queries(const Tensor& x) {
  return {x.data<T>(), x.ndim() > 0 ? 1 : 0};
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
      seen(s.mask, {batch, heads, n_q, n_k}) {
  const auto shared = [&](double value) {
    return Tensor::full({}, value, in.q.dtype(), in.q.device());
  };
  scores::for_each_number(
      [&](const NumberKind& number, const Tensor& given, Tensor& x) {
        if (number.of == NumberOf::query)
          x = given.defined() ? given : shared(number.absent);
        else if (given.defined())
          x = widened<T>(given, padded_numbers(number.of));
      },
      in, laid_out_);
  scores::with_score(spec, [&](auto map, auto) {
    map.prepare(TensorMath(), laid_out_);
    if constexpr (map.scales_queries)
      factors_ = map.query_factor(TensorMath(), laid_out_);
    else
      factors_ = shared(1);
  });
  query_factors = rows_of_queries<T>(factors_);
  scores::for_each_number(
      [&](const NumberKind& number, const Tensor& x, NumberRows<const T>& rows) {
        if (number.of == NumberOf::query)
          rows = rows_of_queries<T>(x);
        else if (x.defined())
          rows = {x.data<T>(), x.size(-1)};
      },
      laid_out_, numbers);
}

template struct AttentionProblem<float>;
template struct AttentionProblem<double>;

}  // namespace mobius
