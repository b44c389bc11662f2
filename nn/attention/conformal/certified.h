// Certified evaluation of attention: an output with a bound on its error, from a part of the keys.
//
//   out = sum_j w(u_j) v_j / divisor,   u_j the cosine of the angle between query and key j
//
// A ball tree over the keys gives an interval of u for all keys of a node, and with it an interval
// of their weights. The search expands the node whose weights are most uncertain until the sum is
// known well enough. The bound is a certificate: it holds for every input, rounding included, where
// the exact output is what real arithmetic makes of the given numbers (docs/MATH.md, section 2). In
// a thread that treats subnormal numbers as 0, such inputs are 0.
//
// For analysis, on the host. Only the directions of queries and keys count. A key of length 0 has
// u = 0 with every query, and so has a query of length 0 with every key.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "nn/attention/conformal/conformal.h"

namespace mobius {

/// A weight that falls with 1 - u, and what divides the sum:
///   log w = -rate (1 - u)                   if exponent is 0
///   log w = -exponent log1p(rate (1 - u))   else
struct CertifiedWeight {
  double rate;
  double exponent;
  ConformalNormalize normalize;
  /// Only for analytic: the divisor is exp(log_mean) times the number of visible keys. This number
  /// counts as exact. The logarithm of a divided weight is capped at 80.
  double log_mean = 0;
};

/// exp(beta (u - 1)), divided by its sum: softmax over beta u. 0 <= beta <= 1e300.
CertifiedWeight certified_softmax(double beta);
/// Kt(r, u) = K(r, u) / K(r, 1) of a query of radius r in [0, 1).
CertifiedWeight certified_conformal(double radius, const ConformalKernel& kernel,
                                    ConformalNormalize normalize);

struct CertifiedQuery {
  Tensor direction;  // [d], of the type of the keys
  CertifiedWeight weight;
  /// The query sees the first n_visible keys; by default all.
  std::int64_t n_visible = std::numeric_limits<std::int64_t>::max();
  /// The search ends when bound <= epsilon |out| ...
  double epsilon = 1e-3;
  /// ... or before it visits more nodes than this.
  std::int64_t node_budget = std::numeric_limits<std::int64_t>::max();
};

enum class CertifiedEnd {
  converged,  // bound <= epsilon |out|
  budget,     // the budget of nodes is spent
  precision,  // every key that matters was evaluated; what remains is rounding
};

struct CertifiedOutput {
  /// |exact - exp(log_scale) out| <= exp(log_scale) bound, Euclidean lengths. log_scale is 0 unless
  /// all weights are so small or so large that f64 would lose the product.
  std::vector<double> out;  // [d_v]
  double bound;             // may be infinite
  double relative_bound;    // bound / |out|
  double log_scale;

  /// Of the sum before it is divided, whose weights are in units of exp(log_unit), that of the
  /// largest.
  double numerator_bound;
  double log_unit;
  /// The logarithm of the divisor lies between these, which are equal if it is not a sum.
  double log_denominator_low, log_denominator_high;

  std::int64_t nodes_visited;    // whose distance to the query was found
  std::int64_t leaves_expanded;  // whose keys were evaluated one by one
  std::int64_t keys_evaluated;
  CertifiedEnd end;
};

class CertifiedAttention {
 public:
  /// Takes keys[n, d] and values[n, d_v], f32 or f64, n < 2^31; values up to 1e200. The tree and
  /// the distances to it are computed in the type of the keys, everything else in f64. A leaf holds
  /// at most leaf_size keys. Throws ShapeError for other shapes, and Error for numbers that are not
  /// finite.
  CertifiedAttention(const Tensor& keys, const Tensor& values, std::int64_t leaf_size = 8);
  ~CertifiedAttention();
  CertifiedAttention(CertifiedAttention&&) noexcept;
  CertifiedAttention& operator=(CertifiedAttention&&) noexcept;

  /// A query that sees no key has output 0 and bound 0. Throws ShapeError or Error for a query of
  /// another type, shape or range.
  CertifiedOutput evaluate(const CertifiedQuery& query) const;

  std::int64_t n_keys() const;
  std::int64_t n_nodes() const;

 private:
  class Trees;
  std::unique_ptr<Trees> trees_;
};

}  // namespace mobius
