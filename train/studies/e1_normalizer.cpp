// The mean of the kernel over the sphere, and what it says about a sum over n keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "core/error.h"
#include "core/ops.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace e1_normalizer {
namespace {

// A kernel of the study: one of the three weights, or a custom one.
struct NamedKernel {
  std::string name;
  ConformalKernel kernel;
};

RadiusValue at_radius(double r) { return {r, 1 - r}; }

// log of 2F1(s, s - d/2 + 1; d/2; r^2), the mean of |query - key|^(-2s) over the sphere.
double log_mean_of_power(double s, std::int64_t d, double r) {
  const double half = static_cast<double>(d) / 2;
  const Tensor x = Tensor::full({1}, r * r, DType::f64);
  return log_hyp2f1(s, s - half + 1, half, x).value.item();
}

// The variance of K / E[K] over the sphere. E[K^2] is the mean of another power, known in closed
// form.
double relative_variance(const ConformalKernel& kernel, double r) {
  const auto [weight, d, s, gamma] = kernel;
  return std::expm1(log_mean_of_power(2 * s, d, r) - 2 * log_mean_of_power(s, d, r));
}

// E[Kt] / Z by the trapezoidal rule over the angle, which converges geometrically: the density of
// the angle is sin^(d-2).
double mean_by_quadrature(const ConformalKernel& kernel, double r) {
  constexpr std::int64_t n = 40000;
  const RadiusValue radius = at_radius(r);
  const double log_z = log_mean(radius, kernel);
  double sum = 0, density_sum = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    const double angle = std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    const double log_density = static_cast<double>(kernel.d - 2) * std::log(std::sin(angle));
    const double half = std::sin(angle / 2);
    const double u = 1 - 2 * half * half;
    sum += std::exp(log_density + log_weight(radius, u, kernel.s) - log_z);
    density_sum += std::exp(log_density);
  }
  return sum / density_sum;
}

// Cosines between points drawn from the uniform sphere and a fixed direction.
std::vector<double> random_cosines(std::int64_t n, std::int64_t d, RngKey key) {
  constexpr std::int64_t rows_at_once = 8192;
  std::vector<double> cosines;
  for (std::int64_t first = 0; first < n; first += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, n - first);
    const RngKey part{key.seed, stream_id("part", key.stream, static_cast<std::uint64_t>(first))};
    const Tensor points = polar(random_normal({rows, d}, 0, 1, part, DType::f64)).direction;
    const std::vector<double> some = points.slice(1, 0, 1).to_vector<double>();
    cosines.insert(cosines.end(), some.begin(), some.end());
  }
  return cosines;
}

struct Estimate {
  double mean, standard_error;
};

// Estimates E[K] / E[K] = 1 from a sample of cosines.
Estimate estimate(const NamedKernel& named, double r, const std::vector<double>& cosines) {
  const RadiusValue radius = at_radius(r);
  const double log_z = log_mean(radius, named.kernel);
  double sum = 0, squares = 0;
  for (const double u : cosines) {
    const double w = std::exp(log_weight(radius, u, named.kernel.s) - log_z);
    sum += w;
    squares += w * w;
  }
  const auto n = static_cast<double>(cosines.size());
  const double mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean) / n)};
}

// One estimate, beside what is known about it.
struct Case {
  std::int64_t d;
  std::string kernel;
  double r;
  Estimate measured;
  double true_error;  // the standard error that the exact variance gives
};

