#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/error_of.h"
#include "train/studies/identities/checks.h"
#include "train/studies/identities/means.h"
#include "train/studies/identities/moebius.h"
#include "train/studies/identities/multipole.h"

namespace mobius::identities_test {

using namespace mobius::identities;

std::vector<Check> all_checks() {
  std::vector<Check> checks = moebius_checks();
  for (const auto& more : {temperature_checks(), mean_checks(), harmonic_checks()})
    checks.insert(checks.end(), more.begin(), more.end());
  return checks;
}

// In few cases; those of integrals in one dimension alone.
Outcome outcome_of(const Check& check) {
  Sample sample{{2, 3, 8}, 2, 1, 7};
  if (check.is_integral) sample.dimensions = {5};
  return run_check(check, sample);
}

TEST(Identities, TrueStatementsHoldToFortyDigits) {
  for (const Check& check : all_checks()) {
    if (!check.is_true) continue;
    EXPECT_LT(outcome_of(check).deviation, 1e-40) << check.name << ": " << check.statement;
  }
}

TEST(Identities, UntrueStatementsAreNoticed) {
  int n = 0;
  for (const Check& check : all_checks()) {
    if (check.is_true) continue;
    EXPECT_GT(outcome_of(check).deviation, 1e-3) << check.name << ": " << check.statement;
    ++n;
  }
  EXPECT_GE(n, 7);
}

TEST(Identities, ADeviationBeyondTheToleranceIsNotExpected) {
  Check check{"off", "1 = 1 + 10^-39", true, false, [](const Case&) { return Real("1e-39"); }};
  EXPECT_FALSE(outcome_of(check).is_expected());
  check.is_true = false;
  EXPECT_FALSE(outcome_of(check).is_expected());
}

TEST(Identities, CasesDependOnTheSeedAndLieWhereTheyShould) {
  const Case c = random_case(5, 1, 0);
  EXPECT_EQ(c.x, random_case(5, 1, 0).x);
  EXPECT_NE(c.x, random_case(5, 2, 0).x);
  EXPECT_LT(squared_norm(c.x), 1);
  EXPECT_LT(abs(squared_norm(c.z) - 1), 1e-45);
}

// At r = 1/2 and u = 1 in three dimensions the map of a = (1/2, 0, 0) is known by hand.
TEST(Identities, MoebiusMapOfPointsKnownByHand) {
  const Point<Real> a = {Real(0.5), 0, 0};
  EXPECT_EQ(moebius_map(a, Point<Real>{0, 0, 0}), (Point<Real>{Real(-0.5), 0, 0}));
  EXPECT_EQ(moebius_map(a, Point<Real>{1, 0, 0}), (Point<Real>{1, 0, 0}));
  EXPECT_EQ(stretch(a, Point<Real>{1, 0, 0}), 3);
  EXPECT_EQ(stretch(a, Point<Real>{0, 0, 0}), Real(0.75));
}

TEST(Balances, OnlyThreeExponentsHaveMeanOne) {
  for (const std::int64_t d : {4, 8}) {
    const double half = static_cast<double>(d) / 2;
    for (const double s : {half - 1, half, static_cast<double>(d - 1)})
      EXPECT_LT(imbalance(d, s), 1e-45) << d << " " << s;
    for (const double s : {half - 0.5, half - 1.125, half + 0.125, static_cast<double>(d)})
      EXPECT_GT(imbalance(d, s), 1e-4) << d << " " << s;
  }
}

TEST(Balances, TheMeanOfTheSquaredInverseDistanceInFourDimensionsIsKnown) {
  // d = 4, s = 1 is newton; s = 2 and gamma = 0 has the mean 1 / (1 - r^2) of poisson's.
  EXPECT_LT(abs(mean_of_kernel(4, {"", 2, 0}, Real(0.5)) - Real(4) / 3), 1e-45);
}

TEST(Multipole, TheHumpIsWhereTheTermsStopGrowing) {
  for (const auto& [d, r] : {std::pair{64, 0.2}, {64, 0.0643}, {128, 0.8}, {8, 0.5}}) {
    const Multipole m = multipole(d, r);
    EXPECT_NEAR(static_cast<double>(m.hump), static_cast<double>(m.predicted_hump), 1) << d;
    EXPECT_TRUE(m.is_worst_at_one);
    // Before the hump most of the kernel is still missing.
    EXPECT_GT(m.errors[static_cast<std::size_t>(m.hump)], 0.4);
    EXPECT_GT(m.degrees_for(0.5), m.hump - 2);
    EXPECT_LT(m.degrees_for(0.5), m.degrees_for(1e-3));
  }
}

// In three dimensions every term at u = 1 is r^l (1 - r), and the error is r^l.
TEST(Multipole, InThreeDimensionsErrorsAreAGeometricSeries) {
  const Multipole m = multipole(3, 0.5);
  EXPECT_EQ(m.predicted_hump, 0);
  for (std::size_t l = 0; l < m.terms.size(); ++l) {
    EXPECT_DOUBLE_EQ(m.errors[l], std::pow(0.5, l));
    EXPECT_DOUBLE_EQ(m.terms[l], std::pow(0.5, l + 1));
  }
  EXPECT_DOUBLE_EQ(falling_rate(3, 0.5, 10), 0.5);
}

TEST(Multipole, ErrorsFallAtTheRateOfTheirTerms) {
  const Multipole m = multipole(64, 0.2);
  const std::size_t last = m.errors.size() - 2;
  EXPECT_NEAR(m.errors[last + 1] / m.errors[last],
              falling_rate(64, 0.2, static_cast<std::int64_t>(last)), 1e-6);
  EXPECT_NEAR(falling_rate(64, 0.2, 100000), 0.2, 1e-3);
}

TEST(Multipole, SumsInDoublePrecisionLoseTheFarSideOfTheSphere) {
  EXPECT_LT(multipole(8, 0.2).f64_error, 1e-9);
  EXPECT_GT(multipole(128, 0.5).f64_error, 1e30);
}

TEST(Multipole, RefusesARadiusOutsideTheBall) {
  EXPECT_THAT(error_of([] { multipole(8, 1); }), ::testing::HasSubstr("r = 1"));
  EXPECT_THAT(error_of([] { multipole(2, 0.5); }), ::testing::HasSubstr("d = 2"));
}

}  // namespace mobius::identities_test
