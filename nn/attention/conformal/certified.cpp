#include "nn/attention/conformal/certified.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <queue>
#include <span>
#include <variant>

#include "core/error.h"
#include "nn/attention/conformal/ball_tree.h"

namespace mobius {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double smallest = std::numeric_limits<double>::min();
constexpr double eps = std::numeric_limits<double>::epsilon();  // twice the rounding of a result
constexpr double largest_log_weight = 80;                       // of analytic weights
constexpr double safe_exponent = 600;                           // e^600 leaves room for values

// e^x, rounded surely down or up, for an x that is itself a difference rounded once.
double exp_below(double x) { return x < -700 ? 0 : std::exp(x) * (1 - (std::abs(x) + 8) * eps); }
double exp_above(double x) { return std::exp(x) * (1 + (std::abs(x) + 8) * eps) + smallest; }

struct LogRange {
  double low, high;
};

// The logarithm of a weight as an interval.
class LogWeight {
 public:
  LogWeight(const CertifiedWeight& weight, double log_divisor)
      : weight_(weight),
        cap_(weight.normalize == ConformalNormalize::analytic ? largest_log_weight + log_divisor
                                                              : infinite) {}

  LogRange at(AngleRange angle) const { return between(versine(angle.low), versine(angle.high)); }
  // u = 0, exactly.
  LogRange at_right_angle() const { return between(1, 1); }

 private:
  // 1 - u without cancellation, where u is the cosine of the angle.
  static double versine(double angle) {
    if (angle >= std::numbers::pi) return 2;
    const double half_chord = std::sin(angle / 2);
    return 2 * half_chord * half_chord;
  }
  double log_at(double one_minus_u) const {
    const double x = weight_.rate * one_minus_u;
    return weight_.exponent == 0 ? -x : -weight_.exponent * std::log1p(x);
  }
  // All steps are products, quotients and log1p of positive numbers, so that about 16 roundings
  // bound the relative error; 24 eps are 48.
  LogRange between(double nearest, double farthest) const {
    LogRange range{log_at(farthest) * (1 + 24 * eps), log_at(nearest) * (1 - 24 * eps)};
    if (cap_ == infinite) return range;
    const double slack = 4 * eps * (std::abs(weight_.log_mean) + largest_log_weight + 64);
    return {std::min(range.low, cap_ - slack), std::min(range.high, cap_ + slack)};
  }

  CertifiedWeight weight_;
  double cap_;
};

// Keys whose weights share an interval: those of a node that are visible, or one key.
struct Piece {
  LogRange log_weight;
  ValueSum values;
  std::int64_t node;  // -1: cannot be expanded
};

// The sums over all pieces, in units of exp(log_unit).
struct PieceSums {
  double log_unit;
  std::vector<double> numerator;
  double numerator_bound;
  double denominator_low, denominator_high;
};

// Every weight of a piece lies within `half` of `middle`, in units of exp(log_unit).
struct WeightRange {
  double low, high;
  double middle() const { return (low + high) / 2; }
  double half() const { return (high - low) / 2; }
};

WeightRange in_units_of(double log_unit, const LogRange& log_weight) {
  return {exp_below(log_weight.low - log_unit), exp_above(log_weight.high - log_unit)};
}

// Adds up from the start whatever was known before: nothing cancels, and the error is bounded by
// the sum of all lengths.
PieceSums add_up(const std::vector<Piece>& pieces, std::int64_t d_v) {
  double log_unit = -infinite;
  for (const Piece& piece : pieces) log_unit = std::max(log_unit, piece.log_weight.high);
  PieceSums sums{log_unit, std::vector<double>(static_cast<std::size_t>(d_v)), 0, 0, 0};
  const auto n_pieces = static_cast<double>(pieces.size());
  double uncertain = 0, rounding = 0, mass = 0, n_terms = n_pieces + 1;
  for (const auto& [log_weight, values, node] : pieces) {
    const WeightRange weight = in_units_of(log_unit, log_weight);
    const double middle = weight.middle();
    for (std::size_t c = 0; c < sums.numerator.size(); ++c)
      sums.numerator[c] += middle * values.sum[c];
    const auto n_keys = static_cast<double>(values.n_keys);
    const double heaviest = weight.high * values.lengths;
    uncertain += weight.half() * values.lengths;
    mass += heaviest;
    n_terms += n_keys;
    rounding += heaviest * (n_keys + n_pieces + 16);
    sums.denominator_low += weight.low * n_keys;
    sums.denominator_high += weight.high * n_keys;
  }
  const double underflow = mass > 0 ? n_terms * static_cast<double>(d_v + 1) * smallest : 0;
  const double inflation = 1 + (n_pieces + 8) * eps;
  sums.numerator_bound = (uncertain + rounding * eps) * inflation + underflow;
  sums.denominator_low /= inflation;
  sums.denominator_high *= inflation;
  return sums;
}

// The part of a sum's uncertainty that expanding a piece can remove.
struct Uncertainty {
  double numerator = 0, denominator = 0;

