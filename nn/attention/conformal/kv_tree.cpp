#include "nn/attention/conformal/kv_tree.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/ops.h"

namespace mobius {

namespace {

constexpr std::int64_t keys_at_once = 512;  // whose features are held at a time
constexpr std::int64_t no_prefix = -1;

std::int64_t lowest_bit(std::int64_t b) { return b & -b; }

// Calls visit(c) for the nodes that node b is the sum of, besides its own block.
template <class Visit>
void for_each_child(std::int64_t b, Visit&& visit) {
  for (std::int64_t c = b - 1; c > b - lowest_bit(b); c -= lowest_bit(c)) visit(c);
}

void require_option(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw Error("key/value tree: expected {} of at least {}, got {}", name, least, value);
}

}  // namespace

// ---- RecentRows

bool RecentRows::can_append(const Tensor& rows) const {
  if (!memory_.defined()) return true;
  Shape shape = memory_.shape();
  shape[2] = rows.size(2);
  return rows.shape() == shape && rows.dtype() == memory_.dtype() &&
         rows.device() == memory_.device();
}

// Rows move to the front only where that frees half of the memory, so they never overlap what they
// were, and each move is paid for by as many appended rows. Memory that a long append needed is
// given back at the next move.
void RecentRows::append(const Tensor& rows, std::int64_t oldest, std::int64_t most) {
  const std::int64_t n_new = rows.size(-2);
  const std::int64_t capacity = memory_.defined() ? memory_.size(-2) : 0;
  if (end_ - begin_ + n_new > capacity) {
    const std::int64_t kept_from = std::clamp(oldest, begin_, end_);
    const std::int64_t n_kept = end_ - kept_from, n_doubled = 2 * (n_kept + n_new);
    Tensor to = memory_;
    if (n_doubled > capacity || 4 * n_doubled <= capacity) {
      Shape shape = rows.shape();
      shape[2] = std::min(n_doubled, most);
      to = Tensor::empty(std::move(shape), rows.dtype(), rows.device());
    }
    if (n_kept > 0) to.slice(-2, 0, n_kept).copy_from(slice(kept_from, end_));
    memory_ = std::move(to);
    begin_ = kept_from;
  }
  memory_.slice(-2, end_ - begin_, end_ - begin_ + n_new).copy_from(rows);
  end_ += n_new;
}

Tensor RecentRows::slice(std::int64_t begin, std::int64_t end) const {
  return memory_.slice(-2, begin - begin_, end - begin_);
}

// ---- ConformalKVTree

KeyFeatures key_features_of(std::shared_ptr<const FarField> far_field) {
  const std::int64_t n_features = far_field->n_features();
  return {n_features, [far_field = std::move(far_field)](const Variable& zeta) {
            return far_field->key_features(zeta);
          }};
}

ConformalKVTree::ConformalKVTree(KeyFeatures features, const KVTreeOptions& options)
    : features_(std::move(features)), options_(options) {
  require_option("a window", options_.window, 1);
  require_option("a block", options_.block, 1);
  require_option("a history", options_.history, 0);
  require_option("max_len", options_.max_len, 1);
  require_option("a number of features", features_.n_features, 1);
}

void ConformalKVTree::require_fitting(const Tensor& zeta, const Tensor& v) const {
  const bool is_pair = zeta.ndim() == 4 && v.ndim() == 4 && zeta.size(0) == v.size(0) &&
                       zeta.size(1) == v.size(1) && zeta.size(2) == v.size(2) &&
                       zeta.dtype() == v.dtype() && zeta.device() == v.device();
  if (is_pair && zeta_.can_append(zeta) && v_.can_append(v)) return;
  throw ShapeError(
      "key/value tree: expected keys [B, G, n, d] and values [B, G, n, d_v] that differ from "
      "earlier ones in n alone, got {} {} and {} {}",
      name_of(zeta.dtype()), to_string(zeta.shape()), name_of(v.dtype()), to_string(v.shape()));
}

void ConformalKVTree::require_reachable(std::int64_t position) const {
  const std::int64_t first = std::max<std::int64_t>(least_length_ - 1, 0);
  if (position < first || position >= length_)
    throw Error("key/value tree: expected a position from {} to {}, got {}", first, length_ - 1,
                position);
}

// Keys that lie before the window of a position.
std::int64_t ConformalKVTree::n_far(std::int64_t position) const {
  return std::max<std::int64_t>(position + 1 - options_.window, 0);
}

// Blocks before the window of every position that can still be asked for. Keys from there on are
// kept.
std::int64_t ConformalKVTree::blocks_before_windows() const {
  return n_far(std::max<std::int64_t>(least_length_ - 1, 0)) / options_.block;
}

// Appends in pieces, so that the memory of a long one does not depend on its length.
void ConformalKVTree::append(const Tensor& zeta, const Tensor& v) {
  require_fitting(zeta, v);
  const std::int64_t n_new = zeta.size(2);
  if (n_new > options_.max_len - length_)
    throw Error("key/value tree: expected at most {} keys, got {} after {}", options_.max_len,
                n_new, length_);
  const NoGradGuard no_grad;
  nodes_appended_ = 0;
  for (std::int64_t begin = 0; begin < n_new; begin += keys_at_once) {
    const std::int64_t end = std::min(begin + keys_at_once, n_new);
    const std::int64_t oldest = blocks_before_windows() * options_.block;
    zeta_.append(zeta.slice(2, begin, end), oldest, options_.max_len);
    v_.append(v.slice(2, begin, end), oldest, options_.max_len);
    length_ += end - begin;
    least_length_ = std::max(least_length_, length_ - options_.history);
    close_blocks();
    forget_nodes();
  }
}

// Returns the features of the keys [begin, end), [B, G, end - begin, m]. If it has to compute them,
// it computes those of the keys up to `at_hand` with them and keeps them: features of many keys at
// once cost little more than those of one.
Tensor ConformalKVTree::features_between(std::int64_t begin, std::int64_t end,
                                         std::int64_t at_hand) {
  if (begin < features_begin_ || end > features_end_) {
    block_features_ = features_.of(Variable(zeta_.slice(begin, at_hand))).data();
    features_begin_ = begin;
    features_end_ = at_hand;
  }
  return block_features_.slice(2, begin - features_begin_, end - features_begin_);
}

// Returns the moments of each of n_blocks blocks, [B, G, n_blocks, m, d_v].
Tensor ConformalKVTree::block_moments(std::int64_t first, std::int64_t n_blocks) {
  const std::int64_t begin = first * options_.block, end = begin + n_blocks * options_.block;
  const Tensor v = v_.slice(begin, end), features = features_between(begin, end, end);
  const auto by_block = [&](const Tensor& x) {
    return x.reshape({x.size(0), x.size(1), n_blocks, options_.block, x.size(3)});
  };
  return matmul(by_block(features).transpose(-1, -2), by_block(v));
}

// Puts into the tree the blocks that the window of the newest position has left behind.
void ConformalKVTree::close_blocks() {
  const std::int64_t n_blocks = n_far(length_ - 1) / options_.block;
  const std::int64_t at_once = std::max<std::int64_t>(keys_at_once / options_.block, 1);
  while (n_closed_ < n_blocks) {
    const std::int64_t n_new = std::min(n_blocks - n_closed_, at_once);
    const Tensor moments = block_moments(n_closed_, n_new);
    for (std::int64_t i = 0; i < n_new; ++i) {
      const std::int64_t b = n_closed_ + i + 1;
      Tensor node = moments.slice(2, i, i + 1).squeeze(2).clone();
      for_each_child(b, [&](std::int64_t c) {
        node.add_(nodes_.at(c));
        ++nodes_appended_;
      });
      nodes_[b] = std::move(node);
      ++nodes_appended_;
    }
    n_closed_ += n_new;
  }
}

// The sum of the first k blocks reads node b for b <= k < b + lowbit(b). So the children of k have
// been read for the last time once no sum of fewer than k blocks can be asked for.
void ConformalKVTree::forget_nodes() {
  for (const std::int64_t n_blocks = blocks_before_windows(); n_forgotten_ < n_blocks;)
    for_each_child(++n_forgotten_, [&](std::int64_t c) { nodes_.erase(c); });
}

void ConformalKVTree::rollback(std::int64_t length) {
  if (length < least_length_ || length > length_)
    throw Error("key/value tree: expected a length from {} to {} to return to, got {}",
                least_length_, length_, length);
  length_ = length;
  zeta_.truncate(length);
  v_.truncate(length);
  n_closed_ = std::min(n_closed_, n_far(length - 1) / options_.block);
  nodes_.erase(nodes_.upper_bound(n_closed_), nodes_.end());
  features_end_ = std::min(features_end_, length);
  if (prefix_keys_ > length) prefix_keys_ = no_prefix;
}

ConformalKVTree::Keys ConformalKVTree::near(std::int64_t position) const {
  require_reachable(position);
  const std::int64_t begin = n_far(position);
  return {.zeta = zeta_.slice(begin, position + 1), .v = v_.slice(begin, position + 1)};
}

// Makes prefix_ the moments of the first n_blocks blocks.
void ConformalKVTree::sum_nodes(std::int64_t n_blocks) {
  prefix_.fill(0);
  for (std::int64_t b = n_blocks; b > 0; b -= lowest_bit(b)) {
    prefix_.add_(nodes_.at(b));
    ++nodes_read_;
  }
  prefix_keys_ = n_blocks * options_.block;
}

// Makes prefix_ one that nobody else looks at, with the same values.
void ConformalKVTree::own_prefix() {
  if (prefix_.defined()) {
    prefix_ = prefix_.clone();
    return;
  }
  const Tensor v = v_.slice(length_ - 1, length_);
  prefix_ =
      Tensor::empty({v.size(0), v.size(1), features_.n_features, v.size(3)}, v.dtype(), v.device());
}

Tensor ConformalKVTree::moments(std::int64_t position) {
  require_reachable(position);
  const NoGradGuard no_grad;
  const std::int64_t n = n_far(position), n_blocks = n / options_.block;
  nodes_read_ = 0;
  if (!prefix_.is_sole_owner()) own_prefix();
  if (prefix_keys_ < n_blocks * options_.block || prefix_keys_ > n) sum_nodes(n_blocks);
  if (prefix_keys_ < n) {
    const bool is_next = prefix_keys_ == n - 1;  // and the rest of the block will probably follow
    const std::int64_t at_hand = is_next ? std::min((n_blocks + 1) * options_.block, length_) : n;
    const Tensor features = features_between(prefix_keys_, n, at_hand);
    prefix_.add_(matmul(features.transpose(-1, -2), v_.slice(prefix_keys_, n)));
    prefix_keys_ = n;
  }
  return prefix_;
}

std::size_t ConformalKVTree::bytes() const {
  std::size_t bytes = zeta_.bytes() + v_.bytes();
  for (const Tensor& sums : {block_features_, prefix_})
    if (sums.defined()) bytes += sums.bytes();
  for (const auto& [b, moments] : nodes_) bytes += moments.bytes();
  return bytes;
}

// ---- ConformalTreeCache

ConformalTreeCache::ConformalTreeCache(std::shared_ptr<const FarField> far_field,
                                       const KVTreeOptions& options)
    : far_field_(std::move(far_field)), tree_(key_features_of(far_field_), options) {}

void ConformalTreeCache::append(const Variable& zeta, const Variable& v) {
  tree_.append(zeta.data(), v.data());
  length_ = tree_.length();
}

void ConformalTreeCache::rollback(std::int64_t length) {
  tree_.rollback(length);
  length_ = tree_.length();
}

}  // namespace mobius
