// The formulas behind conformal attention, in 40 digits.
#include <fmt/format.h>

#include <algorithm>

#include "train/studies/builtin.h"
#include "train/studies/identities/means.h"
#include "train/studies/identities/multipole.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

using identities::Multipole;
using identities::Outcome;

class IdentitiesStudy final : public Study {
 public:
  std::vector<std::int64_t> dimensions = {2, 3, 4, 8, 16};
  std::int64_t n_points = 16;
  std::int64_t n_integrals = 2;
  std::vector<std::int64_t> balance_dimensions = {4, 8, 16};
  std::vector<std::int64_t> multipole_dimensions = {8, 64, 128};
  std::vector<double> multipole_radii = {0.0643, 0.2, 0.5, 0.8};

  std::string name() const override { return "identities"; }
  std::string question() const override {
    return "Do the formulas behind conformal attention hold in 40 digits, and how many degrees "
           "does its kernel take?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  std::vector<Outcome> outcomes(const StudyContext& context) const;
  void show_balances(StudyResult& result) const;
  void show_multipoles(StudyResult& result) const;
};

void IdentitiesStudy::describe(Schema& schema) {
  schema.field("dimensions", dimensions, "of the ball, in which identities are checked")
      .at_least(2)
      .at_most(64);
  schema.field("n_points", n_points, "random cases a dimension").positive().at_most(10000);
  schema.field("n_integrals", n_integrals, "random cases a dimension, where an integral is taken")
      .positive()
      .at_most(1000);
  schema.field("balance_dimensions", balance_dimensions, "in which exponents are scanned")
      .at_least(3)
      .at_most(64);
  schema.field("multipole_dimensions", multipole_dimensions, "in which degrees are counted")
      .at_least(3)
      .at_most(256);
  schema.field("multipole_radii", multipole_radii, "of the query, whose degrees are counted")
      .above(0)
      .at_most(0.9);
  require_some(schema, "dimensions", dimensions);
  require_some(schema, "balance_dimensions", balance_dimensions);
  require_some(schema, "multipole_dimensions", multipole_dimensions);
  require_some(schema, "multipole_radii", multipole_radii);
}

constexpr std::int64_t n_parts = 6;

std::vector<Outcome> IdentitiesStudy::outcomes(const StudyContext& context) const {
  const identities::Sample sample{dimensions, n_points, n_integrals, context.seed};
  std::vector<Outcome> all;
  std::int64_t part = 0;
  const auto add = [&](const std::string& what, const std::vector<identities::Check>& checks) {
    context.progress(what, part++, n_parts);
    for (const identities::Check& check : checks) all.push_back(run_check(check, sample));
  };
  add("Moebius maps", identities::moebius_checks());
  add("temperature and radius", identities::temperature_checks());
  add("means over the sphere", identities::mean_checks());
  add("harmonic functions", identities::harmonic_checks());
  return all;
}

StudyTable table_of(const std::vector<Outcome>& outcomes, bool is_true, const std::string& title) {
  StudyTable table{.title = title, .columns = {"name", "statement", "largest deviation", "cases"}};
  for (const Outcome& outcome : outcomes)
    if (outcome.is_true == is_true)
      table.rows.push_back({outcome.name, outcome.statement, outcome.deviation,
                            static_cast<double>(outcome.n_cases)});
  return table;
}

// Returns the name and the deviation of the true statement that is off most, or of the untrue one
// that is off least.
const Outcome& closest_call(const std::vector<Outcome>& outcomes, bool is_true) {
  const auto is_before = [&](const Outcome& a, const Outcome& b) {
    if (a.is_true != b.is_true) return b.is_true == is_true;
    return is_true ? a.deviation < b.deviation : a.deviation > b.deviation;
  };
  return *std::max_element(outcomes.begin(), outcomes.end(), is_before);
}

bool are_expected(const std::vector<Outcome>& outcomes, bool is_true) {
  return std::all_of(outcomes.begin(), outcomes.end(), [&](const Outcome& outcome) {
    return outcome.is_true != is_true || outcome.is_expected();
  });
}

void show_outcomes(const std::vector<Outcome>& outcomes, StudyResult& result) {
  const auto n_true = std::count_if(outcomes.begin(), outcomes.end(),
                                    [](const Outcome& outcome) { return outcome.is_true; });
  const Outcome& worst = closest_call(outcomes, true);
  const Outcome& mildest = closest_call(outcomes, false);
  result.findings.push_back(
      fmt::format("{} identities deviate by at most {:.1e} relative, in numbers of 50 digits; the "
                  "largest deviation is that of '{}'. {} formulas that resemble one of them and "
                  "are wrong are off by at least {:.1e} ('{}').",
                  n_true, worst.deviation, worst.name, std::ssize(outcomes) - n_true,
                  mildest.deviation, mildest.name));
  result.findings.push_back(
      "The weight jacobian is the Jacobian of the Moebius map that takes the query to the centre: "
      "an average with it is a uniform average after the map. A Moebius map of all points "
      "multiplies every kernel by lambda(q)^(gamma-s) lambda(k)^(-s). The factor of the query is 1 "
      "for s = gamma alone, and that of the key is the change of area for s = d-1 alone, so only "
      "jacobian gives averages that no Moebius map changes. For newton, the factors are those of "
      "Kelvin's transformation, so that harmonic functions stay harmonic. Weights normalised by "
      "their own sum lose the query's factor and keep that of the key, as a bias.");
  result.findings.push_back(
      "The inverse temperature is beta = s sinh(rho), where rho is the query's hyperbolic distance "
      "from the centre. It is the slope of log K over the cosine u at u = r; at u = 1 the slope is "
      "beta exp(rho) and at u = 0 it is s tanh(rho), and log K spans 2 s rho. For small radii "
      "log K = beta u + r^2 (s (2 u^2 - 1) - gamma) + O(r^3): softmax of cosines to first order.");
  result.claims.push_back({"The identities hold to 40 digits",
                           fmt::format("largest deviation {:.1e}", worst.deviation),
                           are_expected(outcomes, true)});
  result.claims.push_back({"A wrong exponent does not pass for an identity",
                           fmt::format("least deviation {:.1e}", mildest.deviation),
                           are_expected(outcomes, false)});
  result.tables.push_back(table_of(outcomes, true, "Identities"));
  result.tables.push_back(table_of(outcomes, false, "Formulas that resemble them and are wrong"));
}

// Scans s from 1/4 to 5/4 (d - 1) in steps of 1/8, which meet the exponents of all weights.
void IdentitiesStudy::show_balances(StudyResult& result) const {
  Figure figure{.name = "balances",
                .title = "How far the mean of K is from 1, with the best gamma for each s",
                .x_label = "exponent s",
                .y_label = "largest |E[K] - 1| over r = 0.3, 0.6, 0.9",
                .y_axis = Axis::logarithmic};
  std::string balanced;
  bool are_three = true;
  double least_elsewhere = 1;
  for (const std::int64_t d : balance_dimensions) {
    Series series{fmt::format("d = {}", d), {}, {}};
    std::string exponents;
    int n_balanced = 0;
    for (std::int64_t eighths = 2; eighths <= 10 * (d - 1); ++eighths) {
      const double s = static_cast<double>(eighths) / 8;
      const double off = identities::imbalance(d, s);
      series.x.push_back(s);
      series.y.push_back(std::max(off, 1e-50));  // that 0 has a place on the axis
      if (off <= identities::tolerance) {
        exponents += fmt::format("{}{}", n_balanced++ == 0 ? "" : ", ", s);
        const bool is_known = 2 * s == double(d - 2) || 2 * s == double(d) || s == double(d - 1);
        are_three = are_three && is_known;
      } else {
        least_elsewhere = std::min(least_elsewhere, off);
      }
    }
    are_three = are_three && n_balanced == 3;
    balanced += fmt::format("{}{} for d = {}", balanced.empty() ? "" : "; ", exponents, d);
    figure.series.push_back(std::move(series));
  }
  result.claims.push_back(
      {"E[K] = 1 for the exponents of newton, poisson and jacobian, and for no others",
       fmt::format("s = {}; elsewhere off by at least {:.1e}", balanced, least_elsewhere),
       are_three});
  result.findings.push_back(
      "That E[K] = 1 to first order in r^2 fixes gamma = 2 s (s - d/2 + 1) / d. The second order "
      "then asks for s (s - d/2 + 1) (s - d/2) (s - d + 1) = 0, so newton, poisson and jacobian "
      "are the only balanced weights: a proof, which the scan over s illustrates.");
  result.figures.push_back(std::move(figure));
}

std::vector<double> degrees(std::size_t n) {
  std::vector<double> values;
  for (std::size_t l = 0; l < n; ++l) values.push_back(static_cast<double>(l));
  return values;
}

StudyTable multipole_table() {
  return {.title = "Degrees of the newton kernel (1 + r^2 - 2 r u)^(-(d-2)/2)",
          .columns = {"d", "r", "hump, predicted", "hump, measured", "degrees for half of K(r, 1)",
                      "degrees for 0.1 %", "degrees for 1e-12", "rate there", "rate at 50 d",
                      "relative error of the f64 sum at u = -1"}};
}

void IdentitiesStudy::show_multipoles(StudyResult& result) const {
  StudyTable table = multipole_table();
  std::int64_t farthest = 0;
  bool are_worst_at_one = true;
  double slowest = 0, far_off = 0;
  for (const std::int64_t d : multipole_dimensions) {
    Figure terms{.name = fmt::format("terms-{}", d),
                 .title = fmt::format("Terms of the expansion at u = 1, d = {}", d),
                 .x_label = "degree l",
                 .y_label = "share of K(r, 1)",
                 .y_axis = Axis::logarithmic};
    Figure errors = terms;
    errors.name = fmt::format("truncation-{}", d);
    errors.title = fmt::format("Largest error of the degrees below l, d = {}", d);
    for (const double r : multipole_radii) {
      const Multipole m = identities::multipole(d, r);
      const auto last = static_cast<std::int64_t>(m.terms.size()) - 1;
      const double rate = identities::falling_rate(d, r, last);
      const double far_rate = identities::falling_rate(d, r, 50 * d);
      const std::string label = fmt::format("r = {}, hump at {}", r, m.predicted_hump);
      terms.series.push_back({label, degrees(m.terms.size()), m.terms});
      errors.series.push_back({label, degrees(m.errors.size()), m.errors});
      table.rows.push_back({double(d), r, double(m.predicted_hump), double(m.hump),
                            double(m.degrees_for(0.5)), double(m.degrees_for(1e-3)),
                            double(last + 1), rate, far_rate, m.f64_error});
      farthest = std::max(farthest, std::abs(m.hump - m.predicted_hump));
      are_worst_at_one = are_worst_at_one && m.is_worst_at_one;
      slowest = std::max(slowest, rate / r);
      far_off = std::max(far_off, far_rate / r - 1);
    }
    result.figures.push_back(std::move(terms));
    result.figures.push_back(std::move(errors));
  }
  result.tables.push_back(std::move(table));
  result.claims.push_back(
      {"The largest term is that of degree floor(r (d-3) / (1-r)), or ties with it",
       fmt::format("at most {} degrees off", farthest), farthest <= 1});
  result.claims.push_back({"The error of a truncation is largest at u = 1",
                           are_worst_at_one ? "for every d, r and number of degrees" : "not always",
                           are_worst_at_one});
  result.claims.push_back({"In the limit, a further degree reduces the error to r times itself",
                           fmt::format("at degree 50 d, at most {:.1f} % more", 100 * far_off),
                           far_off < 0.05});
  result.claims.push_back(
      {"Past the hump, a further degree reduces the error to r times itself",
       fmt::format("up to {:.1f} r at the degree where 1e-12 is reached", slowest),
       slowest < 1.05});
  result.findings.push_back(fmt::format(
      "The terms of the expansion of the newton kernel at u = 1 are a negative binomial "
      "distribution. They grow up to degree floor(r (d-3) / (1-r)), and the measured hump is at "
      "most {} degrees from there. Before the hump, more degrees hardly help; past it, the error "
      "falls by r (d-2+l) / (l+1) a degree, up to {:.1f} times r at the degree where the error is "
      "1e-12. The rate r is that of degrees far above d.",
      farthest, slowest));
}

StudyResult IdentitiesStudy::run(const StudyContext& context) const {
  StudyResult result;
  show_outcomes(outcomes(context), result);
  context.progress("exponent balances", 4, n_parts);
  show_balances(result);
  context.progress("multipoles", 5, n_parts);
  show_multipoles(result);
  return result;
}

}  // namespace

std::unique_ptr<Study> make_identities() { return std::make_unique<IdentitiesStudy>(); }

}  // namespace mobius