class NormalizerStudy final : public Study {
 public:
  std::vector<std::int64_t> dims = {8, 16, 32, 64, 128};
  std::vector<double> radii = {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
  std::int64_t n_samples = 300000;
  double custom_s_share = 0.25;
  double custom_gamma = 0.5;
  std::vector<std::int64_t> n_keys = {256, 4096};
  std::int64_t n_trials = 200;

  std::string name() const override { return "e1_normalizer"; }
  std::string question() const override {
    return "Is the mean of the kernel over the sphere what the closed form says, and how far may "
           "it stand for the sum over n keys?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  std::vector<NamedKernel> kernels(std::int64_t d) const;
  std::vector<Case> sample(std::int64_t d, std::uint64_t seed) const;
  void integrate(StudyResult& result) const;
  void judge_samples(const std::vector<Case>& cases, StudyResult& result) const;
  void show_samples(const std::vector<Case>& cases, StudyResult& result) const;
  void sum_over_keys(std::int64_t d, std::int64_t n, std::uint64_t seed, StudyResult& result,
                     double& largest_at_limit) const;
  void compare_with_layer(std::uint64_t seed, StudyResult& result) const;
  void conclude(double largest_at_limit, StudyResult& result) const;
};

void NormalizerStudy::describe(Schema& schema) {
  schema.field("dims", dims, "dimensions of a head").at_least(3).at_most(1024);
  schema.field("radii", radii, "of the query").positive().below(0.999);
  schema.field("n_samples", n_samples, "points drawn from the sphere for each dimension")
      .at_least(100)
      .at_most(1e8);
  schema.field("custom_s_share", custom_s_share, "exponent s of the custom weight, over d")
      .positive()
      .at_most(4);
  schema.field("custom_gamma", custom_gamma, "exponent gamma of the custom weight").non_negative();
  schema.field("n_keys", n_keys, "keys that a query sees").at_least(2).at_most(1e7);
  schema.field("n_trials", n_trials, "draws of as many keys").at_least(2).at_most(1e6);
  require_some(schema, "dims", dims);
  require_some(schema, "radii", radii);
  require_some(schema, "n_keys", n_keys);
}

std::vector<NamedKernel> NormalizerStudy::kernels(std::int64_t d) const {
  std::vector<NamedKernel> kernels;
  for (const auto& [name, weight] : named_weights)
    kernels.push_back({name, conformal_kernel(weight, d)});
  kernels.push_back(
      {"custom", conformal_kernel(ConformalWeight::custom, d,
                                  custom_s_share * static_cast<double>(d), custom_gamma)});
  return kernels;
}

// The closed form against an integral, which needs no luck.
void NormalizerStudy::integrate(StudyResult& result) const {
  double largest = 0, at_r = 0;
  for (const std::int64_t d : dims) {
    for (const NamedKernel& named : kernels(d)) {
      for (const double r : radii) {
        const double error = std::abs(mean_by_quadrature(named.kernel, r) - 1);
        if (error >= largest) at_r = r;
        largest = std::max(largest, error);
      }
    }
  }
  constexpr double tolerance = 1e-9;
  result.claims.push_back(
      {fmt::format("E[K] = 1 for newton, poisson and jacobian, and the hypergeometric mean for "
                   "custom exponents, at d from {} to {}",
                   *std::ranges::min_element(dims), *std::ranges::max_element(dims)),
       fmt::format("an integral over the sphere differs by at most {} of the closed form, at "
                   "r = {}",
                   short_number(largest), short_number(at_r)),
       largest < tolerance});
}

std::vector<Case> NormalizerStudy::sample(std::int64_t d, std::uint64_t seed) const {
  const std::vector<double> cosines =
      random_cosines(n_samples, d, {seed, stream_id("e1 sphere", static_cast<std::uint64_t>(d))});
  std::vector<Case> cases;
  for (const NamedKernel& named : kernels(d)) {
    for (const double r : radii) {
      const double variance = relative_variance(named.kernel, r);
      cases.push_back({d, named.name, r, {}, std::sqrt(variance / static_cast<double>(n_samples))});
    }
  }
  const std::vector<NamedKernel> all = kernels(d);
  parallel_for_each(static_cast<std::int64_t>(cases.size()), 1, [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    cases[index].measured = estimate(all[index / radii.size()], cases[index].r, cosines);
  });
  return cases;
}

// Where the exact standard error is small, the sample must agree; elsewhere it says nothing.
void NormalizerStudy::judge_samples(const std::vector<Case>& cases, StudyResult& result) const {
  constexpr double small = 0.01, most_deviations = 5;
  std::int64_t judged = 0, hopeless = 0, misleading = 0;
  double largest = 0;
  for (const Case& c : cases) {
    const double error = std::abs(c.measured.mean - 1);
    if (c.true_error <= small) {
      ++judged;
      largest = std::max(largest, error / c.true_error);
    }
    if (c.true_error >= 1) ++hopeless;
    if (c.true_error >= 1 && error > 10 * c.measured.standard_error) ++misleading;
  }
  result.claims.push_back(
      {fmt::format("A sample of {} points agrees with the closed form wherever its exact standard "
                   "error is at most {}",
                   n_samples, small),
       fmt::format("the largest of {} differences is {:.2f} standard errors", judged, largest),
       judged > 0 && largest < most_deviations});
  result.findings.push_back(fmt::format(
      "Monte Carlo itself fails as r nears 1, since the mean then comes from a cap of the sphere "
      "that no sample meets: of {} estimates, {} have an exact standard error above 100 %, and in "
      "{} of these the estimate is off by more than 10 of the standard errors that the sample "
      "itself suggests.",
      cases.size(), hopeless, misleading));
  StudyTable table{
      .title = fmt::format("Radius up to which {} samples know the mean to 10 %", n_samples),
      .columns = {"d"}};
  for (const NamedKernel& named : kernels(dims.front())) table.columns.push_back(named.name);
  for (const std::int64_t d : dims) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.emplace_back(static_cast<double>(d));
    for (const NamedKernel& named : kernels(d)) {
      row.emplace_back(first_where(0, 0.9999, [&](double r) {
        return relative_variance(named.kernel, r) > 0.01 * static_cast<double>(n_samples);
      }));
    }
  }
  result.tables.push_back(std::move(table));
}

void NormalizerStudy::show_samples(const std::vector<Case>& cases, StudyResult& result) const {
  Figure means{
      .name = "sampled-mean",
      .title = fmt::format("E[K] of the newton weight, estimated from {} points", n_samples),
      .x_label = "radius r",
      .y_label = "estimate (exact: 1)",
      .y_axis = Axis::logarithmic};
  Figure errors{.name = "standard-error",
                .title = "Standard error of that estimate: exact, and as the sample suggests",
                .x_label = "radius r",
                .y_label = "relative standard error",
                .y_axis = Axis::logarithmic};
  for (const std::int64_t d : dims) {
    Series mean{fmt::format("d = {}", d), {}, {}};
    Series exact{fmt::format("d = {}, exact", d), {}, {}};
    Series suggested{fmt::format("d = {}, suggested", d), {}, {}};
    for (const Case& c : cases) {
      if (c.d != d || c.kernel != "newton") continue;
      // Exact errors go on to 1e100, where a figure shows nothing else.
      constexpr double largest_shown = 100;
      mean.x.push_back(c.r);
      mean.y.push_back(c.measured.mean);
      if (c.true_error > largest_shown) continue;
      for (Series* series : {&exact, &suggested}) series->x.push_back(c.r);
      exact.y.push_back(c.true_error);
      suggested.y.push_back(c.measured.standard_error);
    }
    means.series.push_back(std::move(mean));
    errors.series.push_back(std::move(exact));
    errors.series.push_back(std::move(suggested));
  }
  result.figures.push_back(std::move(means));
  result.figures.push_back(std::move(errors));
}

// The sum of Kt / (n Z) over n random keys, and with one more key in the query's direction.
void NormalizerStudy::sum_over_keys(std::int64_t d, std::int64_t n, std::uint64_t seed,
                                    StudyResult& result, double& largest_at_limit) const {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, d);
  const double limit = resolution_limit(/*delta=*/1, static_cast<double>(n), kernel.s);
  const std::vector<double> cosines = random_cosines(
      n * n_trials, d,
      {seed, stream_id("e1 keys", static_cast<std::uint64_t>(d), static_cast<std::uint64_t>(n))});
  std::vector<double> ratios;
  for (const double ratio : evenly(0.1, 2, 39)) {
    if (ratio * limit < 0.999) ratios.push_back(ratio);
  }
  std::vector<double> deviations(ratios.size());
  parallel_for_each(static_cast<std::int64_t>(ratios.size()), 1, [&](std::int64_t i) {
    const RadiusValue radius = at_radius(ratios[static_cast<std::size_t>(i)] * limit);
    const double log_z = log_mean(radius, kernel) + std::log(static_cast<double>(n));
    double squares = 0;
    for (std::int64_t trial = 0; trial < n_trials; ++trial) {
      double sum = 0;
      for (std::int64_t j = trial * n; j < (trial + 1) * n; ++j)
        sum += std::exp(log_weight(radius, cosines[static_cast<std::size_t>(j)], kernel.s) - log_z);
      squares += (sum - 1) * (sum - 1);
    }
    deviations[static_cast<std::size_t>(i)] = std::sqrt(squares / static_cast<double>(n_trials));
  });
  const auto at_limit = static_cast<std::size_t>(
      std::ranges::min_element(ratios, {}, [](double ratio) { return std::abs(ratio - 1); }) -
      ratios.begin());
  largest_at_limit = std::max(largest_at_limit, deviations[at_limit]);
  const double exact_at_limit =
      std::sqrt(relative_variance(kernel, limit) / static_cast<double>(n));
  const double tenth = first_where(0, 0.9999, [&](double r) {
    return relative_variance(kernel, r) > 0.01 * static_cast<double>(n);
  });
  const double planted =
      std::exp(-log_mean(at_radius(limit), kernel) - std::log(static_cast<double>(n)));
  result.tables.back().rows.push_back({static_cast<double>(d), static_cast<double>(n), limit,
                                       radius_to_beta(limit, kernel.s), deviations[at_limit],
                                       exact_at_limit, planted, tenth / limit});
  result.figures.back().series.push_back(
      {fmt::format("d = {}, n = {}", d, n), std::move(ratios), std::move(deviations)});
}

