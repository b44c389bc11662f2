// A ball tree over directions, with sums of values by node: the geometry of certified evaluation
// (nn/attention/conformal/certified.h).
//
// A node covers some keys by a ball of the sphere: a centre and an angle that no key of the node
// exceeds. Angles are in radians, and every bound on an angle includes the rounding of the
// arithmetic in T that found it (docs/MATH.md, section 2, Certified evaluation).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace mobius {

/// An interval that surely contains an angle, within [0, pi].
struct AngleRange {
  double low, high;
};

/// The sum of the values of some keys, and a bound on the sum of their lengths.
struct ValueSum {
  const double* sum;  // [d_v]
  double lengths;     // >= sum_j |v_j|
  std::int64_t n_keys;
};

/// T is the type in which directions are stored and compared: float or double.
template <class T>
class BallTree {
 public:
  struct Node {
    std::int64_t children[2];  // -1 and -1: a leaf
    std::int64_t first_key, n_keys;
    std::int64_t first_sum;
    double radius;  // no key is farther from the centre

    bool is_leaf() const { return children[0] < 0; }
  };

  /// Takes finite keys[n, d], of which only the direction counts, and finite values[n, d_v] up to
  /// 1e200. Keys of length 0 have no direction and are in no node: see undirected().
  BallTree(std::span<const T> keys, std::span<const T> values, std::int64_t n,
           std::int64_t leaf_size);

  std::int64_t n_values() const { return d_v_; }
  bool has_nodes() const { return !nodes_.empty(); }
  /// The root is node 0.
  const Node& node(std::int64_t index) const { return nodes_[static_cast<std::size_t>(index)]; }
  std::int64_t n_nodes() const { return static_cast<std::int64_t>(nodes_.size()); }

  /// Returns the direction of x[d] in the form of angle_to_*(); empty if its length is 0.
  std::vector<T> direction(std::span<const T> x) const;
  /// Returns an interval that contains the angle of a direction() to every key of a node.
  AngleRange angle_to_node(std::span<const T> direction, std::int64_t index) const;
  AngleRange angle_to_key(std::span<const T> direction, std::int64_t key) const;

  /// Returns the keys of the node, in ascending order.
  std::span<const std::int32_t> keys_of(const Node& node) const;
  /// Returns the keys that have no direction, in ascending order.
  std::span<const std::int32_t> undirected() const { return undirected_; }

  /// Returns the sum over the first n_keys > 0 keys of a node. `room`[d_v] takes the sum if it is
  /// not stored.
  ValueSum sum_of(const Node& node, std::int64_t n_keys, std::vector<double>& room) const;
  ValueSum sum_of_key(std::int64_t key) const;
  /// As sum_of(), over the first n_keys > 0 keys of undirected().
  ValueSum sum_of_undirected(std::int64_t n_keys, std::vector<double>& room) const;

 private:
  using Keys = std::vector<std::int32_t>;

  std::int64_t build(const Keys& keys);
  void set_ball(Node& node, const Keys& keys);
  void add_sums(Node& node, const Keys& keys);
  std::pair<Keys, Keys> halves(const Keys& keys) const;
  std::vector<T> mean_of(const Keys& keys) const;
  std::vector<T> principal_direction(const Keys& keys) const;
  void add_values(std::span<const std::int32_t> keys, std::vector<double>& sum,
                  double& lengths) const;
  AngleRange widened(double angle, double radius) const;
  const T* key(std::int64_t index) const { return keys_.data() + index * width_; }
  const T* centre(std::int64_t node) const { return centres_.data() + node * width_; }

  std::int64_t d_, d_v_, leaf_size_;
  std::int64_t width_;                // of a stored direction: d, padded with zeros
  double angle_error_, angle_slope_;  // an angle is off by angle_error_ + angle_slope_ angle
  std::vector<T> keys_, centres_;     // unit vectors, [n, width], [n_nodes, width]
  std::vector<double> values_;        // [n, d_v]
  std::vector<double> lengths_;       // of values, rounded up, [n]
  std::vector<Node> nodes_;
  Keys order_;  // the keys of every node, one node after the other
  Keys undirected_;
  std::vector<double> sums_, sum_lengths_;  // prefix sums of every node, [n_sums, d_v], [n_sums]
};

/// |x| without overflow or underflow, to a few roundings.
double scaled_length(std::span<const double> x);

}  // namespace mobius
