#include "core/cpu/attention_problem.h"

#include "core/parallel.h"

namespace mobius {
namespace {

// x[rows, n] copied into rows of `width`, zeros behind.
template <class T>
Tensor widened(const Tensor& x, std::int64_t width) {
  const std::int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  Tensor out = Tensor::zeros({rows, width}, x.dtype());
  out.slice(1, 0, n).copy_from(x.reshape({rows, n}));
  return out;
}

}  // namespace

template <class T>
Tensor transposed_tiles(const Tensor& x) {
  const std::int64_t groups = x.size(1), n = x.size(2), d = x.size(3);
  constexpr std::int64_t block = attention_block_k;
  const std::int64_t tiles = (n + block - 1) / block;
  const HeadRows<T> rows(x);
  Tensor out = Tensor::empty({x.size(0) * groups, tiles, d, block}, x.dtype());
  parallel_for(out.size(0) * tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t bg = t / tiles, first = t % tiles * block;
      const std::int64_t count = std::min(block, n - first);
      const T* const source = rows.row(bg / groups, bg % groups, first);
      T* const to = out.data<T>() + t * d * block;
      for (std::int64_t j = 0; j < count; ++j) {
        for (std::int64_t c = 0; c < d; ++c) to[c * block + j] = source[j * rows.row_stride + c];
      }
      for (std::int64_t c = 0; c < d && count < block; ++c)
        std::fill(to + c * block + count, to + (c + 1) * block, T{0});
    }
  });
  return out;
}

template <class T>
Tensor with_padded_rows(const Tensor& x) {
  if (x.size(3) % attention_lanes<T> == 0) return x;
  const std::int64_t width = round_up(x.size(3), attention_lanes<T>);
  Tensor out = Tensor::zeros({x.size(0), x.size(1), x.size(2), width}, x.dtype());
  out.slice(3, 0, x.size(3)).copy_from(x);
  return out;
}

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
      k_tiles(transposed_tiles<T>(in.k)),
      curvature(in.curvature.defined() ? in.curvature.data<T>() : nullptr),
      log_factor(in.log_factor.defined() ? in.log_factor.data<T>() : nullptr) {
  if (in.key_bias.defined()) {
    key_bias = widened<T>(in.key_bias, key_tiles() * attention_block_k);
  }
  if (in.distance_bias.defined()) {
    distance_bias = widened<T>(in.distance_bias, n_q + n_k - 1 + attention_block_k);
  }
}

template struct AttentionProblem<float>;
template struct AttentionProblem<double>;
template Tensor transposed_tiles<float>(const Tensor&);
template Tensor transposed_tiles<double>(const Tensor&);
template Tensor with_padded_rows<float>(const Tensor&);
template Tensor with_padded_rows<double>(const Tensor&);

}  // namespace mobius
