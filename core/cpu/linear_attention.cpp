// Attention by feature products, in time and memory linear in the sequence: chunk by chunk, the
// keys inside a chunk by a small masked product, all earlier ones through their moments S = sum_j
// k_j v_j^T and z = sum_j k_j. All matrix products. Legend: L positions of a chunk, M features, Dv
// value dimension; B, H, G, Nq, Nk as in core/ops/attention.h. Buffers: all outputs are overwritten
// (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/linear_attention.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include "core/cpu/attention/tile-inl.h"
#include "core/cpu/kernels.h"
#include "core/ops/linear_attention.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

constexpr std::int64_t chunk = attention_block_q;  // L

/// Sizes and operands of one call.
template <class T>
struct LinearProblem {
  LinearProblem(const LinearAttentionInputs& in)
      : batch(in.q.size(0)),
        heads(in.q.size(1)),
        groups(in.k.size(1)),
        n_q(in.q.size(2)),
        n_k(in.k.size(2)),
        m(in.q.size(3)),
        dv(in.v.size(3)),
        lead(in.causal ? n_k - n_q : n_k),
        normalized(in.normalized),
        eps(static_cast<T>(in.eps)),
        q(in.q),
        k(in.k),
        v(in.v) {
    if (in.initial.defined()) initial = HeadRows<T>(in.initial);
  }

  std::int64_t batch, heads, groups, n_q, n_k, m, dv;
  std::int64_t lead;  // keys that every query sees; then query i sees key lead + i and those before
  bool normalized;
  T eps;
  HeadRows<T> q, k, v;
  HeadRows<T> initial;  // null data: none

  std::int64_t group_of(std::int64_t head) const { return head / (heads / groups); }
  std::int64_t padded_m() const { return round_up(m, attention_lanes<T>); }
  std::int64_t padded_dv() const { return round_up(dv, attention_lanes<T>); }
};

/// to[j] += factor * x[j] over whole vectors.
template <class T>
void add_scaled_row(T factor, const T* x, std::int64_t n, T* to) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  for (std::int64_t j = 0; j < n; j += lanes)
    hn::StoreU(hn::MulAdd(by, hn::LoadU(d, x + j), hn::LoadU(d, to + j)), d, to + j);
}

/// to = x + y.
template <class T>
void add_rows(const T* x, const T* y, std::int64_t n, T* to) {
  for_vectors<T>(n, [&](auto, auto memory, std::int64_t j) HWY_ATTR {
    memory.store(hn::Add(memory.load(x + j), memory.load(y + j)), to + j);
  });
}

/// One chunk of rows, copied to scratch memory with padding; rows past its end are 0.
template <class T>
class Chunk {
 public:
  // A product may read a register panel past the last row.
  explicit Chunk(std::int64_t width) : width_(width), rows_(chunk * width + 64) {}
  void load(const HeadRows<T>& x, std::int64_t b, std::int64_t h, std::int64_t begin,
            std::int64_t count, std::int64_t n) {
    copy_rows(x.row(b, h, begin), x.row_stride, count, n, rows_.data(), width_);
  }
  /// [width, L]
  void transpose_to(T* out) { transpose_tile(rows_.data(), chunk, width_, width_, out, chunk); }
  T* data() { return rows_.data(); }
  T* row(std::int64_t i) { return rows_.row(i, width_); }
  std::int64_t width() const { return width_; }

 private:
  std::int64_t width_;
  Scratch<T> rows_;
};

/// sums[x, y] += sum over the first `count` rows of a_row b_row^T.
template <class T>
void add_outer(Chunk<T>& a, Chunk<T>& b, std::int64_t count, Scratch<T>& sums) {
  tile_gemm(a.width(), b.width(), count, a.data(), 1, a.width(), unpacked(b.data(), b.width()),
            true, sums.data(), b.width());
}

