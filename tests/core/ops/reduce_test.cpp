// Reductions against long double loops, over ragged and long shapes.
#include <algorithm>
#include <limits>

#include "tests/core/ops/kernel_testing.h"
#include "tests/error_of.h"

namespace mobius::reduce_test {
namespace {

using testing::counting;
using Values = std::vector<double>;
using testing::near;

struct Sizes {
  std::int64_t outer, reduced, inner;

  std::size_t at(std::int64_t o, std::int64_t r, std::int64_t i) const {
    return static_cast<std::size_t>((o * reduced + r) * inner + i);
  }
  Shape shape() const { return {outer, reduced, inner}; }
};

// Chunks are 2^15 elements and blocks 1024 columns: shapes on both sides of either.
std::vector<Sizes> size_cases() {
  std::vector<Sizes> cases{{3, 32768, 1}, {2, 32769, 1}, {1, 100003, 1}, {5, 0, 3},
                           {0, 5, 3},     {5, 3, 0},     {1, 5003, 7},   {2, 70, 1025},
                           {3, 33, 512},  {2, 40000, 2}, {1000, 3, 40},  {2, 1, 5000},
                           {1, 9000, 65}, {4, 9, 1024}};
  for (const std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65}) {
    cases.push_back({3, n, 1});
    cases.push_back({3, n, 5});
    cases.push_back({3, 5, n});
  }
  return cases;
}

template <class T>
class Reduce : public ::testing::Test {
 protected:
  static Tensor values(const Sizes& s, std::uint64_t seed) {
    return testing::misaligned(testing::random_values<T>(numel(s.shape()), -2, 2, seed))
        .reshape(s.shape());
  }
  static Tensor sum(const Tensor& x, const Sizes& s) {
    const Tensor out = placed::full({s.outer, s.inner}, 77, x.dtype());
    tested.reduce->sum(x, s.outer, s.reduced, s.inner, out);
    return out;
  }
  static Tensor cumsum(const Tensor& x, const Sizes& s, bool reverse) {
    const Tensor out = x.empty_like();
    tested.reduce->cumsum(x, s.outer, s.reduced, s.inner, reverse, out);
    return out;
  }
};

using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Reduce, RealTypes);

// The sum is rounded to T once; in double it collects at most 1/2 ulp for each of the additions
// that one element goes through: far fewer than n, but n bounds them.
TYPED_TEST(Reduce, SumsAreAccurate) {
  for (const Sizes& s : size_cases()) {
    const Tensor x = this->values(s, 1);
    const auto v = x.template to_vector<TypeParam>();
    const auto got = this->sum(x, s).template to_vector<TypeParam>();
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (std::int64_t i = 0; i < s.inner; ++i) {
        long double want = 0, size = 0;
        for (std::int64_t r = 0; r < s.reduced; ++r) {
          want += v[s.at(o, r, i)];
          size += std::abs(v[s.at(o, r, i)]);
        }
        const auto sum = static_cast<long double>(got[static_cast<std::size_t>(o * s.inner + i)]);
        const long double once = std::abs(want) * std::numeric_limits<TypeParam>::epsilon();
        const long double each = size * std::numeric_limits<double>::epsilon();
        ASSERT_LE(std::abs(sum - want), once + each * std::sqrt(static_cast<double>(s.reduced)))
            << to_string(s.shape());
      }
    }
  }
}

// 2^24 + 64 ones: a sum in f32 stops at 2^24.
TYPED_TEST(Reduce, LongSumsDoNotStall) {
  const std::int64_t n = (1 << 24) + 64;
  const Tensor ones = placed::ones({n}, dtype_of<TypeParam>());
  EXPECT_EQ(this->sum(ones, {1, n, 1}).item(), n);
  EXPECT_EQ(this->sum(ones, {1, n / 64, 64}).template to_vector<double>(),
            std::vector<double>(64, static_cast<double>(n / 64)));
  EXPECT_EQ(sum_of_squares(ones), n);
}

