// How much of the tiles that pass by a warp its rows see: as KeyMask::tile(), by a few comparisons.
#pragma once

#include "core/cuda/attention/mask.cuh"

namespace mobius::cuda {

class TileSights {
 public:
  /// For queries [i0, i1), of tiles of keys.
  __device__ static TileSights of_keys(const KeyMask& mask, int i0, int i1) {
    const MaskPattern& p = mask.pattern();
    if (i0 >= p.n_q) return TileSights({0, 0}, {0, 0});
    const IndexRange any = p.keys_of(i0, i1 < p.n_q ? i1 : p.n_q);
    if (!mask.is_pattern() || i1 > p.n_q) return TileSights(any, {0, 0});
    const std::int64_t first = p.position(i0), last = p.position(i1 - 1);
    IndexRange all{0, p.n_k};
    if (p.causal) all.end = least(all.end, first + 1);
    if (p.window > 0) all = {last - p.window + 1, least(all.end, first + p.window)};
    return TileSights(any, all);
  }
  /// For keys [j0, j1), of tiles of queries.
  __device__ static TileSights of_queries(const KeyMask& mask, int j0, int j1) {
    const MaskPattern& p = mask.pattern();
    if (j0 >= p.n_k) return TileSights({0, 0}, {0, 0});
    const IndexRange any = p.queries_of(j0, j1 < p.n_k ? j1 : p.n_k);
    if (!mask.is_pattern() || j1 > p.n_k) return TileSights(any, {0, 0});
    const std::int64_t first = j0 - p.position(0),
                       last = j1 - 1 - p.position(0);  // on the diagonal
    IndexRange all{0, p.n_q};
    if (p.causal) all.begin = last;
    if (p.window > 0) {
      if (last - p.window + 1 > all.begin) all.begin = last - p.window + 1;
      all.end = least(all.end, first + p.window);
    }
    return TileSights(any, all);
  }

  /// Of the tile [begin, end).
  __device__ Sight at(int begin, int end) const {
    if (any_end_ <= begin || end <= any_begin_) return Sight::none;
    return all_begin_ <= begin && end <= all_end_ ? Sight::all : Sight::some;
  }

 private:
  __device__ static std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
  __device__ TileSights(IndexRange any, IndexRange all)
      : any_begin_(static_cast<int>(any.begin)),
        any_end_(static_cast<int>(any.end)),
        all_begin_(static_cast<int>(all.begin)),
        all_end_(static_cast<int>(all.end)) {}

  int any_begin_, any_end_, all_begin_, all_end_;
};

}  // namespace mobius::cuda