// The sums of the layer's own weights against those of the formula.
void NormalizerStudy::compare_with_layer(std::uint64_t seed, StudyResult& result) const {
  double largest = 0;
  for (const std::int64_t d : dims) {
    const std::int64_t n = n_keys.front();
    const Tensor keys =
        random_normal({1, 1, n, d}, 0, 1,
                      {seed, stream_id("e1 layer", static_cast<std::uint64_t>(d))}, DType::f64);
    const std::vector<double> cosines = polar(keys).direction.slice(3, 0, 1).to_vector<double>();
    for (const NamedKernel& named : kernels(d)) {
      const RadiusValue radius = at_radius(0.5);
      const double beta = radius_to_beta(radius.r, named.kernel.s);
      const HeadInputs in{.q = Variable(query_of(beta, d)), .k = Variable(keys), .v = {}};
      const Variable alpha = f64_scalar(1);
      const Tensor weights =
          attention_weights(conformal_call(in, alpha, named.kernel, ConformalNormalize::analytic))
              .data();
      double expected = 0;
      const double log_z = log_mean(radius, named.kernel) + std::log(static_cast<double>(n));
      for (const double u : cosines)
        expected += std::exp(log_weight(radius, u, named.kernel.s) - log_z);
      const double sum_of_layer = sum(weights, {-1}).to_vector<double>().front();
      largest = std::max(largest, std::abs(sum_of_layer / expected - 1));
    }
  }
  result.findings.push_back(fmt::format(
      "The layer's analytic weights, summed over {} keys at r = 0.5 in f64, differ from these "
      "formulas by at most {} of their sum, over all weights and dimensions.",
      n_keys.front(), short_number(largest)));
}

