// Certified attention against sums in long double, which exceed f64 by 11 bits and f32 by 40.
#include "nn/attention/conformal/certified.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "tests/nn/nn_testing.h"

namespace mobius::certified_test {
namespace {

using testing::expect_error;

using Real = long double;

// ---- the exact output

struct Weighting {
  bool is_softmax;
  double beta;    // of softmax
  double radius;  // of a conformal kernel
  ConformalKernel kernel{ConformalWeight::newton, 4, 1, 0};
  ConformalNormalize normalize = ConformalNormalize::empirical;

  CertifiedWeight certified() const {
    return is_softmax ? certified_softmax(beta) : certified_conformal(radius, kernel, normalize);
  }
};

std::vector<Real> unit(const double* x, std::size_t d) {
  Real squares = 0;
  for (std::size_t c = 0; c < d; ++c) squares += static_cast<Real>(x[c]) * x[c];
  std::vector<Real> out(x, x + d);
  if (squares > 0)
    for (Real& element : out) element /= std::sqrt(squares);
  else
    out.clear();
  return out;
}

// 1 - u; 1 if either has no direction.
Real one_minus_cosine(const std::vector<Real>& a, const std::vector<Real>& b) {
  if (a.empty() || b.empty()) return 1;
  Real apart = 0, together = 0;
  for (std::size_t c = 0; c < a.size(); ++c) {
    apart += (a[c] - b[c]) * (a[c] - b[c]);
    together += (a[c] + b[c]) * (a[c] + b[c]);
  }
  return apart < together ? apart / 2 : 2 - together / 2;
}

struct Exact {
  std::vector<Real> sum;  // in units of exp(log_unit)
  Real log_unit;
  Real log_divisor;
};

// Keys and values in f64, which holds every number of f32.
struct Points {
  std::size_t n, d, d_v;
  std::vector<double> keys, values;
  std::vector<std::vector<Real>> units = {};
};

Exact exact_output(const Points& points, const std::vector<double>& query, const Weighting& w,
                   std::size_t n_visible) {
  const std::vector<Real> direction = unit(query.data(), points.d);
  const Real r = w.radius, rate = 2 * r / ((1 - r) * (1 - r));
  const Real log_mean = w.certified().log_mean;
  const Real log_count = std::log(static_cast<Real>(n_visible));
  const bool is_analytic = !w.is_softmax && w.normalize == ConformalNormalize::analytic;
  Exact exact{std::vector<Real>(points.d_v), -std::numeric_limits<Real>::infinity(), 0};
  std::vector<Real> log_weights;
  for (std::size_t j = 0; j < n_visible; ++j) {
    const Real versine = one_minus_cosine(direction, points.units[j]);
    Real log_weight = w.is_softmax ? -static_cast<Real>(w.beta) * versine
                                   : -static_cast<Real>(w.kernel.s) * std::log1p(rate * versine);
    if (is_analytic) log_weight = std::min(log_weight, 80 + log_mean + log_count);
    log_weights.push_back(log_weight);
    exact.log_unit = std::max(exact.log_unit, log_weight);
  }
  Real total = 0;
  for (std::size_t j = 0; j < n_visible; ++j) {
    const Real weight = std::exp(log_weights[j] - exact.log_unit);
    total += weight;
    for (std::size_t c = 0; c < points.d_v; ++c)
      exact.sum[c] += weight * static_cast<Real>(points.values[j * points.d_v + c]);
  }
  if (w.normalize == ConformalNormalize::empirical)
    exact.log_divisor = exact.log_unit + std::log(total);
  else if (is_analytic)
    exact.log_divisor = log_mean + log_count;
  return exact;
}

// |got - exact|, in units of exp(got.log_scale).
Real distance_to(const CertifiedOutput& got, const Exact& exact) {
  const Real factor =
      std::exp(exact.log_unit - exact.log_divisor - static_cast<Real>(got.log_scale));
  Real squares = 0;
  for (std::size_t c = 0; c < exact.sum.size(); ++c) {
    const Real difference = exact.sum[c] * factor - static_cast<Real>(got.out[c]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

// ---- keys and queries of many kinds

constexpr int n_key_kinds = 8;

double pick(Rng& rng, std::initializer_list<double> from) {
  return from.begin()[rng.below(from.size())];
}

std::vector<double> normal_vector(Rng& rng, std::size_t d, double length = 1) {
  std::vector<double> x(d);
  for (double& element : x) element = length * rng.normal();
  return x;
}

void add_to(std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t c = 0; c < x.size(); ++c) x[c] += y[c];
}

std::vector<double> key_of_kind(int kind, std::size_t j, Rng& rng,
                                const std::vector<double>& base) {
  const std::size_t d = base.size();
  std::vector<double> key = base;
  switch (kind) {
    case 0:  // uniform
      return normal_vector(rng, d);
    case 1:  // clustered, sometimes far away
      if (rng.below(8) == 0) return normal_vector(rng, d);
      add_to(key, normal_vector(rng, d, 0.05));
      return key;
    case 2:  // near duplicates
      add_to(key, normal_vector(rng, d, pick(rng, {1e-4, 1e-8, 1e-12, 1e-16})));
      return key;
    case 3:  // antipodes
      if (j % 2 == 1)
        for (double& element : key) element = -element;
      return key;
    case 4:  // all equal
      return key;
    case 5:  // axes
      std::fill(key.begin(), key.end(), 0);
      key[j % d] = rng.below(2) == 0 ? 1 : -1;
      return key;
    case 6:  // of any length
      key = normal_vector(rng, d, pick(rng, {1e-30, 1e-5, 1, 1e5, 1e30}));
      return key;
    default:  // some without direction
      if (rng.below(3) == 0) return std::vector<double>(d, 0);
      return normal_vector(rng, d);
  }
}

Points points_of_kind(int kind, std::size_t n, std::size_t d, std::size_t d_v, DType dtype,
                      Rng& rng) {
  Points points{.n = n, .d = d, .d_v = d_v, .keys = {}, .values = {}};
  const std::vector<double> base = normal_vector(rng, d);
  for (std::size_t j = 0; j < n; ++j) {
    const std::vector<double> key = key_of_kind(kind, j, rng, base);
    points.keys.insert(points.keys.end(), key.begin(), key.end());
  }
  points.values = normal_vector(rng, n * d_v, pick(rng, {1e-20, 1, 1, 1, 1e10}));
  if (rng.below(4) == 0)  // of opposite values, which cancel
    for (std::size_t c = d_v; c < points.values.size(); ++c)
      points.values[c] = -points.values[c - d_v];
  if (dtype == DType::f32) {
    for (double& element : points.keys) element = static_cast<float>(element);
    for (double& element : points.values) element = static_cast<float>(element);
  }
  for (std::size_t j = 0; j < n; ++j) points.units.push_back(unit(points.keys.data() + j * d, d));
  return points;
}

std::vector<double> query_for(const Points& points, DType dtype, Rng& rng) {
  const std::size_t j = rng.below(points.n);
  const auto key = points.keys.begin() + static_cast<std::ptrdiff_t>(j * points.d);
  std::vector<double> query(key, key + static_cast<std::ptrdiff_t>(points.d));
  switch (rng.below(8)) {
    case 0:
      break;  // a key
    case 1:
      for (double& element : query) element = -element;
      break;
    case 2:
      if (rng.below(4) == 0) std::fill(query.begin(), query.end(), 0);
      break;
    case 3:
    case 4:
      add_to(query,
             normal_vector(rng, points.d, pick(rng, {1e-2, 1e-3, 1e-5, 1e-8, 1e-11, 1e-16})));
      break;
    default:
      query = normal_vector(rng, points.d);
  }
  if (dtype == DType::f32)
    for (double& element : query) element = static_cast<float>(element);
  return query;
}

Weighting random_softmax(Rng& rng) {
  return {.is_softmax = true,
          .beta = pick(rng, {0, 0.1, 1, 8, 30, 200, 1e3, 1e6, 1e9, 1e12, 1e300}),
          .radius = 0};
}

Weighting random_conformal(std::size_t d, Rng& rng) {
  const auto dimension = static_cast<std::int64_t>(d);
  Weighting w{.is_softmax = false, .beta = 0, .radius = 0};
  w.radius = pick(
      rng, {0, 1e-9, 0.01, 0.1, 0.3, 0.6, 0.9, 0.99, 0.999, 0.9999, largest_radius, 1 - 1e-12});
  const auto weight = static_cast<ConformalWeight>(rng.below(4));
  w.kernel = weight == ConformalWeight::custom
                 ? conformal_kernel(weight, dimension, 0.5 * static_cast<double>(d))
                 : conformal_kernel(weight, dimension);
  w.normalize = static_cast<ConformalNormalize>(rng.below(3));
  return w;
}

Tensor tensor(const std::vector<double>& x, Shape shape, DType dtype) {
  return Tensor::from(x, std::move(shape)).to(dtype);
}

CertifiedAttention attention_of(const Points& points, DType dtype, std::int64_t leaf_size = 8) {
  const auto n = static_cast<std::int64_t>(points.n);
  return {tensor(points.keys, {n, static_cast<std::int64_t>(points.d)}, dtype),
          tensor(points.values, {n, static_cast<std::int64_t>(points.d_v)}, dtype), leaf_size};
}

// ---- the certificate

struct Tally {
  int queries = 0, free = 0, converged = 0;
  Real tightest = 0;  // largest error / bound
};

struct Case {
  DType dtype;
  bool is_softmax;
};

void check(const CertifiedOutput& got, const Exact& exact, const CertifiedQuery& query,
           Tally& tally) {
  const Real error = distance_to(got, exact);
  ASSERT_LE(error, got.bound);
  if (query.weight.normalize == ConformalNormalize::empirical) {
    ASSERT_LE(got.log_denominator_low, exact.log_divisor);
    ASSERT_GE(got.log_denominator_high, exact.log_divisor);
  } else {
    ASSERT_EQ(got.log_denominator_low, got.log_denominator_high);
    ASSERT_NEAR(got.log_denominator_low, static_cast<double>(exact.log_divisor), 1e-10);
  }
  if (got.end == CertifiedEnd::converged) {
    Real squares = 0;
    for (const Real element : got.out) squares += element * element;
    ASSERT_LE(got.bound, query.epsilon * std::sqrt(squares));
    ASSERT_LE(got.relative_bound, query.epsilon);
  } else if (got.end == CertifiedEnd::budget) {
    ASSERT_GT(got.nodes_visited + 2, query.node_budget);
  }
  ASSERT_LE(got.nodes_visited, query.node_budget);
  ++tally.queries;
  if (got.bound > 0 && std::isfinite(got.bound))
    tally.tightest = std::max(tally.tightest, error / got.bound);
  const bool is_free =
      query.node_budget > 1000 && query.epsilon >= 1e-4 && query.weight.rate <= 1e6;
  tally.free += is_free ? 1 : 0;
  tally.converged += is_free && got.end == CertifiedEnd::converged ? 1 : 0;
}

void check_queries(const Case& c, int kind, std::size_t n, std::size_t d, int n_queries,
                   std::uint64_t stream, Tally& tally) {
  Rng rng({.seed = 4, .stream = stream});
  const Points points = points_of_kind(kind, n, d, 1 + rng.below(4), c.dtype, rng);
  const CertifiedAttention attention = attention_of(points, c.dtype, 1 + rng.below(8));
  const std::size_t first = rng.below(n);
  for (int i = 0; i < n_queries; ++i) {
    const Weighting w = c.is_softmax ? random_softmax(rng) : random_conformal(d, rng);
    const std::vector<double> direction = query_for(points, c.dtype, rng);
    // Every prefix in turn, from anywhere.
    const std::size_t n_visible = 1 + (first + static_cast<std::size_t>(i)) % n;
    const CertifiedQuery query{
        .direction = tensor(direction, {static_cast<std::int64_t>(d)}, c.dtype),
        .weight = w.certified(),
        .n_visible = static_cast<std::int64_t>(n_visible),
        .epsilon = pick(rng, {0, 1e-12, 1e-8, 1e-4, 1e-2, 0.3}),
        .node_budget = static_cast<std::int64_t>(pick(rng, {1, 2, 3, 5, 9, 1e6, 1e6, 1e6, 1e6}))};
    check(attention.evaluate(query), exact_output(points, direction, w, n_visible), query, tally);
    if (::testing::Test::HasFatalFailure()) {
      FAIL() << "kind " << kind << ", n " << n << ", d " << d << ", query " << i << ", beta "
             << w.beta << ", radius " << w.radius << ", s " << w.kernel.s << ", normalize "
             << static_cast<int>(w.normalize) << ", stream " << stream;
    }
  }
}

class CertifiedBound : public ::testing::TestWithParam<Case> {};

TEST_P(CertifiedBound, HoldsForRandomAndAdversarialQueries) {
  constexpr std::size_t dimensions[] = {2, 3, 4, 7, 8, 16, 33, 64, 128};
  constexpr std::size_t sizes[] = {1, 2, 9, 20, 40, 150};
  constexpr int n_queries = 60;  // 10^5 over all types and kernels
  Tally tally;
  std::uint64_t stream = 0;
  for (const std::size_t d : dimensions) {
    for (const std::size_t n : sizes) {
      for (int kind = 0; kind < n_key_kinds; ++kind) {
        check_queries(GetParam(), kind, n, d, n_queries, ++stream, tally);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GE(tally.queries, 25000);
  // The bounds mean something: some are within a factor of 2 of the error, and most searches
  // without a budget converge. In f32 the sharpest kernels cannot.
  EXPECT_GT(tally.tightest, 0.5L);
  EXPECT_GT(tally.converged, tally.free * (GetParam().dtype == DType::f64 ? 0.9 : 0.6));
  RecordProperty("converged",
                 std::to_string(tally.converged) + " of " + std::to_string(tally.free));
}

INSTANTIATE_TEST_SUITE_P(EveryTypeAndKernel, CertifiedBound,
                         ::testing::Values(Case{DType::f64, true}, Case{DType::f64, false},
                                           Case{DType::f32, true}, Case{DType::f32, false}),
                         [](const auto& tested) {
                           return std::string(tested.param.dtype == DType::f64 ? "f64" : "f32") +
                                  (tested.param.is_softmax ? "Softmax" : "Conformal");
                         });

// n keys in `n_clusters` clusters of the given width; values of 8 dimensions.
Points clustered(std::size_t n, std::size_t d, std::size_t n_clusters, double width) {
  Rng rng({.seed = 5, .stream = n + d});
  std::vector<std::vector<double>> centres;
  for (std::size_t c = 0; c < n_clusters; ++c) centres.push_back(normal_vector(rng, d));
  Points points{.n = n, .d = d, .d_v = 8, .keys = {}, .values = normal_vector(rng, n * 8)};
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<double> key = centres[j % n_clusters];
    add_to(key, normal_vector(rng, d, width));
    points.keys.insert(points.keys.end(), key.begin(), key.end());
    points.units.push_back(unit(points.keys.data() + j * d, d));
  }
  return points;
}

CertifiedQuery query_at_key(const Points& points, std::size_t j, const CertifiedWeight& weight) {
  const auto key = points.keys.begin() + static_cast<std::ptrdiff_t>(j * points.d);
  const std::vector<double> direction(key, key + static_cast<std::ptrdiff_t>(points.d));
  return {.direction = Tensor::from(direction, {static_cast<std::int64_t>(points.d)}),
          .weight = weight};
}

TEST(Certified, VisitsMoreNodesForASmallerEpsilon) {
  const Points points = clustered(4000, 16, 20, 0.1);
  const CertifiedAttention attention = attention_of(points, DType::f64);
  const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, 16);
  for (const CertifiedWeight& weight :
       {certified_softmax(20), certified_conformal(0.6, newton, ConformalNormalize::analytic)}) {
    CertifiedQuery query = query_at_key(points, 7, weight);
    std::vector<std::int64_t> visited;
    for (const double epsilon : {0.5, 1e-1, 1e-2, 1e-3, 1e-6, 1e-10}) {
      query.epsilon = epsilon;
      const CertifiedOutput out = attention.evaluate(query);
      EXPECT_EQ(out.end, CertifiedEnd::converged) << epsilon;
      visited.push_back(out.nodes_visited);
    }
    EXPECT_TRUE(std::is_sorted(visited.begin(), visited.end()));
    EXPECT_LT(visited.front(), visited.back());
    EXPECT_LT(visited.front(), attention.n_nodes() / 4);
  }
}

TEST(Certified, BoundShrinksWithTheBudgetAndHoldsForEveryOne) {
  const Points points = clustered(1000, 8, 10, 0.2);
  const CertifiedAttention attention = attention_of(points, DType::f64);
  const Weighting softmax{.is_softmax = true, .beta = 10, .radius = 0};
  CertifiedQuery query = query_at_key(points, 3, softmax.certified());
  query.epsilon = 0;
  const std::vector<double> direction = query.direction.to_vector<double>();
  const Exact exact = exact_output(points, direction, softmax, points.n);
  double last = std::numeric_limits<double>::infinity();
  for (std::int64_t budget = 1; budget < 1024; budget *= 2) {
    query.node_budget = budget;
    const CertifiedOutput out = attention.evaluate(query);
    EXPECT_LE(out.nodes_visited, budget);
    EXPECT_LE(distance_to(out, exact), out.bound) << budget;
    EXPECT_LE(out.bound, last) << budget;
    last = out.bound;
  }
  query.node_budget = std::numeric_limits<std::int64_t>::max();
  const CertifiedOutput all = attention.evaluate(query);
  EXPECT_EQ(all.end, CertifiedEnd::precision);
  EXPECT_EQ(all.keys_evaluated, 1000);
  EXPECT_LT(all.relative_bound, 1e-11);
}

TEST(Certified, EveryPrefixOfALargeTree) {
  const Points points = clustered(1500, 5, 30, 0.1);
  const CertifiedAttention attention = attention_of(points, DType::f64);
  for (const bool is_softmax : {true, false}) {
    Weighting w{.is_softmax = is_softmax, .beta = 12, .radius = 0.7};
    w.kernel = conformal_kernel(ConformalWeight::newton, 5);
    w.normalize = is_softmax ? ConformalNormalize::empirical : ConformalNormalize::analytic;
    for (std::size_t n_visible = 1; n_visible <= points.n; n_visible += 13) {
      CertifiedQuery query = query_at_key(points, n_visible - 1, w.certified());
      query.n_visible = static_cast<std::int64_t>(n_visible);
      query.epsilon = 1e-6;
      const CertifiedOutput out = attention.evaluate(query);
      const std::vector<double> direction = query.direction.to_vector<double>();
      EXPECT_LE(distance_to(out, exact_output(points, direction, w, n_visible)), out.bound);
      EXPECT_EQ(out.end, CertifiedEnd::converged);
    }
  }
}

TEST(Certified, EqualsAttentionOfTheLayers) {
  const Points points = clustered(300, 16, 6, 0.3);
  const std::int64_t n = 300, d = 16;
  const Variable k(placed::from(points.keys, {1, 1, n, d})),
      v(placed::from(points.values, {1, 1, n, 8})), q(testing::normal({1, 1, 1, d}, 3, 2)),
      alpha(placed::full({1, 1, 1}, 9, DType::f64));
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::poisson, d);
  const BallPoints in_ball = embed_in_ball(q, k, alpha, kernel.s);
  const CertifiedAttention attention(k.data().reshape({n, d}), v.data().reshape({n, 8}));
  for (const ConformalNormalize normalize :
       {ConformalNormalize::none, ConformalNormalize::analytic, ConformalNormalize::empirical}) {
    const CertifiedQuery query{
        .direction = q.data().reshape({d}),
        .weight = certified_conformal(in_ball.radius.r.item(), kernel, normalize),
        .epsilon = 1e-12};
    const Tensor want =
        mobius::attention(conformal_call({.q = q, .k = k, .v = v}, alpha, kernel, normalize))
            .data();
    const CertifiedOutput got = attention.evaluate(query);
    EXPECT_LT(testing::distance(placed::from(got.out, {8}), want.reshape({8})), 1e-11);
    EXPECT_EQ(got.log_scale, 0);
  }
}

// Adding equal numbers rounds in one direction, so that the error grows with their number.
TEST(Certified, BoundHoldsForLongSumsOfEqualNumbers) {
  const std::size_t n = 100000;
  Points values{.n = n, .d = 2, .d_v = 1, .keys = {}, .values = std::vector<double>(n, 0.1)};
  for (std::size_t j = 0; j < n; ++j) values.keys.insert(values.keys.end(), {1, 0});
  values.units.assign(n, {1, 0});
  const Weighting centre{.is_softmax = false, .beta = 0, .radius = 0};
  CertifiedQuery query = query_at_key(values, 0, centre.certified());
  query.epsilon = 1;
  const CertifiedOutput out = attention_of(values, DType::f64).evaluate(query);
  EXPECT_LE(distance_to(out, exact_output(values, {1, 0}, centre, n)), out.bound);
  EXPECT_EQ(out.nodes_visited, 1);

  for (std::size_t d = 500; d < 4000; d += 250) {
    Points one{.n = 1, .d = d, .d_v = 1, .keys = std::vector<double>(d, 1), .values = {1}};
    one.units = {unit(one.keys.data(), d)};
    std::vector<double> direction = one.keys;
    std::fill(direction.begin(), direction.begin() + static_cast<std::ptrdiff_t>(d / 50), -1);
    const Weighting sharp{.is_softmax = false,
                          .beta = 0,
                          .radius = largest_radius,
                          .normalize = ConformalNormalize::none};
    const CertifiedQuery wide{
        .direction = tensor(direction, {static_cast<std::int64_t>(d)}, DType::f32),
        .weight = sharp.certified()};
    const CertifiedOutput narrow = attention_of(one, DType::f32).evaluate(wide);
    EXPECT_LE(distance_to(narrow, exact_output(one, direction, sharp, 1)), narrow.bound) << d;
  }
}

TEST(Certified, GivesTheSameBitsEveryTime) {
  const Points points = clustered(500, 6, 5, 0.1);
  const CertifiedQuery query = query_at_key(points, 11, certified_softmax(15));
  const CertifiedOutput a = attention_of(points, DType::f64).evaluate(query),
                        b = attention_of(points, DType::f64).evaluate(query);
  EXPECT_EQ(a.out, b.out);
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.nodes_visited, b.nodes_visited);
}

TEST(Certified, KeysWithoutWeightInF64KeepTheirRatios) {
  // Both keys are at a right angle to the query or beyond: e^-1e6 and e^-1.5e6 are 0 in f64.
  const CertifiedAttention attention(Tensor::from(std::vector<double>{0, 1, -0.5, 0.8}, {2, 2}),
                                     Tensor::from(std::vector<double>{2, 3}, {2, 1}));
  const CertifiedQuery query{.direction = Tensor::from(std::vector<double>{1, 0}, {2}),
                             .weight = certified_softmax(1e6)};
  const CertifiedOutput out = attention.evaluate(query);
  EXPECT_NEAR(out.out[0], 2, 1e-6);
  EXPECT_NEAR(out.log_denominator_low, -1e6, 1e-3);
  EXPECT_EQ(out.end, CertifiedEnd::converged);
}

TEST(Certified, QueryThatSeesNothingIsZero) {
  const Points points = clustered(20, 3, 2, 0.1);
  CertifiedQuery query = query_at_key(points, 0, certified_softmax(1));
  query.n_visible = 0;
  const CertifiedOutput out = attention_of(points, DType::f64).evaluate(query);
  EXPECT_EQ(out.out, std::vector<double>(8, 0));
  EXPECT_EQ(out.bound, 0);
  EXPECT_EQ(out.end, CertifiedEnd::converged);
}

TEST(Certified, RefusesWhatItCannotBound) {
  const Tensor keys = testing::normal({4, 3}, 1).to(Device{}),
               values = testing::normal({4, 2}, 2).to(Device{});
  const auto make = [](const Tensor& k, const Tensor& v) { CertifiedAttention(k, v, 2); };
  expect_error<ShapeError>([&] { make(keys, values.slice(0, 0, 3)); }, "[3, 2]");
  expect_error<Error>([&] { make(keys.to(DType::f32), values); }, "both f32 or both f64");
  expect_error<Error>(
      [&] {
        make(Tensor::full({4, 3}, NAN, DType::f64), values);
      },
      "keys hold nan");
  expect_error<Error>([&] { make(keys, Tensor::full({4, 2}, 1e201, DType::f64)); }, "values hold");
  expect_error<Error>([&] { CertifiedAttention(keys, values, 0); }, "leaf_size 0");

  const CertifiedAttention attention(keys, values);
  const auto ask = [&](const CertifiedQuery& query) { attention.evaluate(query); };
  const CertifiedQuery good{.direction = Tensor::ones({3}, DType::f64),
                            .weight = certified_softmax(1)};
  CertifiedQuery query = good;
  query.direction = Tensor::ones({4}, DType::f64);
  expect_error<ShapeError>([&] { ask(query); }, "3 dimensions");
  query.direction = Tensor::ones({3});
  expect_error<Error>([&] { ask(query); }, "f32");
  query.direction = Tensor::full({3}, INFINITY, DType::f64);
  expect_error<Error>([&] { ask(query); }, "queries hold inf");
  query = good;
  query.node_budget = 0;
  expect_error<Error>([&] { ask(query); }, "node_budget 0");
  query = good;
  query.weight.rate = -1;
  expect_error<Error>([&] { ask(query); }, "rate -1");
  expect_error<Error>([] { certified_softmax(-1); }, "beta -1");
  const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, 4);
  expect_error<Error>([&] { certified_conformal(1, newton, ConformalNormalize::none); },
                      "radius 1");
}

}  // namespace
}  // namespace mobius::certified_test
