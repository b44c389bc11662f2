// Fused attention, backward: the weights are computed again, tile by tile. A task owns some key
// tiles of one key/value head: it sums their gradients over all queries that see them, and its own
// share of the queries' gradients; the shares are added in the order of the tasks, so results do
// not depend on the thread count.
// Buffers: all gradients are overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/attention/backward.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include "core/cpu/attention/kernels.h"
#include "core/cpu/attention/tile-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// What the backward pass reads besides the problem, and where the tasks leave their shares.
template <class T>
struct BackwardState {
  HeadRows<T> out, grad_out;
  const T* lse;  // [B, H, Nq], or null without a softmax
  // The leading dimension of a share is the task within its head: see shares_per_group. Each key
  // tile belongs to one task: of numbers of keys there is one share.
  Tensor grad_q;                          // [shares, B, H, Nq padded, D padded]
  AttentionOperands<Tensor> numbers;      // [shares, ..., padded], undefined where none are wanted
  AttentionOperands<NumberRows<T>> rows;  // of those; `stride` is that of a head
};

template <class T, class Map, bool kSoftmax>
class BackwardTile {
 public:
  BackwardTile(const Map& map, const AttentionProblem<T>& problem, const BackwardState<T>& state,
               const AttentionGrads& grads)
      : map_(map),
        p_(problem),
        s_(state),
        grads_(grads),
        d_(round_up(p_.d, attention_lanes<T>)),
        dv_(round_up(p_.dv, attention_lanes<T>)),
        k_columns_(KeysAs::columns, p_.d),
        v_columns_(KeysAs::columns, p_.dv),
        k_rows_(KeysAs::rows, p_.d),
        mean_(kSoftmax ? p_.heads / p_.groups * p_.n_q : 0),
        q_tile_(attention_block_q * d_),
        grad_out_tile_(attention_block_q * dv_),
        weights_(attention_block_q * attention_block_k + panel_rows),
        grad_weights_(attention_block_q * attention_block_k + panel_rows),
        grad_k_((attention_block_k + attention_block_q) * d_),
        grad_v_((attention_block_k + attention_block_q) * dv_),
        factors_(attention_block_k),
        flags_(attention_block_k) {
    if constexpr (!kSoftmax) largest_weight_ = static_cast<T>(std::exp(map.log_cap));
  }

  /// Makes ready for the key tiles of key/value head g.
  void start(std::int64_t b, std::int64_t g, std::int64_t share) {
    const std::int64_t per_group = p_.heads / p_.groups;
    const std::int64_t rows = per_group * p_.padded_queries();
    T* const grad_q = grad_query(share, b, g * per_group, 0);
    std::fill(grad_q, grad_q + rows * d_, T{0});
    if constexpr (kSoftmax) {
      for (std::int64_t h = 0; h < per_group; ++h)
        row_means(b, g * per_group + h, mean_.row(h, p_.n_q));
    }
  }

