// The forward pass of fused attention, and the selection of keys. For each tile of queries it
// visits the tiles of keys that they see, one after the other; products, weights and the weighted
// sum of values stay in cache. Memory beyond the output: packed copies of keys and values, and one
// tile per thread. The selection holds the products of one tile of queries with all keys. Buffers:
// outputs are overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/attention/forward.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <vector>

#include "core/cpu/attention/kernels.h"
#include "core/cpu/attention/tile-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

template <class T, class Map, bool kSoftmax>
class ForwardTile {
 public:
  ForwardTile(const Map& map, const AttentionProblem<T>& problem, const PackedTiles<T>& k_tiles,
              const PackedTiles<T>& v_tiles, const Tensor& out, const Tensor& lse)
      : map_(map),
        p_(problem),
        k_tiles_(k_tiles),
        v_tiles_(v_tiles),
        out_(out),
        lse_(kSoftmax ? lse.data<T>() : nullptr),
        dv_(round_up(p_.dv, attention_lanes<T>)),
        q_tile_(attention_block_q * p_.d),
        weights_(attention_block_q * attention_block_k),
        sums_(attention_block_q * dv_),
        factors_(attention_block_k),
        flags_(attention_block_k) {
    if constexpr (!kSoftmax) largest_weight_ = static_cast<T>(std::exp(map.log_cap));
  }

  /// Output rows [i0, i1) of head h of batch element b.
  void run(std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t i1) {
    TilePosition at{b, h, i0, i1, 0};
    load_queries(p_, b, h, i0, i1, q_tile_.data(), p_.d);
    std::fill(sums_.data(), sums_.data() + attention_block_q * dv_, T{0});
    for (std::int64_t i = 0; i < i1 - i0; ++i) {
      largest_[i] = -std::numeric_limits<T>::infinity();
      total_[i] = 0;
    }
    const auto [first, end] = p_.seen.pattern().keys_of(i0, i1);
    at.j0 = first / attention_block_k * attention_block_k;
    for (; at.j0 < end; at.j0 += attention_block_k) add_keys(at, end);
    finish(at);
  }

 private:
  void add_keys(const TilePosition& at, std::int64_t end) {
    const std::int64_t j1 = std::min(at.j0 + attention_block_k, end);
    const std::int64_t width = round_up(j1 - at.j0, attention_lanes<T>);
    const std::int64_t rows = at.i1 - at.i0, bg = at.b * p_.groups + p_.group_of(at.h);
    tile_gemm(rows, width, p_.d, q_tile_.data(), p_.d, 1, k_tiles_.tile(bg, at.j0), false,
              weights_.data(), attention_block_k);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* const row = weights_.row(i, attention_block_k);
      const KeyFlags keys =
          p_.seen.keys(at.b * p_.heads + at.h, at.i0 + i, at.j0, j1, flags_.data());
      const RowNumbers<T> numbers = row_numbers<Map>(p_, at, at.i0 + i);
      if constexpr (kSoftmax) {
        softmax_row(numbers, keys, at.j0, width, i, row);
      } else {
        weights_row(map_, numbers, largest_weight_, keys, at.j0, width, row);
      }
      if (p_.spec.dropout > 0) {
        dropout_row(p_, at, at.i0 + i, width, factors_.data());
        multiply_row(factors_.data(), width, row);
      }
    }
    tile_gemm(rows, dv_, j1 - at.j0, weights_.data(), attention_block_k, 1,
              v_tiles_.tile(bg, at.j0), true, sums_.data(), dv_);
  }

  // Weights relative to the running maximum; what was summed before is rescaled when it rises.
  void softmax_row(const RowNumbers<T>& numbers, const KeyFlags& keys, std::int64_t first,
                   std::int64_t width, std::int64_t i, T* row) {
    const T largest = std::max(largest_[i], logits_row(map_, numbers, keys, first, width, row));
    if (largest == -std::numeric_limits<T>::infinity()) {  // nothing seen so far
      std::fill(row, row + width, T{0});
      return;
    }
    if (largest > largest_[i]) {
      const T correction = std::exp(largest_[i] - largest);
      total_[i] *= correction;
      scale_row_by(correction, dv_, sums_.row(i, dv_));
      largest_[i] = largest;
    }
    total_[i] += exponentials_row(largest, width, row);
  }

  void finish(const TilePosition& at) {
    for (std::int64_t i = 0; i < at.i1 - at.i0; ++i) {
      const std::int64_t r = at.i0 + i;
      if constexpr (kSoftmax) {
        const bool sees_any = total_[i] > 0;
        scale_row_by(sees_any ? 1 / total_[i] : T{0}, dv_, sums_.row(i, dv_));
        lse_[p_.row_of(at.b, at.h, r)] =
            sees_any ? largest_[i] + std::log(total_[i]) : std::numeric_limits<T>::infinity();
      }
      std::copy_n(sums_.row(i, dv_), p_.dv, out_.row(at.b, at.h, r));
    }
  }

  const Map map_;
  const AttentionProblem<T>& p_;
  const PackedTiles<T>& k_tiles_;
  const PackedTiles<T>& v_tiles_;
  HeadRows<T> out_;
  T* lse_;
  T largest_weight_ = 0;  // without a softmax
  std::int64_t dv_;       // padded to whole vectors
  Scratch<T> q_tile_, weights_, sums_, factors_;
  Scratch<std::uint8_t> flags_;
  T largest_[attention_block_q], total_[attention_block_q];
};

