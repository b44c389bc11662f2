// The k-th largest product of each query, without an n x n matrix: one strip of products of a tile
// of queries with all keys at a time. The products are those of the attention kernel, bit for bit,
// so that comparing with them there selects the same keys.
// Buffers: outputs are overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/attention/threshold.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <vector>

#include "core/cpu/attention/kernels.h"
#include "core/cpu/attention/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

template <class T>
struct Candidate {
  T product;
  std::int64_t key;

  bool operator<(const Candidate& other) const {  // the better one is the smaller
    return product > other.product || (product == other.product && key < other.key);
  }
};

template <class T>
class ThresholdTile {
 public:
  ThresholdTile(const AttentionProblem<T>& problem, const PackedTiles<T>& k_tiles,
                std::int64_t topk, const AttentionThreshold& out)
      : p_(problem),
        k_tiles_(k_tiles),
        topk_(static_cast<std::size_t>(topk)),
        value_(out.value.data<T>()),
        last_key_(out.last_key.data<std::int64_t>()),
        width_(p_.key_tiles() * attention_block_k),
        q_tile_(attention_block_q * p_.d),
        products_(attention_block_q * width_),
        flags_(attention_block_k) {}

  void run(std::int64_t b, std::int64_t h, std::int64_t i0, std::int64_t i1) {
    const TilePosition at{b, h, i0, i1, 0};
    const std::int64_t end = p_.visibility.end_key(i1), bg = b * p_.groups + p_.group_of(h);
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
      const TileKeys keys = p_.visibility.keys(at.b, at.h, i, j0, j1, flags_.data());
      for (std::int64_t j = keys.lo; j < keys.hi; ++j) {
        if (!keys.allowed || keys.allowed[j - j0]) candidates_.push_back({row[j], j});
      }
    }
    const std::int64_t at_row = p_.row_of(at.b, at.h, i);
    value_[at_row] = -std::numeric_limits<T>::infinity();  // sees no more than topk: all of them
    last_key_[at_row] = p_.n_k;
    if (candidates_.size() <= topk_) return;
    const auto last = candidates_.begin() + static_cast<std::ptrdiff_t>(topk_ - 1);
    std::nth_element(candidates_.begin(), last, candidates_.end());
    value_[at_row] = last->product;
    last_key_[at_row] = last->key;
  }

  const AttentionProblem<T>& p_;
  const PackedTiles<T>& k_tiles_;
  std::size_t topk_;
  T* value_;
  std::int64_t* last_key_;
  std::int64_t width_;
  Scratch<T> q_tile_, products_;
  Scratch<std::uint8_t> flags_;
  std::vector<Candidate<T>> candidates_;
};

void threshold_tiles(const AttentionSpec& spec, const AttentionInputs& in, std::int64_t topk,
                     const AttentionThreshold& out) {
  dispatch_real("attention_threshold", in.q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const AttentionProblem<T> p(spec, in);
    const PackedTiles<T> k_tiles(KeysAs::columns, in.k);
    const std::int64_t tiles = p.query_tiles();
    parallel_for(p.batch * p.heads * tiles, 4, [&](std::int64_t begin, std::int64_t end) {
      ThresholdTile<T> tile(p, k_tiles, topk, out);
      for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t bh = t / tiles, i0 = t % tiles * attention_block_q;
        tile.run(bh / p.heads, bh % p.heads, i0, std::min(i0 + attention_block_q, p.n_q));
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(threshold_tiles);

void CpuAttention::attention_threshold(const AttentionSpec& spec, const AttentionInputs& inputs,
                                       std::int64_t topk, const AttentionThreshold& out) {
  HWY_DYNAMIC_DISPATCH(threshold_tiles)(spec, inputs, topk, out);
}

}  // namespace mobius
#endif  // HWY_ONCE