  /// Gradients of key tile `tile` of key/value head g, and this share of the queries' gradients.
  void run(std::int64_t b, std::int64_t g, std::int64_t tile, std::int64_t share) {
    const std::int64_t j0 = tile * attention_block_k;
    const std::int64_t j1 = std::min(j0 + attention_block_k, p_.n_k);
    clear(grad_k_, attention_block_k * d_);
    clear(grad_v_, attention_block_k * dv_);
    k_columns_.pack(p_.k.row(b, g, j0), p_.k.row_stride, j1 - j0);
    v_columns_.pack(p_.v.row(b, g, j0), p_.v.row_stride, j1 - j0);
    k_rows_.pack(p_.k.row(b, g, j0), p_.k.row_stride, j1 - j0);
    const auto [first, last] = p_.seen.pattern().queries_of(j0, j1);
    const std::int64_t per_group = p_.heads / p_.groups;
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) {
      for (std::int64_t i0 = first / attention_block_q * attention_block_q; i0 < last;
           i0 += attention_block_q) {
        add_queries({b, h, i0, std::min(i0 + attention_block_q, p_.n_q), j0}, j1, share);
      }
    }
    store_rows(grad_k_, d_, p_.d, j1 - j0, HeadRows<T>(grads_.k).row(b, g, j0));
    store_rows(grad_v_, dv_, p_.dv, j1 - j0, HeadRows<T>(grads_.v).row(b, g, j0));
  }

 private:
  static void clear(Scratch<T>& scratch, std::int64_t n) {
    std::fill(scratch.data(), scratch.data() + n, T{0});
  }

  static void store_rows(Scratch<T>& from, std::int64_t width, std::int64_t n, std::int64_t rows,
                         T* to) {
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(from.row(i, width), n, to + i * n);
  }

  // The sum of the gradient of query i over the keys of a share.
  T* grad_query(std::int64_t share, std::int64_t b, std::int64_t h, std::int64_t i) const {
    const std::int64_t head = (share * p_.batch + b) * p_.heads + h;
    return s_.grad_q.template data<T>() + (head * p_.padded_queries() + i) * d_;
  }

  // <grad_out_i, out_i> for every query of a head, summed in the order in which the tile products
  // sum <grad_out_i, v_j>: a query that sees a single key then gets a gradient of exactly 0.
  // Several rows at a time, since each sum is a chain.
  void row_means(std::int64_t b, std::int64_t h, T* mean) const {
    constexpr std::int64_t at_once = 8;
    for (std::int64_t i = 0; i < p_.n_q; i += at_once) {
      const T *value[at_once], *grad[at_once];
      T sum[at_once] = {};
      for (std::int64_t r = 0; r < at_once; ++r) {
        const std::int64_t row = std::min(i + r, p_.n_q - 1);
        value[r] = s_.out.row(b, h, row);
        grad[r] = s_.grad_out.row(b, h, row);
      }
      for (std::int64_t c = 0; c < p_.dv; ++c) {
        for (std::int64_t r = 0; r < at_once; ++r)
          sum[r] = std::fma(grad[r][c], value[r][c], sum[r]);
      }
      std::copy_n(sum, std::min(at_once, p_.n_q - i), mean + i);
    }
  }

  void add_queries(const TilePosition& at, std::int64_t j1, std::int64_t share) {
    const std::int64_t rows = at.i1 - at.i0;
    const std::int64_t end = std::min(j1, p_.seen.pattern().keys_of(at.i0, at.i1).end);
    if (end <= at.j0) return;
    // Whole vectors, and whole register panels: keys are the rows of the products for grad_k,
    // grad_v.
    const std::int64_t width = std::min(
        round_up(round_up(end - at.j0, panel_rows), attention_lanes<T>), attention_block_k);
    load_queries(p_, at.b, at.h, at.i0, at.i1, q_tile_.data(), d_);
    copy_rows(s_.grad_out.row(at.b, at.h, at.i0), s_.grad_out.row_stride, rows, p_.dv,
              grad_out_tile_.data(), dv_);
    tile_gemm(rows, width, p_.d, q_tile_.data(), d_, 1, k_columns_.panels(), false, weights_.data(),
              attention_block_k);
    tile_gemm(rows, width, p_.dv, grad_out_tile_.data(), dv_, 1, v_columns_.panels(), false,
              grad_weights_.data(), attention_block_k);
    for (std::int64_t i = 0; i < rows; ++i) through_weights(at, j1, width, i, share);

    tile_gemm(end - at.j0, dv_, rows, weights_.data(), 1, attention_block_k,
              unpacked(grad_out_tile_.data(), dv_), true, grad_v_.data(), dv_);
    tile_gemm(end - at.j0, d_, rows, grad_weights_.data(), 1, attention_block_k,
              unpacked(q_tile_.data(), d_), true, grad_k_.data(), d_);
    tile_gemm(rows, d_, end - at.j0, grad_weights_.data(), attention_block_k, 1, k_rows_.panels(),
              true, grad_query(share, at.b, at.h, at.i0), d_);
  }

  // Row i of the tile: products -> weights, d/d weights -> d/d products, and the sums over them.
  void through_weights(const TilePosition& at, std::int64_t j1, std::int64_t width, std::int64_t i,
                       std::int64_t share) {
    const std::int64_t query = at.i0 + i;
    const std::int64_t head_row = p_.row_of(at.b, at.h, query);
    T* const row = weights_.row(i, attention_block_k);
    T* const grad = grad_weights_.row(i, attention_block_k);
    const KeyFlags keys = p_.seen.keys(at.b * p_.heads + at.h, query, at.j0, j1, flags_.data());
    const RowNumbers<T> numbers = row_numbers<Map>(p_, at, query);
    if (p_.spec.dropout > 0) {
      dropout_row(p_, at, query, width, factors_.data());
      multiply_row(factors_.data(), width, grad);
    }
    RowWeights<T> weights{0, 0, largest_weight_};
    if constexpr (kSoftmax) {
      weights.lse = s_.lse[head_row];
      weights.mean = mean_.row(at.h % (p_.heads / p_.groups), p_.n_q)[query];
    }
    const AttentionOperands<T> sums = backward_row<kSoftmax>(
        map_, numbers, key_grads_of(at, query, share), weights, keys, at.j0, width, row, grad);
    if (p_.spec.dropout > 0) multiply_row(factors_.data(), width, row);
    add_query_sums(sums, share * p_.batch * p_.heads * p_.n_q + head_row);
  }

  // The addresses of the gradients of the numbers of the keys of a row.
  AttentionOperands<T*> key_grads_of(const TilePosition& at, std::int64_t query,
                                     std::int64_t share) const {
    AttentionOperands<T*> key_grads;
    for_each_number(
        [&](const NumberKind& number, const NumberRows<T>& all, T*& keys) HWY_ATTR {
          if (!all.data) return;
          const std::int64_t head = (share * p_.batch + at.b) * p_.heads + at.h;
          if (number.of == NumberOf::key)
            keys = all.data + (at.b * p_.groups + p_.group_of(at.h)) * all.stride + at.j0;
          if (number.of == NumberOf::distance)
            keys = all.data + head * all.stride + at.j0 - query + p_.n_q - 1;
        },
        s_.rows, key_grads);
    return key_grads;
  }

  // Adds what a row summed to element `row` of the shares [shares, B, H, Nq].
  void add_query_sums(const AttentionOperands<T>& sums, std::int64_t row) const {
    for_each_number(
        [&](const NumberKind& number, const NumberRows<T>& all, T sum) HWY_ATTR {
          if (number.of == NumberOf::query && all.data) all.data[row] += sum;
        },
        s_.rows, sums);
  }

  const Map map_;
  const AttentionProblem<T>& p_;
  const BackwardState<T>& s_;
  const AttentionGrads& grads_;
  T largest_weight_ = 0;  // without a softmax
  std::int64_t d_, dv_;   // padded to whole vectors
  ScratchTile<T> k_columns_, v_columns_, k_rows_;
  Scratch<T> mean_;  // of the heads that share keys
  Scratch<T> q_tile_, grad_out_tile_, weights_, grad_weights_, grad_k_, grad_v_, factors_;
  Scratch<std::uint8_t> flags_;
};