void NormalizerStudy::conclude(double largest_at_limit, StudyResult& result) const {
  const std::vector<std::vector<Cell>>& rows = result.tables.back().rows;
  double nearest = std::numeric_limits<double>::infinity(), farthest = 0, planted_error = 0;
  for (const std::vector<Cell>& row : rows) {
    planted_error = std::max(planted_error, std::abs(std::get<double>(row[6]) - 1));
    nearest = std::min(nearest, std::get<double>(row[7]));
    farthest = std::max(farthest, std::get<double>(row[7]));
  }
  result.claims.push_back(
      {"At the resolution limit r_n, one key in the query's direction weighs as much as the mean "
       "over all n keys (delta = 1)",
       fmt::format("its weight is 1 within {}", short_number(planted_error)),
       planted_error < 1e-9});
  constexpr double good = 0.1;
  result.claims.push_back(
      {fmt::format("Up to the resolution limit, the analytic constant stands for the sum over n "
                   "random keys to {} %",
                   100 * good),
       fmt::format("the root mean square deviation at r_n is at most {:.1f} %, and reaches 10 % "
                   "at {:.2f} to {:.2f} times r_n",
                   100 * largest_at_limit, nearest, farthest),
       largest_at_limit <= good});
  result.findings.push_back(fmt::format(
      "For random keys the analytic constant is off by 10 % (root mean square) at {:.2f} to {:.2f} "
      "times the resolution limit, depending on d and n: the limit is where one aligned key would "
      "double the sum, not where random keys do.",
      nearest, farthest));
}

StudyResult NormalizerStudy::run(const StudyContext& context) const {
  const auto n_dims = static_cast<std::int64_t>(dims.size());
  const std::int64_t total = 2 + n_dims + n_dims * static_cast<std::int64_t>(n_keys.size());
  std::int64_t done = 0;
  StudyResult result;
  context.progress("integrals", done++, total);
  integrate(result);
  std::vector<Case> cases;
  for (const std::int64_t d : dims) {
    context.progress(fmt::format("sphere, d = {}", d), done++, total);
    const std::vector<Case> more = sample(d, context.seed);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  judge_samples(cases, result);
  show_samples(cases, result);
  result.tables.push_back(
      {.title = fmt::format("The analytic constant for n keys, newton weight, {} draws", n_trials),
       .columns = {"d", "n", "r_n", "beta at r_n", "rms deviation at r_n", "exact",
                   "an aligned key", "10 % at r / r_n"}});
  result.figures.push_back({.name = "resolution",
                            .title = "Deviation of the sum over n random keys from the constant",
                            .x_label = "r / r_n",
                            .y_label = "rms relative deviation",
                            .y_axis = Axis::logarithmic});
  double largest_at_limit = 0;
  for (const std::int64_t d : dims) {
    for (const std::int64_t n : n_keys) {
      context.progress(fmt::format("keys, d = {}, n = {}", d, n), done++, total);
      sum_over_keys(d, n, context.seed, result, largest_at_limit);
    }
  }
  context.progress("layer", done, total);
  conclude(largest_at_limit, result);
  compare_with_layer(context.seed, result);
  return result;
}

}  // namespace
}  // namespace e1_normalizer

std::unique_ptr<Study> make_e1_normalizer() {
  return std::make_unique<e1_normalizer::NormalizerStudy>();
}

}  // namespace mobius
