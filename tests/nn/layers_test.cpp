#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "tests/nn/nn_testing.h"

namespace mobius::layers_test {
namespace {

using testing::expect_parameter_gradients;
using testing::normal;

Initializer init_f64() {
  return Initializer(5, 0.5, /*orthogonal=*/false, DType::f64, testing::device());
}

// sum f(x) * c for a fixed random c: a scalar that depends on all of f(x).
Variable probe(const Variable& y) { return sum(y * Variable(normal(y.shape(), 77))); }

TEST(Layers, GradientsOfEveryLayerAgreeWithDifferences) {
  const Variable x(normal({2, 3, 6}, 1));
  Linear linear(init_f64(), 6, 4, /*bias=*/true);
  expect_parameter_gradients(linear, [&] { return probe(linear.forward(x)); });
  for (const NormKind kind : {NormKind::rms_norm, NormKind::layer_norm}) {
    Norm norm(init_f64(), kind, 6);
    expect_parameter_gradients(norm, [&] { return probe(norm.forward(x)); });
  }
  for (const MlpKind kind : {MlpKind::swiglu, MlpKind::gelu}) {
    Mlp mlp(init_f64(), kind, {6, 10, /*bias=*/true, 1});
    expect_parameter_gradients(mlp, [&] { return probe(mlp.forward(x)); });
  }
  Embedding embedding(init_f64(), 5, 6);
  const Tensor index = placed::from(std::vector<std::int64_t>{4, 0, 4, 2}, {2, 2});
  expect_parameter_gradients(embedding, [&] {
    return probe(embedding.forward(RowIndex("test", index, 5).to(testing::device())));
  });
}

TEST(Layers, GeluMlpIsTheExactGelu) {
  const Mlp mlp(init_f64(), MlpKind::gelu, {1, 1, /*bias=*/false, 1});
  const double up = testing::parameter_of(mlp, "w_up.weight").item();
  const double down = testing::parameter_of(mlp, "w_down.weight").item();
  const double x = 1.3, h = up * x;
  EXPECT_NEAR(mlp.forward(Variable(placed::full({1, 1}, x, DType::f64))).item(),
              down * h * 0.5 * (1 + std::erf(h / std::sqrt(2.0))), 1e-14);
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const Variable x(normal({64}, 1));
  EXPECT_TRUE(Dropout(0.5, "a").forward(x, {.training = false, .rng = {}}).is(x));
  EXPECT_TRUE(Dropout(0, "a").forward(x, {.training = true, .rng = {}}).is(x));
}

TEST(Dropout, RepeatsUnderOneContextAndDiffersBetweenSitesAndSteps) {
  const Variable x(placed::ones({256}, DType::f64));
  const auto dropped = [&x](const std::string& site, RngKey rng) {
    return Dropout(0.5, site).forward(x, {.training = true, .rng = rng}).data().to_vector<double>();
  };
  const std::vector<double> reference = dropped("a", {1, 1});
  EXPECT_EQ(dropped("a", {1, 1}), reference);
  EXPECT_NE(dropped("b", {1, 1}), reference);
  EXPECT_NE(dropped("a", {1, 2}), reference);
  EXPECT_NE(dropped("a", {2, 1}), reference);
}

TEST(Dropout, KeepsTheMean) {
  const std::int64_t n = 100000;
  const Variable x(placed::ones({n}, DType::f64));
  const Variable y = Dropout(0.2, "a").forward(x, {.training = true, .rng = {3, 4}});
  EXPECT_NEAR(sum(y).item() / static_cast<double>(n), 1, 6 * std::sqrt(0.25 / 100000));
  for (const double value : y.data().to_vector<double>())
    EXPECT_TRUE(value == 0 || std::abs(value - 1.25) < 1e-12) << value;
}

TEST(Dropout, RefusesAProbabilityOfOneOrMore) {
  EXPECT_THROW(Dropout(1, "a"), ConfigError);
  EXPECT_THROW(Dropout(-0.1, "a"), ConfigError);
}

}  // namespace
}  // namespace mobius::layers_test