  Uncertainty& operator+=(const Uncertainty& other) {
    numerator += other.numerator;
    denominator += other.denominator;
    return *this;
  }
  Uncertainty& operator-=(const Uncertainty& other) {
    return *this += {-other.numerator, -other.denominator};
  }
};

// One query's best-first search.
template <class T>
class CertifiedSearch {
 public:
  /// The query sees n_visible > 0 keys.
  CertifiedSearch(const BallTree<T>& tree, const CertifiedQuery& query, std::int64_t n_visible)
      : tree_(tree),
        query_(query),
        n_visible_(n_visible),
        divides_by_sum_(query.weight.normalize == ConformalNormalize::empirical),
        log_divisor_(query.weight.normalize == ConformalNormalize::analytic
                         ? query.weight.log_mean + std::log(static_cast<double>(n_visible))
                         : 0),
        log_weight_(query.weight, log_divisor_),
        direction_(tree.direction(
            {query.direction.data<T>(), static_cast<std::size_t>(query.direction.numel())})) {}

  CertifiedOutput run() {
    begin();
    refresh();
    while (!has_converged()) {
      if (queue_.empty()) return finished(CertifiedEnd::precision);
      if (result_.nodes_visited + 2 > query_.node_budget) return finished(CertifiedEnd::budget);
      expand(widest());
      if (is_due()) refresh();
    }
    return finished(CertifiedEnd::converged);
  }

 private:
  void begin() {
    const std::int64_t n_undirected = n_seen(tree_.undirected());
    if (n_undirected > 0) {
      const ValueSum values = tree_.sum_of_undirected(n_undirected, new_room());
      pieces_.push_back({log_weight_.at_right_angle(), values, -1});
    }
    if (tree_.has_nodes()) {
      const std::optional<Piece> root = visit(0, {-infinite, infinite});
      if (root) pieces_.push_back(*root);
    }
    for (const Piece& piece : pieces_) mean_length_ += piece.values.lengths;
    mean_length_ /= static_cast<double>(n_visible_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) enqueue(i);
  }

  // Of ascending keys.
  std::int64_t n_seen(std::span<const std::int32_t> keys) const {
    return std::lower_bound(keys.begin(), keys.end(), n_visible_) - keys.begin();
  }
  std::vector<double>& new_room() { return rooms_.emplace_back(); }

  // Returns the visible keys of a node, if there are any. `known` holds for all of them, too.
  std::optional<Piece> visit(std::int64_t index, const LogRange& known) {
    const auto& node = tree_.node(index);
    const std::int64_t n_keys = n_seen(tree_.keys_of(node));
    if (n_keys == 0) return {};
    ++result_.nodes_visited;
    const LogRange log_weight = direction_.empty()
                                    ? log_weight_.at_right_angle()
                                    : log_weight_.at(tree_.angle_to_node(direction_, index));
    return Piece{intersection(log_weight, known), tree_.sum_of(node, n_keys, new_room()), index};
  }

  static LogRange intersection(const LogRange& a, const LogRange& b) {
    return {std::max(a.low, b.low), std::min(a.high, b.high)};
  }

  // A key's own interval is as narrow as it gets, and so is that of a query without a direction.
  void enqueue(std::size_t index) {
    const Piece& piece = pieces_[index];
    const double rank = log_uncertainty(piece);
    if (piece.node >= 0 && !direction_.empty() && rank > -infinite) queue_.push({rank, index});
  }

