// Which pairs of queries and keys a warp's product tile keeps: what the mask lets them see, what
// dropout leaves. A word is 32 keys of one query; the words of a tile are computed once, each by
// one lane, and handed round.
#pragma once

#include "core/cuda/attention/problem.cuh"
#include "core/cuda/reduce.cuh"
#include "core/rng.h"

namespace mobius::cuda {

/// Bit b of the result is whether dropout leaves the weight of number first + b.
__device__ inline std::uint32_t kept_word(const WeightDropout& dropout, std::uint64_t first) {
  std::uint32_t kept = 0;
#pragma unroll 1
  for (int block = 0; block < 9; ++block) {
    const std::array<std::uint32_t, 4> words = philox(dropout.key, first / 4 + block);
    const int start = 4 * block - static_cast<int>(first % 4);
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const int bit = start + s;
      if (bit >= 0 && bit < 32 && words[s] >= dropout.limit) kept |= 1u << bit;
    }
  }
  return kept;
}

/// kWords words of each of kQueries queries, over the lanes.
template <int kQueries, int kWords>
class PairBits {
 public:
  /// word_of(query, w) gives word w of a query.
  template <class WordOf>
  __device__ explicit PairBits(const WordOf& word_of) {
#pragma unroll
    for (int c = 0; c < count; ++c) {
      const int at = (c * 32 + static_cast<int>(threadIdx.x % 32)) % (kQueries * kWords);
      words_[c] = word_of(at % kQueries, at / kQueries);
    }
  }
  /// Word w of query `first` + `offset`; first is a multiple of 8, offset below 16.
  __device__ std::uint32_t at(int w, int first, int offset) const {
    const int start = w * kQueries + first;
    return __shfl_sync(all_lanes, words_[start / 32], start % 32 + offset);
  }

 private:
  static constexpr int count = kQueries * kWords > 32 ? kQueries* kWords / 32 : 1;
  std::uint32_t words_[count];
};

/// Calls fn(block, column tile, element) for the elements of a product tile of queries (rows) and
/// keys (columns) whose bits are not set.
template <int kBlocks, int kWords, class Fn>
__device__ void where_unset(const PairBits<16 * kBlocks, kWords>& bits, const Fn& fn) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int block = 0; block < kBlocks; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const std::uint32_t word = bits.at(w, 16 * block, 8 * half + lane / 4) >> (2 * (lane % 4));
#pragma unroll
        for (int s = 0; s < 8; ++s)
          if ((word >> (s / 2 * 8 + s % 2) & 1u) == 0) fn(block, 4 * w + s / 2, 2 * half + s % 2);
      }
}

/// The same for a tile of keys (rows, the first 16 kBlocks of the words) and queries (columns).
template <int kBlocks, int kQueries, class Fn>
__device__ void where_unset_transposed(const PairBits<kQueries, 1>& bits, const Fn& fn) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int column = 0; column < kQueries / 8; ++column)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const std::uint32_t word = bits.at(0, 8 * column, 2 * (lane % 4) + e) >> (lane / 4);
#pragma unroll
      for (int s = 0; s < 2 * kBlocks; ++s)
        if ((word >> (8 * s) & 1u) == 0) fn(s / 2, column, 2 * (s % 2) + e);
    }
}

}  // namespace mobius::cuda
