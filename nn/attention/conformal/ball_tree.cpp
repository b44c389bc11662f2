#include "nn/attention/conformal/ball_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>

#include "core/error.h"

namespace mobius {

namespace {

constexpr std::int64_t n_lanes = 8;      // partial sums of a product, which also halve its rounding
constexpr std::int64_t sum_stride = 16;  // keys between two stored prefix sums
constexpr double two_roundings = std::numeric_limits<double>::epsilon();
constexpr double largest_value = 1e200;

// The type that normalises: its rounding must not show in T.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
double rounding_of = static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;

template <class T>
T sum_of_lanes(const T (&lanes)[n_lanes]) {
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// The angle between unit vectors, accurate for all angles (Kahan): 2 atan(|a - b| / |a + b|).
template <class T>
double angle_between(const T* a, const T* b, std::int64_t width) {
  T apart[n_lanes] = {}, together[n_lanes] = {};
  for (std::int64_t i = 0; i < width; i += n_lanes) {
    for (std::int64_t lane = 0; lane < n_lanes; ++lane) {
      const T difference = a[i + lane] - b[i + lane], sum = a[i + lane] + b[i + lane];
      apart[lane] += difference * difference;
      together[lane] += sum * sum;
    }
  }
  return 2 * std::atan2(std::sqrt(static_cast<double>(sum_of_lanes(apart))),
                        std::sqrt(static_cast<double>(sum_of_lanes(together))));
}

template <class T>
T lane_product(const T* a, const T* b, std::int64_t width) {
  T lanes[n_lanes] = {};
  for (std::int64_t i = 0; i < width; i += n_lanes)
    for (std::int64_t lane = 0; lane < n_lanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  return sum_of_lanes(lanes);
}

// Writes x / |x| and returns whether x has a direction. The scale cancels, and keeps squares in
// range.
template <class T>
bool unit_vector(const T* x, std::int64_t d, T* out) {
  using W = Wide<T>;
  W largest = 0, squares = 0;
  for (std::int64_t i = 0; i < d; ++i) largest = std::max(largest, std::abs(static_cast<W>(x[i])));
  if (largest == 0) return false;
  for (std::int64_t i = 0; i < d; ++i) {
    const W scaled = static_cast<W>(x[i]) / largest;
    squares += scaled * scaled;
  }
  const W length = std::sqrt(squares);
  for (std::int64_t i = 0; i < d; ++i)
    out[i] = static_cast<T>(static_cast<W>(x[i]) / largest / length);
  return true;
}

template <class T>
void require_bounded(std::span<const T> x, const char* what, double limit) {
  for (const T element : x) {
    if (!(std::abs(static_cast<double>(element)) <= limit))
      throw Error("certified attention: {} hold {}; expected numbers up to {}", what,
                  static_cast<double>(element), limit);
  }
}

}  // namespace

double scaled_length(std::span<const double> x) {
  double largest = 0, squares = 0;
  for (const double element : x) largest = std::max(largest, std::abs(element));
  if (largest == 0) return 0;
  for (const double element : x) squares += (element / largest) * (element / largest);
  return largest * std::sqrt(squares);
}

template <class T>
BallTree<T>::BallTree(std::span<const T> keys, std::span<const T> values, std::int64_t n,
                      std::int64_t leaf_size)
    : d_(n == 0 ? 0 : static_cast<std::int64_t>(keys.size()) / n),
      d_v_(n == 0 ? 0 : static_cast<std::int64_t>(values.size()) / n),
      leaf_size_(leaf_size),
      width_((d_ + n_lanes - 1) / n_lanes * n_lanes),
      keys_(static_cast<std::size_t>(n * width_)),
      values_(values.begin(), values.end()) {
  // The terms are derived in docs/MATH.md, section 2, Certified evaluation. Two directions are each
  // off by one rounding, and their lengths by another and by that of the type that normalises.
  const auto d = static_cast<double>(d_);
  angle_error_ = 5 * rounding_of<T> + 3 * (d + 8) * rounding_of<Wide<T>>;
  angle_slope_ = (d / n_lanes + 24) * rounding_of<T>;

  require_bounded(keys, "keys", static_cast<double>(std::numeric_limits<T>::max()));
  require_bounded(values, "values", largest_value);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::span<const double> value = std::span(values_).subspan(
        static_cast<std::size_t>(j * d_v_), static_cast<std::size_t>(d_v_));
    lengths_.push_back(scaled_length(value) *
                       (1 + (static_cast<double>(d_v_) + 8) * two_roundings));
  }
  Keys directed;
  for (std::int64_t j = 0; j < n; ++j) {
    const bool has_direction = unit_vector(keys.data() + j * d_, d_, keys_.data() + j * width_);
    (has_direction ? directed : undirected_).push_back(static_cast<std::int32_t>(j));
  }
  if (!directed.empty()) build(directed);
}

template <class T>
std::int64_t BallTree<T>::build(const Keys& keys) {
  const auto index = n_nodes();
  const auto n_keys = static_cast<std::int64_t>(keys.size());
  Node node{.children = {-1, -1},
            .first_key = static_cast<std::int64_t>(order_.size()),
            .n_keys = n_keys,
            .first_sum = static_cast<std::int64_t>(sum_lengths_.size()),
            .radius = 0};
  order_.insert(order_.end(), keys.begin(), keys.end());
  set_ball(node, keys);
  add_sums(node, keys);
  nodes_.push_back(node);
  if (n_keys <= leaf_size_) return index;

  const auto [left, right] = halves(keys);
  const std::int64_t children[2] = {build(left), build(right)};
  std::copy_n(children, 2, nodes_[static_cast<std::size_t>(index)].children);
  return index;
}

// The direction of the mean is the centre. Keys that cancel have none, and then any key will do.
template <class T>
void BallTree<T>::set_ball(Node& node, const Keys& keys) {
  std::vector<T> centre(static_cast<std::size_t>(width_));
  if (!unit_vector(mean_of(keys).data(), width_, centre.data()))
    std::copy_n(key(keys.front()), width_, centre.begin());
  for (const std::int32_t j : keys) {
    const double angle = angle_between(centre.data(), key(j), width_);
    node.radius = std::max(node.radius, widened(angle, 0).high);
  }
  centres_.insert(centres_.end(), centre.begin(), centre.end());
}

template <class T>
void BallTree<T>::add_sums(Node& node, const Keys& keys) {
  std::vector<double> sum(static_cast<std::size_t>(d_v_));
  double lengths = 0;
  for (std::size_t first = 0; first < keys.size(); first += sum_stride) {
    const std::size_t n_more = std::min<std::size_t>(sum_stride, keys.size() - first);
    add_values(std::span(keys).subspan(first, n_more), sum, lengths);
    sums_.insert(sums_.end(), sum.begin(), sum.end());
    sum_lengths_.push_back(lengths * (1 + (static_cast<double>(node.n_keys) + 4) * two_roundings));
  }
}

template <class T>
void BallTree<T>::add_values(std::span<const std::int32_t> keys, std::vector<double>& sum,
                             double& lengths) const {
  for (const std::int32_t j : keys) {
    const double* const value = values_.data() + j * d_v_;
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += value[c];
    lengths += lengths_[static_cast<std::size_t>(j)];
  }
}

template <class T>
std::vector<T> BallTree<T>::mean_of(const Keys& keys) const {
  std::vector<double> sum(static_cast<std::size_t>(width_));
  for (const std::int32_t j : keys)
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(key(j)[c]);
  std::vector<T> mean(sum.size());
  for (std::size_t c = 0; c < sum.size(); ++c)
    mean[c] = static_cast<T>(sum[c] / static_cast<double>(keys.size()));
  return mean;
}

// A few steps of the power method on the covariance, from the key farthest from the mean. A good
// guess is enough: any split is valid.
template <class T>
std::vector<T> BallTree<T>::principal_direction(const Keys& keys) const {
  constexpr int n_steps = 4;
  const std::vector<T> mean = mean_of(keys);
  const auto farthest =
      std::max_element(keys.begin(), keys.end(), [&](std::int32_t a, std::int32_t b) {
        return lane_product(key(a), mean.data(), width_) >
               lane_product(key(b), mean.data(), width_);
      });
  std::vector<T> axis(mean.size()), next(mean.size()), centred(mean.size());
  for (std::size_t c = 0; c < axis.size(); ++c) axis[c] = key(*farthest)[c] - mean[c];
  for (int step = 0; step < n_steps && unit_vector(axis.data(), width_, axis.data()); ++step) {
    std::fill(next.begin(), next.end(), T{0});
    for (const std::int32_t j : keys) {
      for (std::size_t c = 0; c < centred.size(); ++c) centred[c] = key(j)[c] - mean[c];
      const T along = lane_product(centred.data(), axis.data(), width_);
      for (std::size_t c = 0; c < next.size(); ++c) next[c] += along * centred[c];
    }
    axis.swap(next);
  }
  return axis;
}

// Splits at the median along the principal direction. Both halves keep the order of the keys.
template <class T>
auto BallTree<T>::halves(const Keys& keys) const -> std::pair<Keys, Keys> {
  const std::vector<T> axis = principal_direction(keys);
  std::vector<std::pair<T, std::int32_t>> along;
  for (const std::int32_t j : keys)
    along.emplace_back(lane_product(key(j), axis.data(), width_), j);
  std::vector<std::pair<T, std::int32_t>> ranked = along;
  const auto middle = ranked.begin() + static_cast<std::ptrdiff_t>(ranked.size() / 2);
  std::nth_element(ranked.begin(), middle, ranked.end());
  std::pair<Keys, Keys> halves;
  for (const auto& entry : along)
    (entry < *middle ? halves.first : halves.second).push_back(entry.second);
  return halves;
}

template <class T>
std::vector<T> BallTree<T>::direction(std::span<const T> x) const {
  require_bounded(x, "queries", static_cast<double>(std::numeric_limits<T>::max()));
  std::vector<T> direction(static_cast<std::size_t>(width_));
  if (!unit_vector(x.data(), d_, direction.data())) direction.clear();
  return direction;
}

template <class T>
AngleRange BallTree<T>::widened(double angle, double radius) const {
  const double reach = radius + angle_error_ + angle_slope_ * (angle + radius);
  return {std::max(0.0, angle - reach), std::min(std::numbers::pi, angle + reach)};
}

template <class T>
AngleRange BallTree<T>::angle_to_node(std::span<const T> direction, std::int64_t index) const {
  return widened(angle_between(direction.data(), centre(index), width_), node(index).radius);
}

template <class T>
AngleRange BallTree<T>::angle_to_key(std::span<const T> direction, std::int64_t key_index) const {
  return widened(angle_between(direction.data(), key(key_index), width_), 0);
}

template <class T>
std::span<const std::int32_t> BallTree<T>::keys_of(const Node& node) const {
  return std::span(order_).subspan(static_cast<std::size_t>(node.first_key),
                                   static_cast<std::size_t>(node.n_keys));
}

template <class T>
ValueSum BallTree<T>::sum_of(const Node& node, std::int64_t n_keys,
                             std::vector<double>& room) const {
  const std::int64_t n_stored =
      n_keys == node.n_keys ? (n_keys + sum_stride - 1) / sum_stride : n_keys / sum_stride;
  const std::int64_t n_summed = std::min(n_stored * sum_stride, node.n_keys);
  const double* stored = nullptr;
  double lengths = 0;
  if (n_stored > 0) {
    const std::int64_t last = node.first_sum + n_stored - 1;
    stored = sums_.data() + last * d_v_;
    lengths = sum_lengths_[static_cast<std::size_t>(last)];
    if (n_summed == n_keys) return {stored, lengths, n_keys};
  }
  room.assign(static_cast<std::size_t>(d_v_), 0);
  if (n_stored > 0) std::copy_n(stored, d_v_, room.begin());
  add_values(keys_of(node).subspan(static_cast<std::size_t>(n_summed),
                                   static_cast<std::size_t>(n_keys - n_summed)),
             room, lengths);
  return {room.data(), lengths * (1 + (sum_stride + 4) * two_roundings), n_keys};
}

template <class T>
ValueSum BallTree<T>::sum_of_key(std::int64_t key) const {
  return {values_.data() + key * d_v_, lengths_[static_cast<std::size_t>(key)], 1};
}

template <class T>
ValueSum BallTree<T>::sum_of_undirected(std::int64_t n_keys, std::vector<double>& room) const {
  room.assign(static_cast<std::size_t>(d_v_), 0);
  double lengths = 0;
  add_values(undirected().first(static_cast<std::size_t>(n_keys)), room, lengths);
  return {room.data(), lengths * (1 + (static_cast<double>(n_keys) + 4) * two_roundings), n_keys};
}

template class BallTree<float>;
template class BallTree<double>;

}  // namespace mobius