  // A divisor that is a sum leaves uncertain not v_j but v_j - out, whose length is about that of
  // a mean value more.
  double log_uncertainty(const Piece& piece) const {
    const auto& [low, high] = piece.log_weight;
    const double more =
        divides_by_sum_ ? mean_length_ * static_cast<double>(piece.values.n_keys) : 0;
    return high + std::log(-std::expm1(low - high)) + std::log(piece.values.lengths + more);
  }

  std::size_t widest() {
    const std::size_t index = queue_.top().piece;
    queue_.pop();
    return index;
  }

  // Replaces a piece by its parts, the first of which takes its place.
  void expand(std::size_t index) {
    is_stale_ = true;
    change_open(pieces_[index], -1);
    const std::vector<Piece> parts = parts_of(pieces_[index]);
    for (const Piece& part : parts) {
      const bool is_first = &part == &parts.front();
      const std::size_t place = is_first ? index : pieces_.size();
      if (!is_first) pieces_.emplace_back();
      pieces_[place] = part;
      change_open(part, 1);
      enqueue(place);
    }
  }

  std::vector<Piece> parts_of(const Piece& whole) {
    std::vector<Piece> parts;
    const auto& node = tree_.node(whole.node);
    if (!node.is_leaf()) {
      for (const std::int64_t child : node.children)
        if (const std::optional<Piece> part = visit(child, whole.log_weight))
          parts.push_back(*part);
      return parts;
    }
    ++result_.leaves_expanded;
    result_.keys_evaluated += whole.values.n_keys;
    for (const std::int32_t key :
         tree_.keys_of(node).first(static_cast<std::size_t>(whole.values.n_keys))) {
      const LogRange log_weight = log_weight_.at(tree_.angle_to_key(direction_, key));
      parts.push_back(
          {intersection(log_weight, whole.log_weight), tree_.sum_of_key(key), /*node=*/-1});
    }
    return parts;
  }

  // ---- what the pieces say

  bool has_converged() const { return result_.relative_bound <= query_.epsilon; }

  // Sums are found anew where the running estimate of the bound says that it is good enough, and
  // where there is much new. The certificate never rests on the estimate.
  bool is_due() const {
    const std::size_t n = pieces_.size();
    if (n > n_summed_ + n_summed_ / 2) return true;
    return n >= n_summed_ + n_summed_ / 20 && estimated_bound() <= query_.epsilon;
  }

  void change_open(const Piece& piece, double sign) {
    const double half = sign * in_units_of(sums_.log_unit, piece.log_weight).half();
    open_numerator_ += half * piece.values.lengths;
    open_denominator_ += half * static_cast<double>(piece.values.n_keys);
  }

  double estimated_bound() const {
    const double numerator = scaled_length(sums_.numerator);
    const double out = 2 * numerator / (sums_.denominator_low + sums_.denominator_high);
    return (open_numerator_ + (divides_by_sum_ ? out * open_denominator_ : 0)) / numerator;
  }

  void refresh() {
    sums_ = add_up(pieces_, tree_.n_values());
    n_summed_ = pieces_.size();
    is_stale_ = false;
    open_numerator_ = open_denominator_ = 0;
    for (const Piece& piece : pieces_) change_open(piece, 1);
    result_.numerator_bound = sums_.numerator_bound;
    result_.log_unit = sums_.log_unit;
    divides_by_sum_ ? divide_by_sum() : divide_by_constant();

    const double length_error = (static_cast<double>(tree_.n_values()) + 8) * eps;
    const double length = scaled_length(result_.out) * (1 - length_error);
    result_.relative_bound = result_.bound == 0 ? 0 : result_.bound / length * (1 + 2 * eps);
  }

  // For a numerator N' and a denominator D' near N and D: N/D - N'/D' = (N - N' - N/D (D - D')) /
  // D' in length is at most (|N - N'| + |N/D| |D - D'|) / D'.
  void divide_by_sum() {
    const double low = sums_.denominator_low, high = sums_.denominator_high;
    const double middle = (low + high) / 2;
    result_.out = sums_.numerator;
    for (double& element : result_.out) element /= middle;
    const double length = scaled_length(result_.out) * (1 + rounding_of_length());
    const double deviation =
        (sums_.numerator_bound + length * ((high - low) / 2 + 4 * eps * high)) * (1 + 8 * eps);
    if (deviation == 0)
      result_.bound = 0;
    else
      result_.bound = low > 0 ? deviation / low * (1 + 2 * eps) + smallest : infinite;
    result_.log_scale = 0;
    result_.log_denominator_low = surely(sums_.log_unit + std::log(low), -1);
    result_.log_denominator_high = surely(sums_.log_unit + std::log(high), 1);
  }

