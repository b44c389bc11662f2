// Caches of attention layers: one more token costs one position and not all of them. Nothing here
// has a gradient.
// Legend: B batch, G key/value heads, n positions remembered, d dimension of a head, m features.
#pragma once

#include <cstdint>

#include "autograd/ops.h"

namespace mobius {

/// The state of one layer over one batch of sequences. Attention::make_cache() makes the kind that
/// the layer's extend() takes.
class AttentionCache {
 public:
  virtual ~AttentionCache() = default;
  /// Positions read so far.
  std::int64_t length() const { return length_; }

 protected:
  std::int64_t length_ = 0;
};

/// Rows appended along the last dimension but one. The memory doubles when it is full.
class GrowingRows {
 public:
  /// Appends rows[..., n_new, d]. Only n_new may differ between calls.
  void append(const Tensor& rows);
  /// Returns a view of all rows, [..., n, d].
  Tensor all() const { return memory_.slice(-2, 0, n_); }

 private:
  Tensor memory_;
  std::int64_t n_ = 0;
};

/// Keeps the layer's inputs. It serves every causal attention, which reads all of them again.
class InputCache final : public AttentionCache {
 public:
  /// x[B, n_new, d_model]; returns all inputs, [B, n, d_model].
  Variable append(const Variable& x);

 private:
  GrowingRows inputs_;
};

/// Keeps the keys and values of every position.
class KeyValueCache final : public AttentionCache {
 public:
  /// k[B, G, n_new, d_k], v[B, G, n_new, d].
  void append(const Variable& k, const Variable& v);
  Variable keys() const { return Variable(keys_.all()); }
  Variable values() const { return Variable(values_.all()); }

 private:
  GrowingRows keys_, values_;
};

/// Keeps the sums of attention by feature products, whose size does not depend on the length:
/// S = sum_j k_j v_j^T and z = sum_j k_j over the features k_j of the keys.
class MomentCache final : public AttentionCache {
 public:
  /// Returns the attention, [B, H, n_new, d], of features q[B, H, n_new, m] over the cached keys
  /// and, causally, the new k[B, G, n_new, m] and v[B, G, n_new, d], which it adds to the sums.
  Variable attend(const Variable& q, const Variable& k, const Variable& v, double eps);
  /// Memory of the sums, once there are keys.
  std::size_t bytes() const { return moments_.bytes() + sums_.bytes(); }

 private:
  Tensor moments_;  // S, [B, G, m, d]
  Tensor sums_;     // z, [B, G, m, 1]
};

}  // namespace mobius
