// The studies of the kernel: e1, e2 and e3, with fewer points than they have by default.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/error_of.h"
#include "train/results/study_run.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius::kernels_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

StudyReport run(const std::string& text) {
  const Registry<Study> studies = builtin_studies();
  const StudyRun study(ConfigDocument::from_text(text, "run.yaml"), studies);
  std::int64_t last = -1;
  StudyReport report =
      study.run([&last](const std::string&, std::int64_t done, std::int64_t total) {
        EXPECT_EQ(done, last + 1);
        EXPECT_LT(done, total);
        last = done;
      });
  return report;
}

std::vector<bool> holds(const StudyReport& report) {
  std::vector<bool> result;
  for (const Claim& claim : report.result.claims) result.push_back(claim.holds);
  return result;
}

double number_in(const StudyTable& table, std::size_t row, std::size_t column) {
  return std::get<double>(table.rows.at(row).at(column));
}

TEST(KernelValues, AreThoseOfTheDefinition) {
  for (const double beta : {0.5, 4.0, 100.0}) {
    for (const double s : {1.5, 31.0}) {
      const RadiusValue radius = radius_of(beta, s);
      const double r = radius.r;
      EXPECT_NEAR(2 * s * r / (1 - r * r), beta, 1e-9 * beta);
      for (const double u : {-1.0, 0.2, 1.0}) {
        const auto log_k = [&](double cosine) { return -s * std::log(1 + r * r - 2 * r * cosine); };
        EXPECT_NEAR(log_weight(radius, u, s), log_k(u) - log_k(1), 1e-9);
        constexpr double h = 1e-7;
        EXPECT_NEAR(log_weight_slope(radius, u, s), (log_k(u + h) - log_k(u - h)) / (2 * h),
                    1e-5 * log_weight_slope(radius, 1, s));
      }
    }
  }
}

TEST(Ranges, HaveTheirEnds) {
  EXPECT_THAT(evenly(-1, 1, 3), ElementsAre(-1, 0, 1));
  EXPECT_EQ(geometric(1, 1e5, 6).back(), 1e5);
  EXPECT_NEAR(geometric(1, 1e5, 6)[2], 100, 1e-9);
  EXPECT_NEAR(first_where(0, 10, [](double x) { return x * x > 2; }), std::numbers::sqrt2, 1e-5);
  EXPECT_EQ(first_where(0, 10, [](double) { return false; }), 10);
}

TEST(Normalizer, FindsThatTheMeanIsOne) {
  const StudyReport report =
      run("{experiment: e1_normalizer, dims: [8, 24], radii: [0.1, 0.5, 0.9], n_samples: 20000, "
          "n_keys: [256], n_trials: 50}");
  // An integral, a sample, the aligned key at the limit; and the sum over random keys, which d = 8
  // misses by more than 10 %.
  EXPECT_THAT(holds(report), ElementsAre(true, true, true, false));
  const StudyTable& sums = report.result.tables.at(1);
  for (std::size_t row = 0; row < sums.rows.size(); ++row) {
    const double measured = number_in(sums, row, 4), exact = number_in(sums, row, 5);
    EXPECT_NEAR(measured / exact, 1, 0.3);
    EXPECT_NEAR(number_in(sums, row, 2), 1 - std::pow(256, -1 / (number_in(sums, row, 0) - 2)),
                1e-12);
  }
}

// By hand: s = 3, d = 8: E[K^2] = 2F1(6, 3; 4; r^2), whose series converges fast at r = 0.2.
TEST(Normalizer, KnowsTheVarianceOfAWeight) {
  const StudyReport report =
      run("{experiment: e1_normalizer, dims: [8], radii: [0.2], n_samples: 1000, n_keys: [256], "
          "n_trials: 2}");
  double term = 1, sum = 1;
  for (int k = 0; k < 60; ++k) {
    term *= (6.0 + k) * (3.0 + k) / (4.0 + k) / (k + 1) * 0.04;
    sum += term;
  }
  const std::vector<Series>& curves = report.result.figures.at(1).series;
  const auto exact = std::ranges::find(curves, "d = 8, exact", &Series::name);
  ASSERT_NE(exact, curves.end());
  EXPECT_NEAR(exact->y.at(0), std::sqrt((sum - 1) / 1000), 1e-9);
}