  void divide_by_constant() {
    const double log_factor = sums_.log_unit - log_divisor_;
    const bool fits = std::abs(log_factor) <= safe_exponent;
    const double factor = fits ? std::exp(log_factor) : 1;
    result_.out = sums_.numerator;
    for (double& element : result_.out) element *= factor;
    result_.log_scale = fits ? 0 : log_factor;
    const double length = scaled_length(sums_.numerator) * (1 + rounding_of_length());
    // The logarithm of a number of keys is below 22.
    const double rounding =
        (std::abs(log_factor) + std::abs(log_divisor_) + std::abs(query_.weight.log_mean) + 64) *
        eps;
    const double deviation = sums_.numerator_bound + (length + sums_.numerator_bound) * rounding;
    result_.bound = deviation == 0 ? 0 : deviation * factor * (1 + 8 * eps) + smallest;
    result_.log_denominator_low = result_.log_denominator_high = log_divisor_;
  }

  double rounding_of_length() const { return (static_cast<double>(tree_.n_values()) + 8) * eps; }
  // Moves the logarithm x of a sum past its rounding.
  double surely(double x, double sign) const {
    return x + sign * (std::abs(x) + std::abs(sums_.log_unit) + 8) * 4 * eps;
  }

  CertifiedOutput finished(CertifiedEnd end) {
    if (is_stale_) refresh();
    result_.end = has_converged() ? CertifiedEnd::converged : end;
    return std::move(result_);
  }

  struct Ranked {
    double rank;
    std::size_t piece;
    bool operator<(const Ranked& other) const {
      return rank != other.rank ? rank < other.rank : piece > other.piece;
    }
  };

  const BallTree<T>& tree_;
  const CertifiedQuery& query_;
  std::int64_t n_visible_;
  bool divides_by_sum_;
  double log_divisor_;
  LogWeight log_weight_;
  std::vector<T> direction_;  // empty: there is none

  std::vector<Piece> pieces_;
  std::vector<std::vector<double>> rooms_;  // for sums that the tree does not store
  std::priority_queue<Ranked> queue_;
  double mean_length_ = 0;
  PieceSums sums_{};
  std::size_t n_summed_ = 0;  // pieces in sums_
  bool is_stale_ = false;     // whether a piece was expanded since
  double open_numerator_ = 0, open_denominator_ = 0;
  CertifiedOutput result_{};
};

void require_operands(const Tensor& keys, const Tensor& values, std::int64_t leaf_size) {
  const bool fit = keys.ndim() == 2 && values.ndim() == 2 && keys.size(0) == values.size(0) &&
                   keys.size(1) > 0 && values.size(1) > 0;
  if (!fit) {
    throw ShapeError("certified attention: keys {} and values {}; expected [n, d] and [n, d_v]",
                     to_string(keys.shape()), to_string(values.shape()));
  }
  const bool is_real = keys.dtype() == DType::f32 || keys.dtype() == DType::f64;
  if (!is_real || values.dtype() != keys.dtype()) {
    throw Error("certified attention: keys of {} and values of {}; expected both f32 or both f64",
                name_of(keys.dtype()), name_of(values.dtype()));
  }
  if (keys.size(0) > std::numeric_limits<std::int32_t>::max())
    throw Error("certified attention: {} keys; at most 2^31 - 1 fit", keys.size(0));
  if (leaf_size < 1) throw Error("certified attention: leaf_size {}; expected >= 1", leaf_size);
}

void require_query(const CertifiedQuery& query, std::int64_t d, DType dtype) {
  if (query.direction.shape() != Shape{d}) {
    throw ShapeError("certified attention: a query {} for keys of {} dimensions",
                     to_string(query.direction.shape()), d);
  }
  if (query.direction.dtype() != dtype) {
    throw Error("certified attention: a query of {} for keys of {}",
                name_of(query.direction.dtype()), name_of(dtype));
  }
  const auto& [rate, exponent, normalize, log_mean] = query.weight;
  if (!(rate >= 0 && rate <= 1e300 && exponent >= 0 && exponent <= 1e300 &&
        std::isfinite(log_mean)))
    throw Error("certified attention: rate {}, exponent {}, log_mean {}; expected finite, and >= 0",
                rate, exponent, log_mean);
  if (query.n_visible < 0 || !(query.epsilon >= 0) || query.node_budget < 1) {
    throw Error(
        "certified attention: n_visible {}, epsilon {}, node_budget {}; expected >= 0, >= 0 "
        "and >= 1",
        query.n_visible, query.epsilon, query.node_budget);
  }
}

template <class T>
BallTree<T> tree_of(const Tensor& keys, const Tensor& values, std::int64_t leaf_size) {
  const auto elements = [](const Tensor& x) {
    return std::span<const T>(x.data<T>(), static_cast<std::size_t>(x.numel()));
  };
  return BallTree<T>(elements(keys), elements(values), keys.size(0), leaf_size);
}

}  // namespace

