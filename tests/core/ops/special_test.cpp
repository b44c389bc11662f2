// log 2F1(s, s - d/2 + 1; d/2; x) against values computed with 60 digits by mpmath 1.3
// (hyp2f1, and its derivative a b / c 2F1(a + 1, b + 1; c + 1; x)).
#include <cmath>

#include "core/error.h"
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::special_test {
namespace {

struct Reference {
  double s, d, x, value, slope;
};

constexpr Reference references[] = {
    {0.25, 2, 0.3, 0.021186202302600227666, 0.080479024447344713691},
    {0.5, 3, 0.7, 0.0, 0.0},
    {1, 2, 0.95, 2.9957322735539901053, 19.999999999999982236},
    {1, 4, 0.99998, 0.0, 0.0},
    {1.5, 3, 0.99, 4.6051701859880904799, 99.999999999999911182},
    {2, 5, 0.999, 1.7003088910357062746, 136.17477166822074559},
    {0.5, 8, 0.9, -0.25889676482897519486, -0.257721185958870571},
    {0.25, 16, 0.99998, -0.16233000949160819706, -0.12500112500875005532},
    {2.5, 5, 0.01, 0.010050335853501441394, 1.0101010101010101012},
    {3, 8, 0.99998, 0.0, 0.0},
    {7.3, 16, 0.95, 0.67393929379251780053, 3.2580989943953635256},
    {7.3, 16, 0.99998, 1.1133465386411500684, 424.00277994732855529},
    {15, 32, 0.99, 0.0, 0.0},
    {31, 64, 0.99998, 0.0, 0.0},
    {31.5, 64, 0.99998, 3.2524775839629843677, 6085.7259321847270019},
    {32, 64, 0.999, 6.9077552789821361639, 999.99999999999911182},
    {63, 64, 0.99998, 681.64603191778483037, 3149999.99999684972},
    {1, 64, 0.99998, -0.67687665963985960864, -0.50000483055339023514},
    {0.5, 64, 0.3, -0.1269282746243052956, -0.37680483256582520022},
    {100, 64, 0.999, 978.84248690422186822, 137018.51172499784589},
    {15, 128, 0.99, -9.2423506845496624019, -7.5312770224187982064},
    {63, 128, 0.99998, 0.0, 0.0},
    {0.5, 1, 0.91, 2.4079456086518723306, 11.111111111111114949},
    {3, 1, 0.99998, 68.384375609030422148, 300001.50002220034834},
    {100, 8, 0.7, 334.81227756023245937, 703.63773691281945641},
    {255, 512, 0.99998, 0.0, 0.0},
    {300, 512, 0.95, 208.15077431650936711, 1678.6792724346063027},
    {2, 64, 1e-12, -1.8124999999993357235e-12, -1.8124999999986715199},
    {1.5, 4, 0.9999999, 2.3751796162118227358, 592041.60385633718698},
    // F itself is far beyond the range of double.
    {1000, 64, 0.99998, 22160.2770997693884, 96850468.506854488787},
    {2000, 3, 0.97, 16751.121367700783683, 134288.71733948583815},
    {1000, 16, 0.5, 2395.5564025401688401, 4784.722613573173249},
};

LogHyp2f1Result at(double s, double d, const Tensor& x) {
  return log_hyp2f1(s, s - d / 2 + 1, d / 2, x);
}

TEST(LogHyp2f1, MatchesManyDigits) {
  for (const Reference& r : references) {
    const LogHyp2f1Result got = at(r.s, r.d, placed::from(std::vector<double>{r.x}, {1}));
    EXPECT_NEAR(got.value.item(), r.value, 1e-11 * std::abs(r.value) + 1e-13) << r.s << " " << r.d;
    EXPECT_NEAR(got.derivative.item(), r.slope, 1e-11 * std::abs(r.slope)) << r.s << " " << r.d;
  }
}

TEST(LogHyp2f1, DoesNotDependOnTheOtherElements) {
  const std::vector<double> xs{0.99998, 0.1, 0.93, 0, 0.9};
  const LogHyp2f1Result all = at(7.3, 16, placed::from(xs, {5}));
  for (std::int64_t i = 0; i < 5; ++i) {
    const Tensor one = placed::from(std::vector<double>{xs[static_cast<std::size_t>(i)]}, {1});
    EXPECT_EQ(at(7.3, 16, one).value.item(), all.value.slice(0, i, i + 1).item());
    EXPECT_EQ(at(7.3, 16, one).derivative.item(), all.derivative.slice(0, i, i + 1).item());
  }
}

TEST(LogHyp2f1, StartsAtZeroWithItsSlope) {
  const LogHyp2f1Result got = at(2, 8, placed::zeros({1}, DType::f64));
  EXPECT_EQ(got.value.item(), 0);
  EXPECT_DOUBLE_EQ(got.derivative.item(), 2.0 * -1.0 / 4.0);
}

TEST(LogHyp2f1, IsContinuousWhereThePiecesMeet) {
  for (const double border : {0.9, 0.95, 0.975}) {
    const std::vector<double> xs{std::nextafter(border, 0), border, std::nextafter(border, 1)};
    for (const auto& [s, d] : {std::pair{7.3, 16.0}, {40.0, 16.0}}) {
      const LogHyp2f1Result got = at(s, d, placed::from(xs, {3}));
      const std::vector<double> y = got.value.to_vector<double>();
      const std::vector<double> dy = got.derivative.to_vector<double>();
      for (const std::size_t i : {0u, 2u}) {
        EXPECT_NEAR(y[i], y[1], 1e-12 * std::abs(y[1])) << border;
        EXPECT_NEAR(dy[i], dy[1], 1e-12 * std::abs(dy[1])) << border;
      }
    }
  }
}

TEST(LogHyp2f1, F32RoundsTheResultOnly) {
  const Tensor x = placed::from(std::vector<float>{0.25f, 0.97f}, {2});
  const LogHyp2f1Result got = at(7.3, 16, x), want = at(7.3, 16, x.to(DType::f64));
  EXPECT_EQ(got.value.to_vector<float>(), want.value.to_vector<float>());
  EXPECT_EQ(got.derivative.to_vector<float>(), want.derivative.to_vector<float>());
}

TEST(LogHyp2f1, RefusesParametersWithoutAPositiveForm) {
  const Tensor x = placed::full({1}, 0.5, DType::f64);
  EXPECT_THROW(log_hyp2f1(2, -1.5, 0.3, x), Error);
  EXPECT_THROW(log_hyp2f1(1, 1, -2, x), Error);
  EXPECT_THROW(log_hyp2f1(std::nan(""), 1, 2, x), Error);
}

TEST(LogHyp2f1, OutsideTheIntervalIsNaN) {
  const Tensor x = placed::from(std::vector<double>{-0.1, 1, std::nan("")}, {3});
  const LogHyp2f1Result got = at(2.5, 5, x);
  for (const double y : got.value.to_vector<double>()) EXPECT_TRUE(std::isnan(y));
  for (const double dy : got.derivative.to_vector<double>()) EXPECT_TRUE(std::isnan(dy));
}

TEST(LogHyp2f1, SameBitsForEveryThreadCount) {
  const Tensor x = testing::random_tensor<double>({3000}, 1, 0, 0.9999);
  testing::expect_same_for_every_thread_count<double>([&] { return at(3.7, 16, x).value; });
}

}  // namespace
}  // namespace mobius::special_test
