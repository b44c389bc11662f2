// Masked softmax, its backward pass and the mask itself, against plain loops in long double.
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::softmax_test {
namespace {

using Values = std::vector<double>;
using testing::expect_same_for_every_thread_count;
using testing::near;
using testing::random_tensor;

constexpr double inf = std::numeric_limits<double>::infinity();

// A mask of zeros and ones of the given shape; about one key in four is hidden.
Tensor random_mask(Shape shape, std::uint64_t seed) {
  std::vector<std::uint8_t> values;
  for (const double u : testing::random_values<double>(numel(shape), 0, 4, seed))
    values.push_back(u < 1 ? 0 : static_cast<std::uint8_t>(u));  // any number but 0 is yes
  return placed::from(values, std::move(shape));
}

bool sees(const AttentionMask& mask, const std::vector<std::uint8_t>& values, std::int64_t row,
          std::int64_t j, std::int64_t n_q, std::int64_t n_k) {
  if (mask.causal && j > row % n_q + n_k - n_q) return false;
  return values.empty() || values[static_cast<std::size_t>(row * n_k + j)] != 0;
}

template <class T>
void expect_softmax(const Tensor& scores, double scale, const AttentionMask& mask) {
  const std::int64_t n_q = scores.size(-2), n_k = scores.size(-1);
  std::vector<std::uint8_t> hidden;
  if (mask.mask.defined()) hidden = mask.mask.expand(scores.shape()).to_vector<std::uint8_t>();
  const std::vector<T> x = scores.to_vector<T>();
  const std::vector<T> got = masked_softmax(scores, scale, mask).to_vector<T>();
  ASSERT_EQ(got.size(), x.size());
  for (std::int64_t row = 0; row * n_k < scores.numel(); ++row) {
    const auto score = [&](std::int64_t j) {
      return static_cast<long double>(static_cast<T>(scale)) *
             x[static_cast<std::size_t>(row * n_k + j)];
    };
    long double largest = -inf, sum = 0;
    for (std::int64_t j = 0; j < n_k; ++j)
      if (sees(mask, hidden, row, j, n_q, n_k)) largest = std::max(largest, score(j));
    for (std::int64_t j = 0; j < n_k; ++j)
      if (sees(mask, hidden, row, j, n_q, n_k)) sum += std::exp(score(j) - largest);
    for (std::int64_t j = 0; j < n_k; ++j) {
      const T weight = got[static_cast<std::size_t>(row * n_k + j)];
      if (!sees(mask, hidden, row, j, n_q, n_k)) {
        ASSERT_EQ(weight, T{0}) << "row " << row << " key " << j;
        continue;
      }
      // exp turns the rounding of its argument, half a unit of |score|, into a relative error.
      const double ulps = 4 + 2 * static_cast<double>(std::abs(score(j)) + std::abs(largest)) +
                          0.1 * static_cast<double>(n_k);
      ASSERT_TRUE(near(weight, std::exp(score(j) - largest) / sum, ulps))
          << "row " << row << " key " << j;
    }
  }
}

template <class T>
class Softmax : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Softmax, Reals);

TYPED_TEST(Softmax, RaggedLengthsCausalOrNot) {
  for (const std::int64_t n_k : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 65, 300})
    for (const std::int64_t n_q : {1, 3, 9})
      for (const bool causal : {false, true}) {
        const Tensor scores = random_tensor<TypeParam>({2, n_q, n_k}, 1, -6, 6);
        expect_softmax<TypeParam>(scores, 0.7, {causal, {}});
        expect_softmax<TypeParam>(scores, -1.3, {causal, {}});
      }
}

TYPED_TEST(Softmax, LongRows) {
  for (const bool causal : {false, true})
    expect_softmax<TypeParam>(random_tensor<TypeParam>({3, 4999}, 1, -6, 6), 0.7, {causal, {}});
}

TYPED_TEST(Softmax, MasksBroadcastInEveryWay) {
  const std::int64_t n_q = 5, n_k = 19;
  const Tensor scores = random_tensor<TypeParam>({3, 2, n_q, n_k}, 1, -3, 3);
  for (const Shape& shape : {Shape{3, 2, n_q, n_k}, Shape{3, 1, n_q, n_k}, Shape{2, n_q, n_k},
                             Shape{3, 1, 1, n_k}, Shape{n_q, 1}, Shape{n_q, n_k}, Shape{1}})
    for (const bool causal : {false, true})
      expect_softmax<TypeParam>(scores, 1.5, {causal, random_mask(shape, 2)});
  const Tensor transposed = random_mask({n_k, n_q}, 3).transpose(0, 1);
  expect_softmax<TypeParam>(scores, 1.5, {false, transposed});
}

TYPED_TEST(Softmax, RowsThatSeeNothingAreZero) {
  using T = TypeParam;
  const Tensor scores = random_tensor<T>({2, 4, 9}, 1);
  const Tensor none = placed::zeros({4, 9}, DType::u8);
  EXPECT_EQ(masked_softmax(scores, 1, {false, none}).to_vector<T>(), std::vector<T>(72, T{0}));
  // More queries than keys: the first ones come before every key.
  const std::vector<T> causal =
      masked_softmax(random_tensor<T>({5, 2}, 2), 1, {true, {}}).template to_vector<T>();
  EXPECT_EQ(std::vector<T>(causal.begin(), causal.begin() + 6), std::vector<T>(6, T{0}));
  EXPECT_EQ(causal[6], T{1});
  const Tensor minus_infinity = placed::full({2, 3}, -inf, dtype_of<T>());
  EXPECT_EQ(masked_softmax(minus_infinity, 1, {}).to_vector<T>(), std::vector<T>(6, T{0}));
}