/// Zeroes the columns after i of each row i: the keys that it must not see.
template <class T>
void keep_lower(std::int64_t rows, T* square) {
  for (std::int64_t i = 0; i < rows; ++i)
    std::fill(square + i * chunk + i + 1, square + (i + 1) * chunk, T{0});
}

/// Moments [rows, width] have room for the register panels of a product.
inline std::int64_t moment_size(std::int64_t rows, std::int64_t width) {
  return round_up(rows, panel_rows) * width;
}

template <class T>
class LinearForward {
 public:
  LinearForward(const LinearProblem<T>& problem, const Tensor& out, const Tensor& denominator)
      : p_(problem),
        out_(out),
        denominator_(p_.normalized ? denominator.data<T>() : nullptr),
        q_(p_.padded_m()),
        k_(p_.padded_m()),
        v_(p_.padded_dv()),
        k_t_(p_.padded_m() * chunk),
        products_(chunk * chunk),
        sums_(chunk * p_.padded_dv()),
        kv_(moment_size(p_.padded_m(), p_.padded_dv())),
        k_sum_(p_.padded_m()) {}

  void run(std::int64_t b, std::int64_t h) {
    const std::int64_t g = p_.group_of(h);
    std::fill(kv_.data(), kv_.data() + moment_size(p_.padded_m(), p_.padded_dv()), T{0});
    std::fill(k_sum_.data(), k_sum_.data() + p_.padded_m(), T{0});
    for (std::int64_t j = 0; j < p_.lead; j += chunk) {
      load_keys(b, g, j, std::min(chunk, p_.lead - j));
    }
    for (std::int64_t i = 0; i < p_.n_q; i += chunk) {
      const std::int64_t rows = std::min(chunk, p_.n_q - i);
      q_.load(p_.q, b, h, i, rows, p_.m);
      // The earlier keys first; then, if causal, the keys of the chunk itself.
      tile_gemm(rows, p_.padded_dv(), p_.m, q_.data(), q_.width(), 1,
                unpacked(kv_.data(), p_.padded_dv()), false, sums_.data(), p_.padded_dv());
      if (p_.normalized)
        for (std::int64_t r = 0; r < rows; ++r)
          totals_[r] = dot_rows(q_.row(r), k_sum_.data(), p_.padded_m());
      if (p_.lead < p_.n_k) add_own_keys(b, g, i, rows);
      finish(b, h, i, rows);
    }
  }

 private:
  // Loads keys [j, j + count) to the scratch chunk and adds them to the moments.
  void load_keys(std::int64_t b, std::int64_t g, std::int64_t j, std::int64_t count) {
    k_.load(p_.k, b, g, j, count, p_.m);
    v_.load(p_.v, b, g, j, count, p_.dv);
    add_outer(k_, v_, count, kv_);
    if (p_.normalized)
      for (std::int64_t r = 0; r < count; ++r) add_row(k_.row(r), p_.padded_m(), k_sum_.data());
  }

  void add_own_keys(std::int64_t b, std::int64_t g, std::int64_t i, std::int64_t rows) {
    load_keys(b, g, p_.lead + i, rows);
    k_.transpose_to(k_t_.data());
    tile_gemm(rows, chunk, p_.m, q_.data(), q_.width(), 1, unpacked(k_t_.data(), chunk), false,
              products_.data(), chunk);
    keep_lower(rows, products_.data());
    if (p_.normalized)
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t j = 0; j <= r; ++j) totals_[r] += products_.data()[r * chunk + j];
      }
    tile_gemm(rows, p_.padded_dv(), rows, products_.data(), chunk, 1,
              unpacked(v_.data(), v_.width()), true, sums_.data(), p_.padded_dv());
  }

  void finish(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const row = sums_.row(r, p_.padded_dv());
      if (p_.normalized) {
        const T denominator = totals_[r] + p_.eps;
        scale_row_by(denominator == 0 ? T{0} : 1 / denominator, p_.padded_dv(), row);
        denominator_[(b * p_.heads + h) * p_.n_q + i + r] = denominator;
      }
      if (p_.initial.data)
        add_rows(row, p_.initial.row(b, h, i + r), p_.dv, out_.row(b, h, i + r));
      else
        std::copy_n(row, p_.dv, out_.row(b, h, i + r));
    }
  }

  const LinearProblem<T>& p_;
  HeadRows<T> out_;
  T* denominator_;  // null unless normalized
  Chunk<T> q_, k_, v_;
  Scratch<T> k_t_, products_, sums_;
  Scratch<T> kv_;     // S [M, Dv]
  Scratch<T> k_sum_;  // z [M]
  T totals_[chunk];
};

