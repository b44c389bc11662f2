// Softmax attention, its naive form and its sparse forms.
#include <limits>

#include "tests/nn/attention_variants.h"
#include "tests/nn/nn_testing.h"

namespace mobius::softmax_test {
namespace {

using testing::causal;
using testing::distance;
using testing::expect_error;
using testing::normal;

TEST(Softmax, IsTheUsualFormulaAndTakesAScale) {
  const Tensor in_q = normal({1, 1, 1, 3}, 1), in_k = normal({1, 1, 2, 3}, 2),
               in_v = normal({1, 1, 2, 1}, 3);
  const std::vector<double> q = in_q.to_vector<double>(), k = in_k.to_vector<double>(),
                            v = in_v.to_vector<double>();
  double scores[2] = {};
  for (std::size_t j = 0; j < 2; ++j)
    for (std::size_t t = 0; t < 3; ++t) scores[j] += q[t] * k[3 * j + t];
  const auto expected = [&](double scale) {
    const double a = std::exp(scale * scores[0]), b = std::exp(scale * scores[1]);
    return (a * v[0] + b * v[1]) / (a + b);
  };
  const auto got = [&](std::optional<double> scale) {
    return attention(
               softmax_call({.q = Variable(in_q), .k = Variable(in_k), .v = Variable(in_v)}, scale))
        .item();
  };
  EXPECT_NEAR(got({}), expected(1 / std::sqrt(3.0)), 1e-14);
  EXPECT_NEAR(got(0.3), expected(0.3), 1e-14);
}

TEST(SoftmaxNaive, OverflowsWhereSoftmaxDoesNot) {
  const Variable q(placed::full({1, 1, 1, 1}, 100)), k(placed::ones({1, 1, 2, 1})),
      v(placed::ones({1, 1, 2, 1}));
  const HeadInputs in{.q = q, .k = k, .v = v};
  EXPECT_EQ(attention(softmax_call(in)).item(), 1);
  EXPECT_TRUE(std::isnan(apply_weights(softmax_naive_weights(in), in).item()));
}

TEST(SoftmaxNaive, EqualsSoftmaxWhereItDoesNotOverflow) {
  const Variable q(normal({2, 2, 5, 4}, 1)), k(normal({2, 2, 7, 4}, 2)), v(normal({2, 2, 7, 3}, 3));
  const HeadInputs in{.q = q, .k = k, .v = v, .mask = causal()};
  EXPECT_LT(distance(apply_weights(softmax_naive_weights(in), in).data(),
                     attention(softmax_call(in)).data()),
            1e-14);
}

struct Pairs {
  std::int64_t n_q, n_k;
  std::vector<std::uint8_t> allowed;
  bool at(std::int64_t i, std::int64_t j) const {
    return allowed[static_cast<std::size_t>(i * n_k + j)] != 0;
  }
};

Pairs allowed_pairs(const HeadInputs& in, const SparseSelection& selection) {
  return {in.q.size(2), in.k.size(2),
          testing::sparse_allowed(in, selection).to_vector<std::uint8_t>()};
}

TEST(Sparse, PatternsAreByDistanceFromTheQuerysPosition) {
  const Variable q(normal({1, 1, 9, 4}, 1)), k(normal({1, 1, 13, 4}, 2));
  for (const bool is_causal : {false, true}) {
    const HeadInputs in{.q = q, .k = k, .mask = {.causal = is_causal}};
    const Pairs local = allowed_pairs(in, {.pattern = SparsePattern::local, .window = 3});
    const Pairs strided = allowed_pairs(
        in, {.pattern = SparsePattern::strided, .window = 2, .stride = 4, .n_global = 2});
    for (std::int64_t i = 0; i < 9; ++i)
      for (std::int64_t j = 0; j < 13; ++j) {
        const std::int64_t distance = i + 4 - j;
        const bool sees = !is_causal || distance >= 0;
        EXPECT_EQ(local.at(i, j), sees && std::abs(distance) < 3);
        EXPECT_EQ(strided.at(i, j), sees && (std::abs(distance) < 2 || distance % 4 == 0 || j < 2));
      }
  }
}

TEST(Sparse, TopkTakesTheLargestScoresAndOfEqualOnesTheFirst) {
  const Tensor q = placed::ones({1, 1, 1, 1});
  const Tensor k = placed::from(std::vector<float>{1, 5, 3, 5, 3, 3}, {1, 1, 6, 1});
  const auto allowed = [&](std::int64_t topk) {
    return testing::sparse_allowed({.q = Variable(q), .k = Variable(k)},
                                   {.pattern = SparsePattern::topk, .topk = topk})
        .to_vector<std::uint8_t>();
  };
  EXPECT_EQ(allowed(1), (std::vector<std::uint8_t>{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(allowed(4), (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 0}));
  EXPECT_EQ(allowed(9), (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
  // The fused form breaks ties the same way.
  const Variable v(placed::from(std::vector<float>{1, 2, 4, 8, 16, 32}, {1, 1, 6, 1}));
  for (const std::int64_t topk : {1, 2, 3, 4, 5}) {
    const SparseSelection selection{.pattern = SparsePattern::topk, .topk = topk};
    const HeadInputs in{.q = Variable(q), .k = Variable(k), .v = v};
    const Tensor fused = attention(sparse_call(in, selection)).data();
    const Tensor expected = apply_weights(testing::sparse_weights(in, selection), v).data();
    EXPECT_NEAR(fused.item(), expected.item(), 1e-5) << topk;
  }
}

TEST(Sparse, TopkOfAllKeysIsSoftmax) {
  const Variable q(normal({1, 2, 5, 4}, 1)), k(normal({1, 2, 8, 4}, 2)), v(normal({1, 2, 8, 3}, 3));
  const HeadInputs in{.q = q, .k = k, .v = v, .mask = causal()};
  const SparseSelection all{.pattern = SparsePattern::topk, .topk = 8};
  EXPECT_LT(distance(attention(sparse_call(in, all)).data(), attention(softmax_call(in)).data()),
            1e-14);
}

TEST(Sparse, NumbersBeyondAllKeysSelectAll) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const Variable q(normal({1, 2, 9, 4}, 1)), k(normal({1, 2, 13, 4}, 2)),
      v(normal({1, 2, 13, 3}, 3));
  const HeadInputs in{.q = q, .k = k, .v = v, .mask = causal()};
  const Tensor expected = attention(softmax_call(in)).data();
  for (const SparseSelection& selection :
       {SparseSelection{.pattern = SparsePattern::local, .window = largest},
        SparseSelection{.pattern = SparsePattern::strided, .window = largest, .stride = largest},
        SparseSelection{.pattern = SparsePattern::strided, .window = 1, .n_global = largest},
        SparseSelection{.pattern = SparsePattern::topk, .topk = largest}}) {
    EXPECT_LT(distance(attention(sparse_call(in, selection)).data(), expected), 1e-14);
    EXPECT_LT(distance(apply_weights(testing::sparse_weights(in, selection), v).data(), expected),
              1e-14);
  }
}

TEST(Sparse, RefusesWhatSelectsNothing) {
  const Variable x(normal({1, 1, 2, 2}, 1));
  const auto attend = [&](const SparseSelection& selection, const AttentionMask& mask = {}) {
    return [&x, selection, mask] {
      attention(sparse_call({.q = x, .k = x, .v = x, .mask = mask}, selection));
    };
  };
  expect_error<ConfigError>(attend({.window = 0}), "window");
  expect_error<ConfigError>(attend({.stride = 0}), "stride");
  expect_error<ConfigError>(attend({.n_global = -1}), "n_global");
  expect_error<ConfigError>(attend({.topk = 0}), "topk");
  expect_error<Error>(attend({}, {.window = 2}), "window of its own");
}

}  // namespace
}  // namespace mobius::softmax_test
