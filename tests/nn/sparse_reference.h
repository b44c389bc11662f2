// Sparse attention by the whole matrix of scores, sorted on the host.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "nn/attention/sparse.h"

namespace mobius::testing {

// Keeps the topk largest scores of those allowed, of equal ones the earlier.
inline void keep_largest(std::span<const double> scores, std::int64_t topk,
                         std::span<std::uint8_t> allowed) {
  std::vector<std::size_t> seen;
  for (std::size_t j = 0; j < scores.size(); ++j)
    if (allowed[j] != 0) seen.push_back(j);
  std::ranges::stable_sort(seen, [&](auto a, auto b) { return scores[a] > scores[b]; });
  for (auto rank = static_cast<std::size_t>(topk); rank < seen.size(); ++rank)
    allowed[seen[rank]] = 0;
}

// 1 if a query looks at a key: u8 [B, H, n_q, n_k].
inline Tensor sparse_allowed(const HeadInputs& in, const SparseSelection& selection) {
  const std::int64_t n_heads = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  const bool is_topk = selection.pattern == SparsePattern::topk;
  const AttentionMask mask = is_topk ? in.mask : sparse_call(in, selection).spec.mask;
  const Shape pairs{in.q.size(0), n_heads, n_q, n_k};
  const Tensor seen = materialize_mask(mask, n_q, n_k, in.q.device()).expand(pairs);
  if (!is_topk) return seen.contiguous();
  const Tensor keys = for_every_head(in.k, n_heads).data().transpose(-1, -2);
  const std::vector<double> scores = matmul(in.q.data(), keys).to_vector<double>();
  std::vector<std::uint8_t> allowed = seen.to_vector<std::uint8_t>();
  const auto width = static_cast<std::size_t>(n_k);
  for (std::size_t first = 0; first < scores.size(); first += width)
    keep_largest(std::span(scores).subspan(first, width), selection.topk,
                 std::span(allowed).subspan(first, width));
  return Tensor::from(allowed, pairs, in.q.device());
}

// Returns the weights, [B, H, n_q, n_k].
inline Variable sparse_weights(HeadInputs in, const SparseSelection& selection) {
  in.mask = {.mask = sparse_allowed(in, selection)};
  return attention_weights(softmax_call(in));
}

}  // namespace mobius::testing
