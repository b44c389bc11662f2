// The shapes of kernels: what the weight of a key is at each angle to the query.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace e3_kernels {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// The weights of the layer without normalisation, for one query of this inverse temperature along
// the first axis and keys at the cosines.
std::vector<double> layer_weights(const ConformalKernel& kernel, double beta,
                                  const std::vector<double>& cosines) {
  const HeadInputs in{
      .q = Variable(query_of(beta, kernel.d)), .k = Variable(keys_at(cosines, kernel.d)), .v = {}};
  const Variable alpha = f64_scalar(1);
  return attention_weights(conformal_call(in, alpha, kernel, ConformalNormalize::none))
      .data()
      .to_vector<double>();
}

// The angle in degrees at which 1 - u has this value; nothing if no angle has.
double angle_of(double one_minus_u) {
  if (one_minus_u > 2) return nothing;
  return 2 * std::asin(std::sqrt(one_minus_u / 2)) * 180 / std::numbers::pi;
}

// The angle at which the weight is half of its maximum.
double half_angle(const RadiusValue& radius, double s) {
  const auto [r, one_minus_r] = radius;
  return angle_of(std::expm1(std::numbers::ln2 / s) * one_minus_r * one_minus_r / (2 * r));
}

double softmax_half_angle(double beta) { return angle_of(std::numbers::ln2 / beta); }

class KernelsStudy final : public Study {
 public:
  std::int64_t d = 64;
  ConformalWeight weight = ConformalWeight::newton;
  std::vector<double> betas = {4, 16, 64, 256};
  double compared_beta = 16;
  std::int64_t n_points = 201;

  std::string name() const override { return "e3_kernels"; }
  std::string question() const override {
    return "How does the weight of a key fall with its angle to the query, and what do equal "
           "inverse temperatures of conformal attention and softmax have in common?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  ConformalKernel kernel() const { return conformal_kernel(weight, d); }
  std::vector<double> cosines() const { return evenly(-1, 1, n_points); }

  void show_shapes(StudyResult& result) const;
  void show_weights(StudyResult& result) const;
  void show_widths(StudyResult& result) const;
  void compare_slopes(StudyResult& result) const;
  void check_radius(StudyResult& result) const;
};

void KernelsStudy::describe(Schema& schema) {
  schema.field("d", d, "dimension of a head").at_least(2).at_most(4096);
  schema.choice("weight", weight,
                {{"newton", ConformalWeight::newton},
                 {"poisson", ConformalWeight::poisson},
                 {"jacobian", ConformalWeight::jacobian}},
                "exponents of the kernel in the figures of one weight");
  schema.field("betas", betas, "inverse temperatures of these figures").positive();
  schema.field("compared_beta", compared_beta, "at which the weights are compared").positive();
  schema.check("betas", [this] {
    for (const double beta : betas) require_below_cap(beta, kernel().s);
  });
  schema.check("compared_beta", [this] { require_below_cap(compared_beta, kernel().s); });
  schema.field("n_points", n_points, "points of a curve").at_least(3).at_most(100000);
  require_some(schema, "betas", betas);
}

// Curves over the cosine, and how far the layer is from the closed form.
void KernelsStudy::show_shapes(StudyResult& result) const {
  const double s = kernel().s;
  const std::vector<double> u = cosines();
  Figure shapes{.name = "shapes",
                .title = fmt::format("Weight over the cosine, d = {}", d),
                .x_label = "cosine u between query and key",
                .y_label = "weight, 1 at u = 1"};
  Figure logs = shapes;
  logs.name = "logs";
  logs.title = fmt::format("Log of the weight over the cosine, d = {}", d);
  logs.y_label = "log of the weight";
  double largest_error = 0;
  for (const double beta : betas) {
    const RadiusValue radius = radius_of(beta, s);
    const std::vector<double> weights = layer_weights(kernel(), beta, u);
    const std::vector<double> log_weights =
        each(u, [&](double cosine) { return log_weight(radius, cosine, s); });
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double exact = std::exp(log_weights[i]);
      if (exact > std::numeric_limits<double>::min())
        largest_error = std::max(largest_error, std::abs(weights[i] / exact - 1));
    }
    const std::string label =
        fmt::format("beta = {}, r = {}", short_number(beta), short_number(radius.r));
    shapes.series.push_back({"conformal, " + label, u, weights});
    logs.series.push_back({"conformal, " + label, u, log_weights});
    logs.series.push_back({fmt::format("softmax, beta = {}", short_number(beta)), u,
                           each(u, [&](double cosine) { return beta * (cosine - 1); })});
  }
  result.findings.push_back(fmt::format(
      "The weights that the layer computes in f64 differ from the closed form by at most {} of "
      "their value, at {} inverse temperatures and {} cosines.",
      short_number(largest_error), betas.size(), u.size()));
  result.figures.push_back(std::move(shapes));
  result.figures.push_back(std::move(logs));
}