/// With n_i = grad_out_i / denominator_i and e_i = -<grad_out_i, out_i> / denominator_i:
///   dq_i = sum_j (<n_i, v_j> + e_i) k_j,  dv_j = sum_i <q_i, k_j> n_i,
///   dk_j = sum_i (<n_i, v_j> + e_i) q_i
/// over the pairs where i sees j; without normalisation, n_i = grad_out_i and e_i = 0. dq runs over
/// the chunks with the moments of the keys before, dk and dv run back over them with the moments of
/// the queries behind.
template <class T>
class LinearBackward {
 public:
  LinearBackward(const LinearProblem<T>& problem, const LinearAttentionInputs& in,
                 const Tensor& out, const Tensor& denominator, const Tensor& grad_out,
                 const LinearAttentionGrads& grads)
      : p_(problem),
        out_(p_.normalized ? out : grad_out),
        grad_out_(grad_out),
        denominator_(p_.normalized ? denominator.data<T>() : nullptr),
        grad_q_(grads.q),
        grad_k_(grads.k),
        grad_v_(grads.v),
        causal_(in.causal),
        q_(p_.padded_m()),
        k_(p_.padded_m()),
        v_(p_.padded_dv()),
        n_(p_.padded_dv()),
        transposed_(std::max(p_.padded_m(), p_.padded_dv()) * chunk),
        products_(chunk * chunk),
        grad_products_(chunk * chunk),
        sums_m_(chunk * p_.padded_m()),
        sums_dv_(chunk * p_.padded_dv()),
        moments_(moment_size(p_.padded_m(), p_.padded_dv())),
        moments_t_(moment_size(p_.padded_dv(), p_.padded_m())),
        vector_(p_.padded_m()) {}