/// Into how many tasks the key tiles of one key/value head are dealt: enough for some dozen threads
/// when there are few heads, one where there are many. A function of the shape alone.
template <class T>
std::int64_t shares_per_group(const AttentionProblem<T>& p) {
  constexpr std::int64_t wanted_tasks = 16;
  const std::int64_t groups = p.batch * p.groups;
  return std::clamp<std::int64_t>(wanted_tasks / std::max<std::int64_t>(groups, 1), 1,
                                  std::max<std::int64_t>(p.key_tiles(), 1));
}

/// out = the sum over the leading dimension of shares[S, ...], in order, padding dropped. An empty
/// batch has none.
inline void add_shares(const Tensor& shares, const Tensor& out) {
  Tensor target = out;
  if (shares.size(0) == 0) {
    target.fill(0);
    return;
  }
  Tensor total = shares.slice(0, 0, 1).squeeze(0);
  for (std::int64_t s = 1; s < shares.size(0); ++s)
    total.add_(shares.slice(0, s, s + 1).squeeze(0));
  for (int dim = 0; dim < out.ndim(); ++dim) total = total.slice(dim, 0, out.size(dim));
  target.copy_from(total);
}

/// The gradients of a head's queries from those of the queries times their factors, summed over the
/// shares in order; and those of the number that is in the factors.
template <class T, class Map>
void finish_queries(const Map& map, const AttentionProblem<T>& p, const Tensor& shares,
                    std::int64_t b, std::int64_t h, const AttentionGrads& grads) {
  const std::int64_t width = shares.size(-1), n_shares = shares.size(0);
  const std::int64_t share = shares.numel() / n_shares;
  for (std::int64_t i = 0; i < p.n_q; ++i) {
    const std::int64_t r = p.row_of(b, h, i);
    T* const total = shares.data<T>() + ((b * p.heads + h) * p.padded_queries() + i) * width;
    for (std::int64_t s = 1; s < n_shares; ++s) add_row(total + s * share, width, total);
    if constexpr (map.scales_queries) {
      for_each_number(
          [&](const NumberKind&, const NumberUse& use, const Tensor& grad) {
            if (use.multiplies_query && grad.defined())
              grad.data<T>()[r] = map.query_factor_gradient(dot_rows(p.q.row(b, h, i), total, p.d));
          },
          Map::uses, grads);
    }
    const T factor = p.query_factor(b, h, i);
    T* const out = grads.q.template data<T>() + r * p.d;
    for (std::int64_t c = 0; c < p.d; ++c) out[c] = factor * total[c];
  }
}