void KernelsStudy::show_weights(StudyResult& result) const {
  const std::vector<double> u = cosines();
  Figure figure{.name = "weights",
                .title = fmt::format("Log of the weight at beta = {}, d = {}",
                                     short_number(compared_beta), d),
                .x_label = "cosine u between query and key",
                .y_label = "log of the weight"};
  StudyTable table{
      .title = fmt::format("Kernels at beta = {}, d = {}", short_number(compared_beta), d),
      .columns = {"kernel", "s", "r", "slope at u = 1", "slope at u = r", "slope at u = 0",
                  "log weight at u = -1"}};
  for (const auto& [label, which] : named_weights) {
    const double s = conformal_kernel(which, d).s;
    const RadiusValue radius = radius_of(compared_beta, s);
    figure.series.push_back(
        {label, u, each(u, [&](double cosine) { return log_weight(radius, cosine, s); })});
    table.rows.push_back({label, s, radius.r, log_weight_slope(radius, 1, s),
                          log_weight_slope(radius, radius.r, s), log_weight_slope(radius, 0, s),
                          log_weight(radius, -1, s)});
  }
  figure.series.push_back(
      {"softmax", u, each(u, [&](double cosine) { return compared_beta * (cosine - 1); })});
  table.rows.push_back(
      {"softmax", "", "", compared_beta, compared_beta, compared_beta, -2 * compared_beta});
  result.figures.push_back(std::move(figure));
  result.tables.push_back(std::move(table));
}

void KernelsStudy::show_widths(StudyResult& result) const {
  constexpr std::int64_t n = 61;
  const std::vector<double> range = geometric(1, 1e4, n);
  Figure widths{.name = "widths",
                .title = fmt::format("Angle at which the weight is halved, d = {}", d),
                .x_label = "inverse temperature beta",
                .y_label = "angle (degrees)",
                .x_axis = Axis::logarithmic,
                .y_axis = Axis::logarithmic};
  Figure radii{.name = "radii",
               .title = fmt::format("Radius of a query, d = {}", d),
               .x_label = "inverse temperature beta",
               .y_label = "radius r",
               .x_axis = Axis::logarithmic};
  for (const auto& [label, which] : named_weights) {
    const double s = conformal_kernel(which, d).s;
    widths.series.push_back({label, range, each(range, [&](double beta) {
                               return half_angle(radius_of(beta, s), s);
                             })});
    radii.series.push_back(
        {label, range, each(range, [&](double beta) { return radius_of(beta, s).r; })});
  }
  widths.series.push_back({"softmax", range, each(range, softmax_half_angle)});
  const double s = kernel().s, beta = range.back();
  const double conformal = half_angle(radius_of(beta, s), s), softmax = softmax_half_angle(beta);
  result.findings.push_back(fmt::format(
      "At beta = {}, the conformal weight is halved at {} degrees and that of softmax at {}: for "
      "sharp queries the angle falls as 1/beta in the first and as 1/sqrt(beta) in the second.",
      short_number(beta), short_number(conformal), short_number(softmax)));
  result.figures.push_back(std::move(widths));
  result.figures.push_back(std::move(radii));
}

// The slope of the log weight at u = 1, where softmax's is beta, against beta, by a difference of
// weights of the layer.
void KernelsStudy::compare_slopes(StudyResult& result) const {
  const double s = kernel().s;
  const RadiusValue radius = radius_of(compared_beta, s);
  const auto measured = [&](double u) {
    constexpr double step = 1e-5;
    const std::vector<double> weights =
        layer_weights(kernel(), compared_beta, {std::min(u + step, 1.0), u - step});
    return std::log(weights[0] / weights[1]) / (std::min(u + step, 1.0) - (u - step));
  };
  constexpr double tolerance = 1e-3;
  const double at_one = measured(1), at_r = measured(radius.r);
  const double expected = compared_beta * (1 + radius.r) / radius.one_minus_r;
  result.claims.push_back(
      {fmt::format("Equal beta means an equal slope of the log weight at u = 1 (beta = {})",
                   short_number(compared_beta)),
       fmt::format("{}, and beta (1 + r) / (1 - r) is {}", short_number(at_one),
                   short_number(expected)),
       std::abs(at_one / compared_beta - 1) < tolerance});
  result.claims.push_back(
      {fmt::format("Equal beta means an equal slope of the log weight at u = r (beta = {}, r = {})",
                   short_number(compared_beta), short_number(radius.r)),
       short_number(at_r), std::abs(at_r / compared_beta - 1) < tolerance});
  result.findings.push_back(fmt::format(
      "The inverse temperature is the slope of the log weight at u = r, not at u = 1: with beta = "
      "{}, the slope is {} at u = r = {}, {} at u = 1 and {} at u = 0, while softmax has {} "
      "everywhere.",
      short_number(compared_beta), short_number(at_r), short_number(radius.r), short_number(at_one),
      short_number(log_weight_slope(radius, 0, s)), short_number(compared_beta)));
}

// Earlier texts give two values with four digits.
void KernelsStudy::check_radius(StudyResult& result) const {
  constexpr double beta = 4, s = 31, half_a_digit = 5e-5;
  const double r = radius_of(beta, s).r;
  for (const double claimed : {0.0629, 0.0643}) {
    result.claims.push_back({fmt::format("r(beta = {}, s = {}) = {}", beta, s, claimed),
                             fmt::format("{:.6f}; {} is the radius of beta = {:.4f}", r, claimed,
                                         radius_to_beta(claimed, s)),
                             std::abs(r - claimed) <= half_a_digit});
  }
}

StudyResult KernelsStudy::run(const StudyContext& context) const {
  StudyResult result;
  context.progress("shapes", 0, 3);
  show_shapes(result);
  context.progress("weights", 1, 3);
  show_weights(result);
  compare_slopes(result);
  check_radius(result);
  context.progress("widths", 2, 3);
  show_widths(result);
  return result;
}

}  // namespace
}  // namespace e3_kernels

std::unique_ptr<Study> make_e3_kernels() { return std::make_unique<e3_kernels::KernelsStudy>(); }

}  // namespace mobius