  void run(std::int64_t b, std::int64_t g) {
    const std::int64_t per_group = p_.heads / p_.groups;
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) {
      query_gradients(b, h, g);
      key_gradients(b, h, g, h == g * per_group);
    }
  }

 private:
  void clear_moments() {
    std::fill(moments_.data(), moments_.data() + moment_size(p_.padded_m(), p_.padded_dv()), T{0});
    std::fill(moments_t_.data(), moments_t_.data() + moment_size(p_.padded_dv(), p_.padded_m()),
              T{0});
    std::fill(vector_.data(), vector_.data() + p_.padded_m(), T{0});
  }

  void load_keys(std::int64_t b, std::int64_t g, std::int64_t j, std::int64_t count) {
    k_.load(p_.k, b, g, j, count, p_.m);
    v_.load(p_.v, b, g, j, count, p_.dv);
  }

  // q, n and e of queries [i, i + rows).
  void load_queries(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t rows) {
    q_.load(p_.q, b, h, i, rows, p_.m);
    n_.load(grad_out_, b, h, i, rows, p_.dv);
    if (!p_.normalized) return;
    for (std::int64_t r = 0; r < rows; ++r) {
      const T denominator = denominator_[(b * p_.heads + h) * p_.n_q + i + r];
      const T inverse = denominator == 0 ? T{0} : 1 / denominator;
      e_[r] = -inverse * dot_rows(n_.row(r), out_.row(b, h, i + r), p_.dv);
      scale_row_by(inverse, p_.padded_dv(), n_.row(r));
    }
  }

  // grad_products[i, j] = <n_i, v_j> + e_i where i sees j within the chunk.
  void own_grad_products(std::int64_t rows) {
    v_.transpose_to(transposed_.data());
    tile_gemm(rows, chunk, p_.dv, n_.data(), n_.width(), 1, unpacked(transposed_.data(), chunk),
              false, grad_products_.data(), chunk);
    if (p_.normalized)
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t j = 0; j <= r; ++j) grad_products_.data()[r * chunk + j] += e_[r];
      }
    keep_lower(rows, grad_products_.data());
  }

  void query_gradients(std::int64_t b, std::int64_t h, std::int64_t g) {
    clear_moments();  // moments_t = sum v k^T, vector = sum k
    for (std::int64_t j = 0; j < p_.lead; j += chunk)
      add_keys(b, g, j, std::min(chunk, p_.lead - j));
    for (std::int64_t i = 0; i < p_.n_q; i += chunk) {
      const std::int64_t rows = std::min(chunk, p_.n_q - i);
      load_queries(b, h, i, rows);
      tile_gemm(rows, p_.padded_m(), p_.dv, n_.data(), n_.width(), 1,
                unpacked(moments_t_.data(), p_.padded_m()), false, sums_m_.data(), p_.padded_m());
      if (p_.normalized)
        for (std::int64_t r = 0; r < rows; ++r)
          add_scaled_row(e_[r], vector_.data(), p_.padded_m(), sums_m_.row(r, p_.padded_m()));
      if (causal_) {
        add_keys(b, g, p_.lead + i, rows);
        own_grad_products(rows);
        tile_gemm(rows, p_.padded_m(), rows, grad_products_.data(), chunk, 1,
                  unpacked(k_.data(), k_.width()), true, sums_m_.data(), p_.padded_m());
      }
      for (std::int64_t r = 0; r < rows; ++r)
        std::copy_n(sums_m_.row(r, p_.padded_m()), p_.m, grad_q_.row(b, h, i + r));
    }
  }

  void add_keys(std::int64_t b, std::int64_t g, std::int64_t j, std::int64_t count) {
    load_keys(b, g, j, count);
    add_outer(v_, k_, count, moments_t_);
    if (p_.normalized)
      for (std::int64_t r = 0; r < count; ++r) add_row(k_.row(r), p_.padded_m(), vector_.data());
  }

  void key_gradients(std::int64_t b, std::int64_t h, std::int64_t g, bool overwrite) {
    clear_moments();  // moments = sum q n^T, moments_t its transpose, vector = sum e q
    const std::int64_t last = round_up(p_.n_q, chunk) - chunk;
    for (std::int64_t i = last; i >= 0; i -= chunk) {
      const std::int64_t rows = std::min(chunk, p_.n_q - i);
      load_queries(b, h, i, rows);
      if (causal_) {
        load_keys(b, g, p_.lead + i, rows);
        from_queries_behind(rows);
        from_own_queries(rows);
        store_key_gradients(b, g, p_.lead + i, rows, overwrite);
      }
      add_outer(q_, n_, rows, moments_);
      add_outer(n_, q_, rows, moments_t_);
      if (p_.normalized)
        for (std::int64_t r = 0; r < rows; ++r)
          add_scaled_row(e_[r], q_.row(r), p_.padded_m(), vector_.data());
    }
    for (std::int64_t j = 0; j < p_.lead; j += chunk) {
      const std::int64_t count = std::min(chunk, p_.lead - j);
      load_keys(b, g, j, count);
      from_queries_behind(count);
      store_key_gradients(b, g, j, count, overwrite);
    }
  }

  void from_queries_behind(std::int64_t count) {
    tile_gemm(count, p_.padded_dv(), p_.m, k_.data(), k_.width(), 1,
              unpacked(moments_.data(), p_.padded_dv()), false, sums_dv_.data(), p_.padded_dv());
    tile_gemm(count, p_.padded_m(), p_.dv, v_.data(), v_.width(), 1,
              unpacked(moments_t_.data(), p_.padded_m()), false, sums_m_.data(), p_.padded_m());
    if (p_.normalized)
      for (std::int64_t r = 0; r < count; ++r)
        add_row(vector_.data(), p_.padded_m(), sums_m_.row(r, p_.padded_m()));
  }

  void from_own_queries(std::int64_t rows) {
    own_grad_products(rows);
    k_.transpose_to(transposed_.data());
    tile_gemm(rows, chunk, p_.m, q_.data(), q_.width(), 1, unpacked(transposed_.data(), chunk),
              false, products_.data(), chunk);
    keep_lower(rows, products_.data());
    tile_gemm(rows, p_.padded_dv(), rows, products_.data(), 1, chunk,
              unpacked(n_.data(), n_.width()), true, sums_dv_.data(), p_.padded_dv());
    tile_gemm(rows, p_.padded_m(), rows, grad_products_.data(), 1, chunk,
              unpacked(q_.data(), q_.width()), true, sums_m_.data(), p_.padded_m());
  }

  void store_key_gradients(std::int64_t b, std::int64_t g, std::int64_t j, std::int64_t count,
                           bool overwrite) {
    for (std::int64_t r = 0; r < count; ++r) {
      store(sums_m_.row(r, p_.padded_m()), p_.m, overwrite, grad_k_.row(b, g, j + r));
      store(sums_dv_.row(r, p_.padded_dv()), p_.dv, overwrite, grad_v_.row(b, g, j + r));
    }
  }

  static void store(const T* row, std::int64_t n, bool overwrite, T* to) {
    for (std::int64_t c = 0; c < n; ++c) to[c] = overwrite ? row[c] : to[c] + row[c];
  }

  const LinearProblem<T>& p_;
  HeadRows<T> out_, grad_out_;  // out_ is read only if normalized
  const T* denominator_;
  HeadRows<T> grad_q_, grad_k_, grad_v_;
  bool causal_;
  Chunk<T> q_, k_, v_, n_;
  Scratch<T> transposed_, products_, grad_products_, sums_m_, sums_dv_;
  Scratch<T> moments_, moments_t_, vector_;
  T e_[chunk];
};