template <bool kSoftmax, class Map, class T>
BackwardState<T> make_state(const AttentionProblem<T>& p, std::int64_t shares, const Tensor& out,
                            const Tensor& lse, const Tensor& grad_out,
                            const AttentionGrads& grads) {
  const DType type = dtype_of<T>();
  BackwardState<T> state{
      .out = HeadRows<T>(out),
      .grad_out = HeadRows<T>(grad_out),
      .lse = kSoftmax ? lse.data<T>() : nullptr,
      .grad_q = Tensor::empty(
          {shares, p.batch, p.heads, p.padded_queries(), round_up(p.d, attention_lanes<T>)}, type),
      .numbers = {},
      .rows = {}};
  for_each_number(
      [&](const NumberKind& number, const NumberUse& use, const Tensor& grad, Tensor& sums,
          NumberRows<T>& rows) {
        if (!grad.defined() || use.multiplies_query) return;
        const std::int64_t width = p.padded_numbers(number.of);
        const bool is_of_keys = number.of == NumberOf::key;
        sums = Tensor::zeros(
            {is_of_keys ? 1 : shares, p.batch, is_of_keys ? p.groups : p.heads, width}, type,
            out.device());
        rows = {sums.data<T>(), width};
      },
      Map::uses, grads, state.numbers, state.rows);
  return state;
}

/// The gradients of the numbers from their shares.
template <class T>
void finish_numbers(const BackwardState<T>& state, const AttentionGrads& grads) {
  for_each_number(
      [&](const NumberKind& number, const Tensor& shares, const Tensor& grad) {
        if (!shares.defined()) return;
        const bool is_shared = number.of == NumberOf::distance;  // by the batch
        add_shares(is_shared ? shares.reshape({shares.size(0) * shares.size(1), shares.size(2),
                                               shares.size(3)})
                             : shares,
                   grad);
      },
      state.numbers, grads);
}

template <bool kSoftmax, class Map, class T>
void backward_tiles(const Map& map, const AttentionProblem<T>& p, const Tensor& out,
                    const Tensor& lse, const Tensor& grad_out, const AttentionGrads& grads) {
  const std::int64_t shares = shares_per_group(p), per_group = p.heads / p.groups;
  const BackwardState<T> state = make_state<kSoftmax, Map>(p, shares, out, lse, grad_out, grads);
  parallel_for(p.batch * p.groups * shares, 1, [&](std::int64_t begin, std::int64_t end) {
    BackwardTile<T, Map, kSoftmax> tile(map, p, state, grads);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t b = t / shares / p.groups, g = t / shares % p.groups, share = t % shares;
      tile.start(b, g, share);
      for (std::int64_t key_tile = share; key_tile < p.key_tiles(); key_tile += shares)
        tile.run(b, g, key_tile, share);
      // While they are in cache.
      for (std::int64_t h = g * per_group; shares == 1 && h < (g + 1) * per_group; ++h)
        finish_queries(map, p, state.grad_q, b, h, grads);
    }
  });
  if (shares > 1) {
    parallel_for_each(p.batch * p.heads, 1, [&](std::int64_t bh) {
      finish_queries(map, p, state.grad_q, bh / p.heads, bh % p.heads, grads);
    });
  }
  finish_numbers(state, grads);
}

void attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                        const Tensor& lse, const Tensor& grad_out, const AttentionGrads& grads) {
  dispatch_real("attention_backward", inputs.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> problem(spec, inputs);
    with_score(spec, [&](auto map, auto is_softmax) {
      if constexpr (is_softmax || map.has_weight)
        backward_tiles<is_softmax>(map, problem, out, lse, grad_out, grads);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(attention_backward);

void CpuAttention::attention_backward(const AttentionSpec& spec, const AttentionInputs& inputs,
                                      const Tensor& out, const Tensor& lse, const Tensor& grad_out,
                                      const AttentionGrads& grads) {
  HWY_DYNAMIC_DISPATCH(attention_backward)(spec, inputs, out, lse, grad_out, grads);
}

}  // namespace mobius
#endif  // HWY_ONCE