TYPED_TEST(Reduce, SumOfSquares) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const auto v = testing::random_values<TypeParam>(n, -2, 2, 2);
    long double want = 0;
    for (const TypeParam value : v) want += static_cast<long double>(value) * value;
    const double ulps = 4 + std::sqrt(static_cast<double>(n));
    EXPECT_TRUE(near(sum_of_squares(testing::misaligned(v)), want, ulps)) << n;
  }
  const TypeParam largest = std::numeric_limits<float>::max();  // its square fits a double
  EXPECT_NEAR(sum_of_squares(placed::full({9}, largest, dtype_of<TypeParam>())) / 9e77, 1.1579,
              0.001);
}

TYPED_TEST(Reduce, Maxima) {
  for (const Sizes& s : size_cases()) {
    if (s.reduced == 0) continue;
    const Tensor x = this->values(s, 3);
    const auto v = x.template to_vector<TypeParam>();
    const Tensor out = placed::full({s.outer, s.inner}, 77, x.dtype());
    tested.reduce->max(x, s.outer, s.reduced, s.inner, out);
    const auto got = out.template to_vector<TypeParam>();
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (std::int64_t i = 0; i < s.inner; ++i) {
        TypeParam want = v[s.at(o, 0, i)];
        for (std::int64_t r = 1; r < s.reduced; ++r) want = std::max(want, v[s.at(o, r, i)]);
        ASSERT_EQ(got[static_cast<std::size_t>(o * s.inner + i)], want) << to_string(s.shape());
      }
    }
  }
}

TYPED_TEST(Reduce, MaximaOfNegativesInfinitiesAndNan) {
  const TypeParam inf = std::numeric_limits<TypeParam>::infinity();
  for (const std::int64_t n : {1, 5, 16, 17, 40}) {
    const auto max_of = [n](const Tensor& x, std::int64_t inner) {
      const Tensor out = placed::empty({inner}, x.dtype());
      tested.reduce->max(x, 1, n, inner, out);
      return out.template to_vector<TypeParam>()[0];
    };
    EXPECT_EQ(max_of(placed::full({n}, -inf, dtype_of<TypeParam>()), 1), -inf);
    EXPECT_EQ(max_of(placed::full({n, 2}, -inf, dtype_of<TypeParam>()), 2), -inf);
    for (std::int64_t at = 0; at < n; ++at) {
      const Tensor x = placed::full({n}, -3, dtype_of<TypeParam>());
      Tensor one = x.slice(0, at, at + 1);
      one.fill(-1);
      EXPECT_EQ(max_of(x, 1), -1);
      one.fill(std::nan(""));
      EXPECT_TRUE(std::isnan(max_of(x, 1))) << n << " " << at;
      EXPECT_TRUE(std::isnan(max_of(x.reshape({n, 1}).expand({n, 2}).contiguous(), 2)));
    }
  }
}

TYPED_TEST(Reduce, ArgmaxTakesTheFirstOfEquals) {
  for (const std::int64_t n : {1, 2, 7, 8, 16, 17, 33, 100}) {
    for (std::int64_t at = 0; at < n; ++at) {
      const Tensor x = placed::full({3, n}, -1, dtype_of<TypeParam>());
      x.slice(0, 1, 2).slice(1, at, n).fill(2);  // row 1: equal from `at` on
      x.slice(0, 2, 3).slice(1, at, at + 1).fill(std::nan(""));
      const Tensor out = placed::empty({3}, DType::i64);
      tested.reduce->argmax(x, out);
      ASSERT_EQ(out.template to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, at, at}));
    }
  }
}

TYPED_TEST(Reduce, RunningSums) {
  for (const Sizes& s : size_cases()) {
    const Tensor x = this->values(s, 4);
    const auto v = x.template to_vector<TypeParam>();
    for (const bool reverse : {false, true}) {
      const auto got = this->cumsum(x, s, reverse).template to_vector<TypeParam>();
      for (std::int64_t o = 0; o < s.outer; ++o) {
        for (std::int64_t i = 0; i < s.inner; ++i) {
          long double want = 0, size = 0;
          for (std::int64_t k = 0; k < s.reduced; ++k) {
            const std::size_t at = s.at(o, reverse ? s.reduced - 1 - k : k, i);
            want += v[at];
            size += std::abs(v[at]);
            const long double bound = std::abs(want) * std::numeric_limits<TypeParam>::epsilon() +
                                      size * std::numeric_limits<double>::epsilon() *
                                          std::sqrt(static_cast<double>(k + 1));
            ASSERT_LE(std::abs(got[at] - want), bound) << to_string(s.shape()) << " at " << at;
          }
        }
      }
    }
  }
}