class CpuLinearAttention final : public LinearAttentionKernels {
 public:
  void linear_attention(const LinearAttentionInputs& in, const Tensor& out,
                        const Tensor& denominator) override {
    dispatch_real("linear_attention", in.q.dtype(), [&]<class T>(TypeTag<T>) {
      const LinearProblem<T> p(in);
      parallel_for(p.batch * p.heads, 1, [&](std::int64_t begin, std::int64_t end) {
        LinearForward<T> head(p, out, denominator);
        for (std::int64_t bh = begin; bh < end; ++bh) head.run(bh / p.heads, bh % p.heads);
      });
    });
  }

  void linear_attention_backward(const LinearAttentionInputs& in, const Tensor& out,
                                 const Tensor& denominator, const Tensor& grad_out,
                                 const LinearAttentionGrads& grads) override {
    dispatch_real("linear_attention_backward", in.q.dtype(), [&]<class T>(TypeTag<T>) {
      const LinearProblem<T> p(in);
      parallel_for(p.batch * p.groups, 1, [&](std::int64_t begin, std::int64_t end) {
        LinearBackward<T> head(p, in, out, denominator, grad_out, grads);
        for (std::int64_t bg = begin; bg < end; ++bg) head.run(bg / p.groups, bg % p.groups);
      });
    });
  }
};

LinearAttentionKernels& linear_attention_kernels() { return only<CpuLinearAttention>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(linear_attention_kernels);
LinearAttentionKernels& cpu_linear_attention_kernels() {
  return HWY_DYNAMIC_DISPATCH(linear_attention_kernels)();
}

}  // namespace mobius
#endif  // HWY_ONCE
