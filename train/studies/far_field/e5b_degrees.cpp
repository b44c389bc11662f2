// The conformal kernel by degrees in closed form: where its energy lies, and what any far field of
// m features can reach.
#include <fmt/format.h>

#include <cmath>

#include "nn/attention/conformal/degrees.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace e5b_degrees {
namespace {

// One kernel: the dimension and the inverse temperature of the query.
struct Sharpness {
  std::int64_t d;
  double beta;

  ConformalKernel kernel() const { return conformal_kernel(ConformalWeight::newton, d); }
  double radius() const { return radius_of(beta, kernel().s).r; }
  double least_error(std::int64_t m) const { return mobius::least_error(kernel(), radius(), m); }
  std::string name() const { return fmt::format("d = {}, beta = {}", d, short_number(beta)); }
};

// The features that keep all degrees up to this one.
double features_up_to(std::int64_t d, std::int64_t degree) {
  double total = 0;
  for (std::int64_t l = 0; l <= degree; ++l) total += harmonics_of_degree(d, l);
  return total;
}

// What they leave of the kernel.
double error_after(const Sharpness& of, std::int64_t degree) {
  constexpr std::int64_t all = 1000;
  const std::vector<double> shares = degree_shares(of.kernel(), of.radius(), all);
  double lost = 0;
  for (std::int64_t l = all - 1; l > degree; --l) lost += shares[static_cast<std::size_t>(l)];
  return std::sqrt(lost);
}

// The mean degree of the kernel's energy.
double mean_degree(const Sharpness& of) {
  const std::vector<double> shares = degree_shares(of.kernel(), of.radius(), 400);
  double mean = 0;
  for (std::size_t l = 0; l < shares.size(); ++l) mean += static_cast<double>(l) * shares[l];
  return mean;
}

class DegreesStudy final : public Study {
 public:
  std::string name() const override { return "e5b_degrees"; }
  std::string question() const override {
    return "In which degrees does the energy of the kernel lie, and how close can any far field "
           "with m features come to it?";
  }
  void describe(Schema& schema) override {
    schema.field("d", d_, "dimension of a head in the figures").at_least(3).at_most(256);
    schema.field("dims", dims_, "dimensions in the table").at_least(3).at_most(256);
    require_some(schema, "dims", dims_);
    schema.field("betas", betas_, "inverse temperatures of the queries").above(0).at_most(200);
    schema.field("n_degrees", n_degrees_, "degrees shown").at_least(3).at_most(200);
    schema.field("target", target_, "error that a far field should reach").above(0).below(1);
    require_some(schema, "betas", betas_);
  }
  StudyResult run(const StudyContext& context) const override;

 private:
  std::int64_t d_ = 64;
  std::vector<std::int64_t> dims_ = {16, 64, 128};
  std::vector<double> betas_ = {1, 3, 6, 12, 32};
  std::int64_t n_degrees_ = 24;
  double target_ = 0.05;

  Figure shares() const;
  Figure bounds() const;
  void show_table(StudyResult& result) const;
  std::string finding(double beta) const;
  Claim poisson_claim() const;
};

Figure DegreesStudy::shares() const {
  Figure figure{.name = "shares",
                .title = fmt::format("Share of the kernel's energy in each degree, d = {}", d_),
                .x_label = "degree",
                .y_label = "share of the energy"};
  for (const double beta : betas_) {
    const Sharpness of{d_, beta};
    figure.series.push_back({fmt::format("beta = {}", short_number(beta)),
                             evenly(0, static_cast<double>(n_degrees_ - 1), n_degrees_),
                             degree_shares(of.kernel(), of.radius(), n_degrees_)});
  }
  return figure;
}

Figure DegreesStudy::bounds() const {
  Figure figure{.name = "bounds",
                .title = fmt::format("Least error of any m features, uniform keys, d = {}", d_),
                .x_label = "features m",
                .y_label = "least relative error",
                .x_axis = Axis::logarithmic,
                .y_axis = Axis::logarithmic};
  for (const double beta : betas_) {
    const Sharpness of{d_, beta};
    Series series{.name = fmt::format("beta = {}", short_number(beta))};
    for (const double m : geometric(1, 1e5, 60)) {
      const double error = of.least_error(std::llround(m));
      if (error < 1e-6) break;
      series.x.push_back(std::round(m));
      series.y.push_back(error);
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

void DegreesStudy::show_table(StudyResult& result) const {
  StudyTable table{.title = "Least error of any far field, by its features",
                   .columns = {"d", "beta", "r", "r^2 d", "mean degree", "48 features",
                               "degrees 0 and 1: d + 1", "degrees 0 to 2", "degrees 0 to 3"}};
  for (const std::int64_t d : dims_) {
    for (const double beta : betas_) {
      const Sharpness of{d, beta};
      const double r = of.radius();
      table.rows.push_back(
          {static_cast<double>(d), beta, r, r * r * static_cast<double>(d), mean_degree(of),
           of.least_error(48), of.least_error(features_up_to(d, 1)),
           of.least_error(features_up_to(d, 2)), of.least_error(features_up_to(d, 3))});
    }
  }
  result.tables.push_back(std::move(table));
}

std::string DegreesStudy::finding(double beta) const {
  const Sharpness of{d_, beta};
  std::int64_t degree = 0;
  while (error_after(of, degree) > target_) ++degree;
  return fmt::format(
      "For {}, a query at radius {:.4f}, the mean and the dipole ({} features) leave an error of "
      "at least {:.3g} on uniform keys, and no 48 features leave less than {:.3g}; an error of {} "
      "takes the degrees up to {}, which are {:.3g} features.",
      of.name(), of.radius(), features_up_to(d_, 1), error_after(of, 1), of.least_error(48),
      short_number(target_), degree, features_up_to(d_, degree));
}

// The energy of degree l is about (r^2 d)^l / l! of that of degree 0.
Claim DegreesStudy::poisson_claim() const {
  double worst = 0;
  for (const double beta : betas_) {
    const Sharpness of{d_, beta};
    const double expected = of.radius() * of.radius() * static_cast<double>(d_);
    worst = std::max(worst, std::abs(mean_degree(of) / expected - 1));
  }
  return {.statement = fmt::format("The mean degree of the energy is r^2 d, within a quarter, for "
                                   "all inverse temperatures shown at d = {}",
                                   d_),
          .measured = fmt::format("it differs by at most {:.1f} %", 100 * worst),
          .holds = worst < 0.25};
}

StudyResult DegreesStudy::run(const StudyContext& context) const {
  StudyResult result;
  context.progress("shares", 0, 3);
  result.figures.push_back(shares());
  context.progress("bounds", 1, 3);
  result.figures.push_back(bounds());
  for (const double beta : betas_) result.findings.push_back(finding(beta));
  context.progress("dimensions", 2, 3);
  show_table(result);
  const Sharpness mild{d_, betas_.front()};
  result.claims = {poisson_claim(),
                   {.statement = fmt::format("Some 48 features reach an error of {} for {}",
                                             short_number(target_), mild.name()),
                    .measured = fmt::format("no 48 features leave less than {:.3g} on uniform keys",
                                            mild.least_error(48)),
                    .holds = mild.least_error(48) <= target_}};
  return result;
}

}  // namespace
}  // namespace e5b_degrees

std::unique_ptr<Study> make_e5b_degrees() { return std::make_unique<e5b_degrees::DegreesStudy>(); }

}  // namespace mobius