class CertifiedAttention::Trees {
 public:
  using Any = std::variant<BallTree<float>, BallTree<double>>;

  Trees(const Tensor& keys, const Tensor& values, std::int64_t leaf_size)
      : n(keys.size(0)),
        d(keys.size(1)),
        d_v(values.size(1)),
        dtype(keys.dtype()),
        tree(dtype == DType::f32 ? Any(tree_of<float>(keys, values, leaf_size))
                                 : Any(tree_of<double>(keys, values, leaf_size))) {}

  std::int64_t n, d, d_v;
  DType dtype;
  Any tree;
};

CertifiedAttention::CertifiedAttention(const Tensor& keys, const Tensor& values,
                                       std::int64_t leaf_size) {
  require_operands(keys, values, leaf_size);
  trees_ = std::make_unique<Trees>(keys.to(Device{}).contiguous(), values.to(Device{}).contiguous(),
                                   leaf_size);
}
CertifiedAttention::~CertifiedAttention() = default;
CertifiedAttention::CertifiedAttention(CertifiedAttention&&) noexcept = default;
CertifiedAttention& CertifiedAttention::operator=(CertifiedAttention&&) noexcept = default;

CertifiedOutput CertifiedAttention::evaluate(const CertifiedQuery& query) const {
  require_query(query, trees_->d, trees_->dtype);
  CertifiedQuery on_host = query;
  on_host.direction = query.direction.to(Device{}).contiguous();
  const std::int64_t n_visible = std::min(query.n_visible, trees_->n);
  return std::visit(
      [&]<class T>(const BallTree<T>& tree) {
        if (n_visible > 0) return CertifiedSearch<T>(tree, on_host, n_visible).run();
        CertifiedOutput nothing{};
        nothing.out.resize(static_cast<std::size_t>(trees_->d_v));
        nothing.log_unit = nothing.log_denominator_low = nothing.log_denominator_high = -infinite;
        return nothing;
      },
      trees_->tree);
}

std::int64_t CertifiedAttention::n_keys() const { return trees_->n; }

std::int64_t CertifiedAttention::n_nodes() const {
  return std::visit([](const auto& tree) { return tree.n_nodes(); }, trees_->tree);
}

CertifiedWeight certified_softmax(double beta) {
  if (!(beta >= 0 && beta <= 1e300))
    throw Error("certified attention: beta {}; expected a number in [0, 1e300]", beta);
  return {.rate = beta, .exponent = 0, .normalize = ConformalNormalize::empirical};
}

CertifiedWeight certified_conformal(double radius, const ConformalKernel& kernel,
                                    ConformalNormalize normalize) {
  if (!(radius >= 0 && radius < 1))
    throw Error("certified attention: radius {}; expected a number in [0, 1)", radius);
  const double one_minus_r = 1 - radius;
  CertifiedWeight weight{.rate = 2 * radius / (one_minus_r * one_minus_r),
                         .exponent = kernel.s,
                         .normalize = normalize};
  if (normalize != ConformalNormalize::analytic) return weight;
  const Variable r(Tensor::full({1}, radius, DType::f64));
  const Variable distance(Tensor::full({1}, one_minus_r, DType::f64));
  weight.log_mean = log_normalizer({.r = r, .one_minus_r = distance}, kernel).item();
  return weight;
}

}  // namespace mobius
