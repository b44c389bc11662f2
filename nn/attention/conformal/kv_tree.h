// The state of hierarchical conformal attention while a sequence is read token by token: the newest
// keys and values, and a tree of the moments of all earlier ones (docs/MATH.md, section 7).
//
// The output at position p is a near part, over the keys of the window (p-w, p] by the exact
// kernel, and a far part, query_features(p) . M(p), over all earlier keys by their moments
//
//   M(p) = sum_{j <= p-w} features(zeta_j) v_j^T.
//
// The moments of `block` keys at a time are the leaves of a Fenwick tree: node b holds those of the
// blocks (b - lowbit(b), b], counted from 1. A leaf for each key would take m d_v numbers where the
// key and its value take d + d_v.
//
// Legend: B batch, G key/value heads, n keys, d key dimension, d_v value dimension, m features,
// w window. Nothing here has a gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "autograd/variable.h"
#include "nn/attention/cache.h"
#include "nn/attention/conformal/far_field.h"

namespace mobius {

/// The newest rows of a sequence, [B, G, n, d], each known by its position in the sequence. Rows
/// that are no longer needed make room for new ones.
class RecentRows {
 public:
  /// Whether rows[B, G, n, d] differ from earlier ones in nothing but n.
  bool can_append(const Tensor& rows) const;
  /// Appends rows that it can. Those before position `oldest` may be forgotten. A row moves about
  /// once on average, and there is room for at most twice the rows that were needed at any time,
  /// and for at most `most`.
  void append(const Tensor& rows, std::int64_t oldest, std::int64_t most);
  /// Returns a view of the rows at positions [begin, end), which append() changes.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// Forgets the rows from position `end` on.
  void truncate(std::int64_t end) { end_ = end; }
  std::size_t bytes() const { return memory_.defined() ? memory_.bytes() : 0; }

 private:
  Tensor memory_;
  std::int64_t begin_ = 0, end_ = 0;  // the positions of the first row of the memory, and of the
                                      // row to come
};

/// Features of keys, whose products with those of a query approach the kernel.
struct KeyFeatures {
  std::int64_t n_features = 0;                         // m
  std::function<Variable(const Variable& zeta)> of{};  // [B, G, n, d] -> [B, G, n, m]
};

KeyFeatures key_features_of(std::shared_ptr<const FarField> far_field);

struct KVTreeOptions {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

  std::int64_t window = 64;          // w
  std::int64_t block = 64;           // keys of a leaf
  std::int64_t history = unlimited;  // tokens that can be taken back; earlier positions can be read
  std::int64_t max_len = unlimited;  // keys
};

/// Appending a key touches O(log n) nodes, and so does a query, besides its window and fewer than
/// `block` further keys. With an unlimited history every position can be read again, and the state
/// is that of an ordinary cache and n / block moments. With a history of 0 it is at most
/// 2 (w + block) (d + d_v) + block m and about (log2(n / block) + 3) m d_v numbers a head.
///
/// A moment is a sum of at most log2(n / block) + 1 nodes, each a sum of two halves and so on, so
/// its rounding error grows with log n, where that of a running sum grows with n.
class ConformalKVTree {
 public:
  /// Throws Error for options out of range.
  ConformalKVTree(KeyFeatures features, const KVTreeOptions& options);

  /// Appends keys zeta[B, G, n_new, d] on the sphere and values v[B, G, n_new, d_v]. Throws
  /// ShapeError if they do not fit together or to the earlier ones, and Error if there would be
  /// more than max_len; then nothing has changed.
  void append(const Tensor& zeta, const Tensor& v);
  /// Forgets the keys from `length` on. Throws Error if that lies ahead or further back than the
  /// history.
  void rollback(std::int64_t length);

  const KVTreeOptions& options() const { return options_; }
  /// Keys read.
  std::int64_t length() const { return length_; }
  /// The least length that rollback() can return to: `history` tokens before the longest so far.
  std::int64_t least_length() const { return least_length_; }

  struct Keys {
    Tensor zeta, v;  // [B, G, n, d], [B, G, n, d_v]
  };
  /// Returns the keys of the window of a position, at most w, as views that append() changes.
  /// This and moments() throw Error unless least_length() - 1 <= position < length().
  Keys near(std::int64_t position) const;
  /// Returns M(position), [B, G, m, d_v]. Reading one position after another costs one key's part
  /// of the sum, but for one position in `block`, which costs a sum over nodes and the features of
  /// the next block.
  Tensor moments(std::int64_t position);

  /// Nodes read and written by the last append(): at most 1 + log2(n / block) for one key.
  std::int64_t nodes_appended() const { return nodes_appended_; }
  /// Nodes read by the last moments(): at most 1 + log2(n / block), and none where the moments of
  /// the call before are at hand.
  std::int64_t nodes_read() const { return nodes_read_; }
  /// Nodes held.
  std::int64_t n_nodes() const { return static_cast<std::int64_t>(nodes_.size()); }
  /// Memory of the whole state.
  std::size_t bytes() const;

 private:
  void require_fitting(const Tensor& zeta, const Tensor& v) const;
  void require_reachable(std::int64_t position) const;
  std::int64_t n_far(std::int64_t position) const;
  std::int64_t blocks_before_windows() const;
  Tensor features_between(std::int64_t begin, std::int64_t end, std::int64_t at_hand);
  Tensor block_moments(std::int64_t first, std::int64_t n_blocks);
  void close_blocks();
  void forget_nodes();
  void sum_nodes(std::int64_t n_blocks);
  void own_prefix();

  KeyFeatures features_;
  KVTreeOptions options_;
  RecentRows zeta_, v_;
  std::int64_t length_ = 0, least_length_ = 0;

  std::map<std::int64_t, Tensor> nodes_;  // node -> moments, [B, G, m, d_v]
  std::int64_t n_closed_ = 0;             // blocks that are in the tree
  std::int64_t n_forgotten_ = 0;          // no prefix of fewer blocks can be asked for
  std::int64_t nodes_appended_ = 0, nodes_read_ = 0;

  // Features of the keys [begin, end), of which the positions to come will ask.
  Tensor block_features_;  // [B, G, end - begin, m]
  std::int64_t features_begin_ = 0, features_end_ = 0;

  Tensor prefix_;                  // the moments of the first prefix_keys_ keys
  std::int64_t prefix_keys_ = -1;  // -1: there are none yet
};

/// The cache of hierarchical conformal attention: a tree, and the far field whose features it sums.
class ConformalTreeCache final : public AttentionCache {
 public:
  ConformalTreeCache(std::shared_ptr<const FarField> far_field, const KVTreeOptions& options);

  const FarField& far_field() const { return *far_field_; }
  ConformalKVTree& tree() { return tree_; }
  const ConformalKVTree& tree() const { return tree_; }
  /// As those of ConformalKVTree.
  void append(const Variable& zeta, const Variable& v);
  void rollback(std::int64_t length);

 private:
  std::shared_ptr<const FarField> far_field_;
  ConformalKVTree tree_;
};

}  // namespace mobius
