// The keys with the largest products of each query, without an n x n matrix: one strip of products
// of a tile of queries with all keys at a time. Buffers: outputs are overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/attention/topk.cpp"
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

void topk_tiles(const AttentionSpec& spec, const AttentionInputs& in, const Tensor& keys) {
  dispatch_real("attention_topk", in.q.dtype(), [&]<class T>(TypeTag<T>) {
    const AttentionProblem<T> p(spec, in);
    const PackedTiles<T> k_tiles(KeysAs::columns, in.k);
    const std::int64_t tiles = p.query_tiles();
    parallel_for(p.batch * p.heads * tiles, 4, [&](std::int64_t begin, std::int64_t end) {
      TopkTile<T> tile(p, k_tiles, keys);
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

HWY_EXPORT(topk_tiles);

void CpuAttention::attention_topk(const AttentionSpec& spec, const AttentionInputs& inputs,
                                  const Tensor& keys) {
  HWY_DYNAMIC_DISPATCH(topk_tiles)(spec, inputs, keys);
}

}  // namespace mobius
#endif  // HWY_ONCE