TEST(Stability, FindsWhereNaiveSoftmaxOverflows) {
  const StudyReport report = run("{experiment: e2_stability, d: 16, n: 16, n_betas: 4, seed: 5}");
  EXPECT_THAT(holds(report), Each(true));
  const StudyTable& limits = report.result.tables.at(0);
  EXPECT_NEAR(number_in(limits, 0, 1), 709.78, 0.01);
  EXPECT_NEAR(number_in(limits, 0, 2), 88.72, 0.01);
  EXPECT_EQ(std::get<std::string>(limits.rows[1][2]), "never");
  EXPECT_EQ(std::get<std::string>(limits.rows[2][2]), "never");
  for (const Figure& figure : report.result.figures) {
    for (const Series& series : figure.series) {
      EXPECT_THAT(series.y, Each(::testing::Ge(0))) << figure.name << ": " << series.name;
    }
  }
}

TEST(Kernels, ChecksWhatEarlierTextsSay) {
  const StudyReport report = run("{experiment: e3_kernels, n_points: 5}");
  EXPECT_THAT(holds(report), ElementsAre(false, true, false, false));
  EXPECT_EQ(report.result.claims[2].statement, "r(beta = 4, s = 31) = 0.0629");
  EXPECT_THAT(report.result.claims[2].measured, HasSubstr("0.064250"));
  const double exact = (std::sqrt(31.0 * 31.0 + 16) - 31) / 4;
  EXPECT_NEAR(exact, 0.064250, 5e-7);
}

// The angle at which a weight is halved, by the weights themselves.
TEST(Kernels, KnowsTheirWidth) {
  const StudyReport report = run("{experiment: e3_kernels, d: 10, n_points: 3}");
  const auto& widths = *std::ranges::find(report.result.figures, "widths", &Figure::name);
  ASSERT_EQ(widths.series.front().name, "newton");
  for (std::size_t i = 10; i < widths.series.front().x.size(); i += 10) {
    const RadiusValue radius = radius_of(widths.series.front().x[i], 4);
    const double angle = widths.series.front().y[i] * std::numbers::pi / 180;
    EXPECT_NEAR(std::exp(log_weight(radius, std::cos(angle), 4)), 0.5, 1e-5);
  }
}

TEST(Kernels, TakesTheSmallestAndTheLargestOptions) {
  for (const char* options :
       {"{experiment: e3_kernels, d: 2, n_points: 3}",
        "{experiment: e3_kernels, betas: [1e-9, 3e6], compared_beta: 3e6, n_points: 3}",
        "{experiment: e2_stability, d: 5, n: 2, n_betas: 2}",
        "{experiment: e1_normalizer, dims: [3], radii: [0.998], n_samples: 100, n_keys: [2], "
        "n_trials: 2}"}) {
    EXPECT_EQ(error_of([&] { run(options); }), "no error") << options;
  }
}

TEST(Kernels, RefusesWhatItCannotCompare) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{experiment: e1_normalizer, dims: []}", "dims: expected at least one number"},
      {"{experiment: e3_kernels, betas: []}", "betas: expected at least one number"},
      {"{experiment: e1_normalizer, dims: [2]}", "dims: must be in [3, 1024], got 2"},
      {"{experiment: e2_stability, d: 4}", "largest_beta: expected at most "},
      {"{experiment: e3_kernels, betas: [1e9]}", "betas: expected at most "},
      {"{experiment: e3_kernels, compared_beta: 1e9}", "where the radius meets its cap 0.99999"},
      {"{experiment: e3_kernels, weight: custom}", "known: newton, poisson, jacobian"}};
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(error_of([&text = text] { run(text); }), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace mobius::kernels_test