// Each to the bits that it has alone.
TYPED_TEST(Reduce, SumsOfSquaresOfAList) {
  std::vector<Tensor> xs = {Tensor(), placed::zeros({0}, dtype_of<TypeParam>())};
  for (const std::int64_t n : {1, 7, 32768, 32769, 100000}) {
    xs.push_back(testing::misaligned(
        testing::random_values<TypeParam>(n, -2, 2, static_cast<std::uint64_t>(n))));
  }
  const Tensor sums = placed::full({std::ssize(xs)}, 77, DType::f64);
  sum_of_squares(xs, sums);
  const auto got = sums.to_vector<double>();
  EXPECT_EQ(got[0], 0);
  EXPECT_EQ(got[1], 0);
  for (std::size_t i = 2; i < xs.size(); ++i) EXPECT_EQ(got[i], sum_of_squares(xs[i])) << i;
}

TYPED_TEST(Reduce, SumsOfSquaresOfALongList) {
  std::vector<Tensor> xs;
  for (std::int64_t n = 0; n < 500; ++n)
    xs.push_back(placed::full({n % 7}, 2, dtype_of<TypeParam>()));
  const Tensor sums = placed::full({500}, 77, DType::f64);
  sum_of_squares(xs, sums);
  const auto got = sums.to_vector<double>();
  for (std::size_t i = 0; i < 500; ++i) EXPECT_EQ(got[i], 4 * static_cast<double>(i % 7)) << i;
}

TYPED_TEST(Reduce, ThreadsDoNotMatter) {
  for (const Sizes& s :
       {Sizes{1, 300001, 1}, Sizes{37, 5003, 1}, Sizes{1, 4099, 65}, Sizes{3, 65, 2049}}) {
    const Tensor x = this->values(s, 5);
    testing::expect_same_for_every_thread_count<TypeParam>([&] { return this->sum(x, s); });
    testing::expect_same_for_every_thread_count<TypeParam>(
        [&] { return this->cumsum(x, s, true); });
    testing::expect_same_for_every_thread_count<double>(
        [&] { return placed::full({}, sum_of_squares(x), DType::f64); });
  }
}

TEST(ReduceOps, SumsOverAnyDimensions) {
  const Tensor x = counting({2, 3, 4});
  EXPECT_EQ(sum(x).item(), 276);
  EXPECT_EQ(sum(x, {1}).to_vector<double>(), (Values{12, 15, 18, 21, 48, 51, 54, 57}));
  EXPECT_EQ(sum(x, {0, -1}).to_vector<double>(), (Values{60, 92, 124}));
  EXPECT_EQ(sum(x, {0, -1}, true).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(sum(x.transpose(0, 2), {0}).to_vector<double>(),
            sum(x, {2}).transpose(0, 1).to_vector<double>());
  EXPECT_EQ(mean(x, {2}).to_vector<double>(), (Values{1.5, 5.5, 9.5, 13.5, 17.5, 21.5}));
  EXPECT_EQ(sum(placed::zeros({0, 3}), {0}).to_vector<double>(), Values(3, 0));
  EXPECT_EQ(sum_to(x, {3, 1}).to_vector<double>(), (Values{60, 92, 124}));
  EXPECT_EQ(error_of([&] { (void)sum(x, {3}); }), "sum: dimension 3 of a tensor with 3 dimensions");
}

TEST(ReduceOps, MaxArgmaxCumsum) {
  const Tensor x = placed::from(Values{1, 5, 5, -1, 7, 2}, {2, 3});
  EXPECT_EQ(max(x, 0).to_vector<double>(), (Values{1, 7, 5}));
  EXPECT_EQ(max(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(argmax(x).to_vector<double>(), (Values{1, 1}));
  EXPECT_EQ(cumsum(x, 1).to_vector<double>(), (Values{1, 6, 11, -1, 6, 8}));
  EXPECT_EQ(cumsum(x, 0, true).to_vector<double>(), (Values{0, 12, 7, -1, 7, 2}));
}

}  // namespace
}  // namespace mobius::reduce_test
