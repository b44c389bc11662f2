// The sizes and operands of one attention call, as its kernels take them: by value.
// Legend: B batch, H query heads, G key/value heads, Nq, Nk, D, Dv as in core/ops/attention.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/cuda/attention/mask.cuh"
#include "core/ops/attention.h"

namespace mobius::cuda {

/// Rows of a [B, H, N, D] view whose last dimension is dense.
template <class T>
struct HeadRows {
  T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  HeadRows() = default;
  explicit HeadRows(const Tensor& x)
      : data(x.data<std::remove_const_t<T>>()),
        batch_stride(x.stride(0)),
        head_stride(x.stride(1)),
        row_stride(x.stride(2)) {}
  __host__ __device__ T* row(std::int64_t batch, std::int64_t head, std::int64_t i) const {
    return data + batch * batch_stride + head * head_stride + i * row_stride;
  }
};

/// Dropout of weights: the number of weight (b, h, i, j) is its index in [B, H, Nq, Nk], and word
/// number % 4 of block number / 4 of the stream decides about it.
struct WeightDropout {
  bool is_on = false;
  RngKey key{};
  std::uint32_t limit = 0;  // a word below it drops the weight
  double keep = 1;          // the factor of the others

  explicit WeightDropout(const AttentionSpec& spec)
      : is_on(spec.dropout > 0),
        key(spec.dropout_key),
        limit(static_cast<std::uint32_t>(spec.dropout * 4294967296.0)),
        keep(1 / (1 - spec.dropout)) {}
};

/// The address of the elements of each number of a call, null where it is not given (or its
/// gradient not wanted). Dense: [B, G, Nk], [H, Nq + Nk - 1], [B, H, Nq].
template <class T>
AttentionOperands<T*> number_addresses(const AttentionOperands<Tensor>& tensors) {
  AttentionOperands<T*> addresses;
  scores::for_each_number(
      [](const NumberKind&, const Tensor& x, T*& address) {
        if (x.defined()) address = x.data<std::remove_const_t<T>>();
      },
      tensors, addresses);
  return addresses;
}

/// Sizes fit an int; products of them need not.
template <class T>
struct AttentionProblem {
  int batch, heads, groups, n_q, n_k, d, dv;
  HeadRows<const T> q, k, v;
  AttentionOperands<const T*> numbers;
  KeyMask mask;
  WeightDropout dropout;

  AttentionProblem(const AttentionSpec& spec, const AttentionInputs& in)
      : batch(static_cast<int>(in.q.size(0))),
        heads(static_cast<int>(in.q.size(1))),
        groups(static_cast<int>(in.k.size(1))),
        n_q(static_cast<int>(in.q.size(2))),
        n_k(static_cast<int>(in.k.size(2))),
        d(static_cast<int>(in.q.size(3))),
        dv(static_cast<int>(in.v.size(3))),
        q(in.q),
        k(in.k),
        v(in.v),
        numbers(number_addresses<const T>(in)),
        mask(spec.mask, {in.q.size(0), in.q.size(1), in.q.size(2), in.k.size(2)}),
        dropout(spec) {}

  __host__ __device__ int group_of(int head) const { return head / (heads / groups); }
  /// The index of query i in [B, H, Nq].
  __host__ __device__ std::int64_t row_of(int b, int h, int i) const {
    return (static_cast<std::int64_t>(b) * heads + h) * n_q + i;
  }
  /// The index of key j in [B, G, Nk].
  __host__ __device__ std::int64_t key_of(int b, int g, int j) const {
    return (static_cast<std::int64_t>(b) * groups + g) * n_k + j;
  }
  /// The index of the pair in [H, Nq + Nk - 1].
  __host__ __device__ std::int64_t distance_of(int h, int i, int j) const {
    return static_cast<std::int64_t>(h) * (n_q + n_k - 1) + j - i + n_q - 1;
  }
};

}  // namespace mobius::cuda
