// The variants that are linear in the sequence: their features and their range.
#include "nn/attention/performer.h"

#include "nn/attention/linear.h"
#include "nn/attention/softmax.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/nn_testing.h"

namespace mobius::performer_test {
namespace {

using testing::distance;
using testing::normal;

Tensor omega_of(std::int64_t m, std::int64_t d, std::uint64_t seed = 1, DType dtype = DType::f64) {
  return orthogonal_gaussian(m, d, {.seed = seed, .stream = 7}, dtype, testing::device());
}

void expect_positive(const Tensor& features) {
  for (const double value : features.to_vector<double>()) {
    ASSERT_GT(value, 0);
    ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(EluFeatures, ArePositiveWhereOneMinusOneWouldBeZero) {
  const Tensor x = placed::from(std::vector<float>{-80, -20, -17, -1, 0, 2}, {6});
  expect_positive(elu_plus_one(Variable(x)).data());
  const Variable y(x.to(DType::f64), true);
  const Variable phi = elu_plus_one(y);
  backward(sum(phi));
  const std::vector<double> values = phi.data().to_vector<double>(),
                            slopes = y.grad().to_vector<double>(), at = x.to_vector<double>();
  for (std::size_t i = 0; i < at.size(); ++i) {
    EXPECT_DOUBLE_EQ(values[i], at[i] > 0 ? at[i] + 1 : std::exp(at[i]));
    EXPECT_DOUBLE_EQ(slopes[i], at[i] > 0 ? 1 : std::exp(at[i]));
  }
}

struct Pass {
  Tensor out, grad_q, grad_k, grad_v;
};

template <class Call>
Pass pass(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v, DType dtype) {
  const Variable a(q.to(dtype), true), b(k.to(dtype), true), c(v.to(dtype), true);
  const Variable out =
      attention(call(HeadInputs{.q = a, .k = b, .v = c, .mask = testing::causal()}));
  backward(sum(out * Variable(normal(out.shape(), 9, 1).to(dtype))));
  const auto wide = [](const Tensor& x) { return x.to(DType::f64); };
  return {wide(out.data()), wide(a.grad()), wide(b.grad()), wide(c.grad())};
}

// Queries and keys over [-20, 20], sequences up to 16384.
TEST(FeatureMaps, StayInTheRangeOfFloat32) {
  for (const std::int64_t d : {8, 16, 64})
    for (const std::int64_t n : {1, 65, 16384}) {
      if (d == 64 && n == 16384) continue;  // for time
      const auto sweep = [&](std::uint64_t stream) {
        return placed::random_uniform({1, 1, n, d}, -20, 20, {5, stream}, DType::f64);
      };
      const Tensor q = sweep(1), k = sweep(2), v = normal({1, 1, n, 4}, 3);
      const Tensor omega = omega_of(64, d);
      const Variable q32(q.to(DType::f32)), k32(k.to(DType::f32));
      const Tensor omega32 = omega.to(DType::f32);
      expect_positive(elu_plus_one(q32).data());
      expect_positive(performer_query_features(q32, omega32, 1e-6).data());
      expect_positive(performer_key_features(k32, omega32, 1e-6).data());

      const auto expect_close = [&](const auto& call, const char* what) {
        const Pass got = pass(call, q, k, v, DType::f32), want = pass(call, q, k, v, DType::f64);
        EXPECT_LT(distance(got.out, want.out), 1e-3) << what << " d " << d << " n " << n;
        EXPECT_LT(distance(got.grad_q, want.grad_q), 1e-2) << what << " d " << d << " n " << n;
        EXPECT_LT(distance(got.grad_k, want.grad_k), 1e-2) << what << " d " << d << " n " << n;
        EXPECT_LT(distance(got.grad_v, want.grad_v), 1e-3) << what << " d " << d << " n " << n;
      };
      expect_close([](const HeadInputs& in) { return linear_call(in); }, "linear");
      expect_close([&](const HeadInputs& in) { return performer_call(in, omega.to(in.q.dtype())); },
                   "performer");
    }
}

// Keys that lie on the features themselves reach the largest value there is.
TEST(Performer, NoKeyLeavesTheRangeOfFloat32) {
  for (const std::int64_t d : {4, 64, 256}) {
    const std::int64_t m = 32;
    const Tensor omega = omega_of(m, d, 1, DType::f32);
    const double stretch = std::pow(static_cast<double>(d), 0.25);
    const Variable k(scale(omega, stretch).reshape({1, 1, m, d}), true), q(k.data(), true),
        v(normal({1, 1, m, 3}, 3, 1, DType::f32), true);
    const Tensor features = performer_key_features(k, omega, 1e-6).data();
    expect_positive(features);
    EXPECT_LT(max(features.reshape({features.numel()}), 0).item(), std::exp(60.0));
    const Variable out = attention(performer_call({.q = q, .k = k, .v = v}, omega));
    backward(sum(square(out)));
    for (const Tensor& tensor : {out.data(), q.grad(), k.grad(), v.grad()})
      EXPECT_TRUE(std::isfinite(sum_of_squares(tensor))) << d;
  }
}

TEST(Performer, BlocksAreOrthogonalWithGaussianLengths) {
  const std::int64_t d = 16;
  const Tensor omega = omega_of(40, d);
  EXPECT_EQ(omega.shape(), (Shape{40, d}));
  for (const auto& [begin, end] :
       {std::pair<std::int64_t, std::int64_t>{0, 16}, {16, 32}, {32, 40}}) {
    const Tensor block = omega.slice(0, begin, end).contiguous();
    const std::vector<double> gram = matmul(block, block.transpose(0, 1)).to_vector<double>();
    const auto rows = static_cast<std::size_t>(end - begin);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < rows; ++j)
        if (i != j) {
          EXPECT_NEAR(gram[i * rows + j], 0, 1e-12);
        }
  }
  // |omega|^2 has mean d and variance 2 d: six standard errors.
  const double mean = sum_of_squares(omega_of(4000, d)) / 4000;
  EXPECT_NEAR(mean, d, 6 * std::sqrt(2 * d / 4000.0));
}

TEST(Performer, ComesCloserToSoftmaxWithMoreFeatures) {
  const std::int64_t d = 8;
  const Variable q(normal({1, 2, 40, d}, 1, 0.6)), k(normal({1, 2, 40, d}, 2, 0.6)),
      v(normal({1, 2, 40, 4}, 3));
  const HeadInputs in{.q = q, .k = k, .v = v, .mask = testing::causal()};
  const Tensor expected = attention(softmax_call(in)).data();
  double before = INFINITY;
  for (const std::int64_t m : {16, 256, 4096}) {
    double error = 0;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const Tensor out = attention(performer_call(in, omega_of(m, d, seed))).data();
      error += distance(out, expected) / 8;
    }
    EXPECT_LT(error, before / 2.5) << m;  // the square root of 16, where there are many
    before = error;
  }
  EXPECT_LT(before, 0.05);
}

TEST(PerformerLayer, KeepsItsFeatures) {
  PerformerOptions options;
  options.n_features = 20;
  const auto layer = options.build(testing::layer_context(8, 2));
  ASSERT_EQ(layer->buffers().size(), 1u);
  EXPECT_EQ(layer->buffers()[0].name, "omega");
  const Tensor omega = layer->buffers()[0].value;
  EXPECT_EQ(omega.shape(), (Shape{20, 4}));
  const std::vector<double> before = omega.to_vector<double>();
  const Variable x(normal({1, 5, 8}, 4));
  for (const bool is_training : {false, true})
    layer->forward(x, testing::causal(), {.training = is_training});
  EXPECT_EQ(omega.to_vector<double>(), before);

  // The layer reads the buffer: a checkpoint that fills it restores the layer.
  const std::vector<double> out =
      layer->forward(x, testing::causal(), {}).data().to_vector<double>();
  Tensor(omega).fill(0.1);
  EXPECT_NE(layer->forward(x, testing::causal(), {}).data().to_vector<double>(), out);

  const auto omega_with = [&](std::optional<std::int64_t> seed) {
    options.feature_seed = seed;
    return options.build(testing::layer_context(8, 2))->buffers()[0].value.to_vector<double>();
  };
  EXPECT_EQ(omega_with({}), before);
  EXPECT_NE(omega_with(5), before);
  EXPECT_EQ(omega_with(5), omega_with(5));
}

}  // namespace
}  // namespace mobius::performer_test