TYPED_TEST(Softmax, HugeScoresNeitherOverflowNorLoseTheRest) {
  using T = TypeParam;
  const Tensor scores = placed::from(std::vector<T>{T(1e30), T(-1e30), T(1e30), T(-inf)}, {1, 4});
  const std::vector<T> want{T(0.5), T(0), T(0.5), T(0)};
  EXPECT_EQ(masked_softmax(scores, 1, {}).to_vector<T>(), want);
}

TYPED_TEST(Softmax, NaNStaysInItsRow) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const std::int64_t at : {0, 3, 16, 18}) {
    std::vector<T> values = testing::random_values<T>(2 * 19, -1, 1, 1);
    values[static_cast<std::size_t>(at)] = nan;
    const std::vector<T> got =
        masked_softmax(placed::from(values, {2, 19}), 1, {}).template to_vector<T>();
    for (std::size_t j = 0; j < 19; ++j) {
      EXPECT_TRUE(std::isnan(got[j])) << at << " " << j;
      EXPECT_FALSE(std::isnan(got[19 + j])) << at << " " << j;
    }
  }
  // The only key in sight.
  EXPECT_TRUE(std::isnan(masked_softmax(placed::from(std::vector<T>{nan}, {1, 1}), 1, {}).item()));
}

TYPED_TEST(Softmax, BackwardMatchesTheFormula) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 7, 8, 16, 17, 33, 257}) {
    const Tensor w = masked_softmax(random_tensor<T>({3, 4, n}, 1), 1, {true, {}});
    const Tensor g = random_tensor<T>({3, 4, n}, 2);
    const std::vector<T> got = softmax_backward(w, g, 0.3).to_vector<T>();
    const std::vector<T> weights = w.to_vector<T>(), grad = g.to_vector<T>();
    for (std::size_t row = 0; row < 12; ++row) {
      const std::size_t first = row * static_cast<std::size_t>(n);
      const std::size_t last = first + static_cast<std::size_t>(n);
      long double mean = 0;
      for (std::size_t j = first; j < last; ++j)
        mean += static_cast<long double>(weights[j]) * grad[j];
      for (std::size_t j = first; j < last; ++j) {
        const long double w_j = 0.3L * weights[j];
        ASSERT_TRUE(near(got[j], w_j * (grad[j] - mean), 8, w_j * 2)) << n << " " << j;
      }
    }
  }
}

TYPED_TEST(Softmax, SameBitsForEveryThreadCount) {
  using T = TypeParam;
  const Tensor scores = random_tensor<T>({4, 70, 130}, 1), grad = random_tensor<T>({4, 70, 130}, 2);
  const AttentionMask mask{true, random_mask({70, 130}, 3)};
  expect_same_for_every_thread_count<T>([&] { return masked_softmax(scores, 0.5, mask); });
  expect_same_for_every_thread_count<T>([&] { return softmax_backward(scores, grad, 0.5); });
}

TYPED_TEST(Softmax, EmptyScores) {
  const DType type = dtype_of<TypeParam>();
  EXPECT_EQ(masked_softmax(placed::empty({2, 0, 3}, type), 1, {true, {}}).numel(), 0);
  EXPECT_EQ(masked_softmax(placed::empty({2, 3, 0}, type), 1, {true, {}}).numel(), 0);
}

TEST(MaterializeMask, CombinesCausalAndGiven) {
  const Tensor given = random_mask({3, 1, 7}, 1);
  for (const bool causal : {false, true}) {
    const Tensor allowed = materialize_mask({causal, given}, 5, 7, testing::device());
    ASSERT_EQ(allowed.shape(), (Shape{3, 5, 7}));
    const auto values = given.to_vector<std::uint8_t>(), got = allowed.to_vector<std::uint8_t>();
    for (std::int64_t b = 0; b < 3; ++b)
      for (std::int64_t i = 0; i < 5; ++i)
        for (std::int64_t j = 0; j < 7; ++j) {
          const bool want =
              (!causal || j <= i + 2) && values[static_cast<std::size_t>(b * 7 + j)] != 0;
          EXPECT_EQ(got[static_cast<std::size_t>((b * 5 + i) * 7 + j)], want ? 1 : 0);
        }
  }
  EXPECT_EQ(materialize_mask({true, {}}, 2, 3, testing::device()).to_vector<int>(),
            (std::vector<int>{1, 1, 0, 1, 1, 1}));
}

TEST(SoftmaxOps, MasksCombine) {
  const Tensor given = placed::from(std::vector<std::uint8_t>{1, 0, 1}, {1, 3});
  const Tensor allowed = materialize_mask({.causal = true, .mask = given}, 2, 3, testing::device());
  EXPECT_EQ(allowed.to_vector<double>(), (Values{1, 0, 0, 1, 0, 1}));
  EXPECT_THROW(materialize_mask({.causal = true, .mask = placed::ones({4, 3}, DType::u8)}, 2, 3,
                                testing::device()),
               ShapeError);
}

TEST(MaskedSoftmax, SelectedKeysCombineWithTheRestOfAMask) {
  const Tensor selected = placed::from(std::vector<std::int32_t>{0, 2, 1, 3}, {2, 2});
  EXPECT_EQ(materialize_mask({.selected = selected}, 2, 3, testing::device()).to_vector<double>(),
            (Values{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(materialize_mask({.causal = true, .selected = selected}, 2, 3, testing::device())
                .to_vector<double>(),
            (Values{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(masked_softmax(placed::ones({2, 3}), 1, {.selected = selected}).to_vector<double>(),
            (Values{0.5, 0, 0.5, 0, 1, 0}));
}

}  // namespace
}  // namespace mobius::softmax_test