/// Calls run(b, h, i0, i1) for all tiles of queries [i0, i1), on an object that make() returns for
/// each task.
template <class T, class Make>
void for_query_tiles(const AttentionProblem<T>& p, Make&& make) {
  const std::int64_t tiles = p.query_tiles();
  parallel_for(p.batch * p.heads * tiles, 4, [&](std::int64_t begin, std::int64_t end) {
    auto tile = make();
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t bh = t / tiles, i0 = t % tiles * attention_block_q;
      tile.run(bh / p.heads, bh % p.heads, i0, std::min(i0 + attention_block_q, p.n_q));
    }
  });
}

template <bool kSoftmax, class Map, class T>
void forward_tiles(const Map& map, const AttentionProblem<T>& p, const Tensor& k, const Tensor& v,
                   const Tensor& out, const Tensor& lse) {
  const PackedTiles<T> k_tiles(KeysAs::columns, k), v_tiles(KeysAs::rows, v);
  for_query_tiles(
      p, [&] { return ForwardTile<T, Map, kSoftmax>(map, p, k_tiles, v_tiles, out, lse); });
}

void attention_forward(const AttentionSpec& spec, const AttentionInputs& inputs, const Tensor& out,
                       const Tensor& lse) {
  dispatch_real("attention", inputs.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> problem(spec, inputs);
    with_score(spec, [&](auto map, auto is_softmax) {
      if constexpr (is_softmax || map.has_weight)
        forward_tiles<is_softmax>(map, problem, inputs.k, inputs.v, out, lse);
    });
  });
}

// ---- top-k

template <class T>
struct Candidate {
  T product;
  std::int32_t key;

  bool operator<(const Candidate& other) const {  // the better one is the smaller
    return product > other.product || (product == other.product && key < other.key);
  }
};

template <class T>
class TopkTile {
 public:
  TopkTile(const AttentionProblem<T>& problem, const PackedTiles<T>& k_tiles, const Tensor& keys)
      : p_(problem),
        k_tiles_(k_tiles),
        topk_(keys.size(-1)),
        keys_(keys.data<std::int32_t>()),
        width_(p_.key_tiles() * attention_block_k),
        q_tile_(attention_block_q * p_.d),
        products_(attention_block_q * width_),
        flags_(attention_block_k) {}

  void run(std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t i1) {
    const TilePosition at{b, h, i0, i1, 0};
    const std::int64_t end = p_.seen.pattern().keys_of(i0, i1).end,
                       bg = b * p_.groups + p_.group_of(h);
    load_queries(p_, b, h, i0, i1, q_tile_.data(), p_.d);
    for (std::int64_t j0 = 0; j0 < end; j0 += attention_block_k) {
      const std::int64_t columns =
          round_up(std::min(attention_block_k, end - j0), attention_lanes<T>);
      tile_gemm(i1 - i0, columns, p_.d, q_tile_.data(), p_.d, 1, k_tiles_.tile(bg, j0), false,
                products_.data() + j0, width_);
    }
    for (std::int64_t i = i0; i < i1; ++i) select(at, i, end);
  }

 private:
  void select(const TilePosition& at, std::int64_t i, std::int64_t end) {
    const T* const row = products_.row(i - at.i0, width_);
    candidates_.clear();
    for (std::int64_t j0 = 0; j0 < end; j0 += attention_block_k) {
      const std::int64_t j1 = std::min(j0 + attention_block_k, end);
      const KeyFlags keys = p_.seen.keys(at.b * p_.heads + at.h, i, j0, j1, flags_.data());
      for (std::int64_t j = keys.lo; j < keys.hi; ++j) {
        if (!keys.allowed || keys.allowed[j - j0])
          candidates_.push_back({row[j], static_cast<std::int32_t>(j)});
      }
    }
    const auto n = std::min(static_cast<std::int64_t>(candidates_.size()), topk_);
    std::nth_element(candidates_.begin(), candidates_.begin() + n, candidates_.end());
    std::int32_t* const selected = keys_ + p_.row_of(at.b, at.h, i) * topk_;
    std::fill(selected, selected + topk_, static_cast<std::int32_t>(p_.n_k));
    for (std::int64_t r = 0; r < n; ++r) selected[r] = candidates_[static_cast<std::size_t>(r)].key;
    std::sort(selected, selected + n);
  }

  const AttentionProblem<T>& p_;
  const PackedTiles<T>& k_tiles_;
  std::int64_t topk_;
  std::int32_t* keys_;
  std::int64_t width_;
  Scratch<T> q_tile_, products_;
  Scratch<std::uint8_t> flags_;
  std::vector<Candidate<T>> candidates_;
};

void attention_topk(const AttentionSpec& spec, const AttentionInputs& in, const Tensor& keys) {
  dispatch_real("attention_topk", in.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> p(spec, in);
    const PackedTiles<T> k_tiles(KeysAs::columns, in.k);
    for_query_tiles(p, [&] { return TopkTile<T>(p, k_tiles, keys); });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(attention_forward);
HWY_EXPORT(attention_topk);

void CpuAttention::attention(const AttentionSpec& spec, const AttentionInputs& inputs,
                             const Tensor& out, const Tensor& lse) {
  HWY_DYNAMIC_DISPATCH(attention_forward)(spec, inputs, out, lse);
}

void CpuAttention::attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const Tensor& keys) {
  HWY_DYNAMIC_DISPATCH(attention_topk)(spec, inputs, keys);
}

AttentionKernels& cpu_attention_kernels() { return only<CpuAttention>(); }

}  // namespace mobius
#endif  // HWY_ONCE
