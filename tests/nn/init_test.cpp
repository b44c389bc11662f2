#include "nn/init.h"

#include <cmath>

#include "tests/nn/nn_testing.h"

namespace mobius::init_test {
namespace {

Initializer normal_init(double std, DType dtype = DType::f32) {
  return Initializer(/*seed=*/5, std, /*orthogonal=*/false, dtype, {});
}

// max |M M^T - I| where M has the fewer rows.
double distance_from_orthonormal(const Tensor& matrix) {
  const Tensor m = matrix.size(0) <= matrix.size(1) ? matrix : matrix.transpose(0, 1).contiguous();
  const std::vector<double> gram = matmul(m, m.transpose(0, 1)).to_vector<double>();
  const auto n = static_cast<std::size_t>(m.size(0));
  double worst = 0;
  for (std::size_t i = 0; i < n * n; ++i)
    worst = std::max(worst, std::abs(gram[i] - (i % (n + 1) == 0 ? 1 : 0)));
  return worst;
}

TEST(Initializer, NormalMatricesHaveTheirMeanAndDeviation) {
  const double n = 400 * 300;
  for (const double gain : {1.0, 0.25}) {
    const Tensor matrix = normal_init(0.02).matrix("weight", 400, 300, gain);
    const double mean = sum(matrix.to(DType::f64)).item() / n;
    const double std = std::sqrt(sum_of_squares(matrix) / n);
    // Six standard errors.
    EXPECT_NEAR(mean, 0, 6 * 0.02 * gain / std::sqrt(n));
    EXPECT_NEAR(std, 0.02 * gain, 6 * 0.02 * gain / std::sqrt(2 * n));
  }
}

TEST(Initializer, ValuesDependOnTheSeedAndThePathAlone) {
  const Initializer init = normal_init(1);
  const auto values = [](const Initializer& at) {
    return at.matrix("weight", 4, 4).to_vector<float>();
  };
  EXPECT_EQ(values(init.at("a").at("b")), values(normal_init(1).at("a").at("b")));
  EXPECT_NE(values(init.at("a")), values(init.at("b")));
  EXPECT_NE(values(init), values(Initializer(6, 1, false, DType::f32, testing::device())));
  EXPECT_NE(init.matrix("weight", 4, 4).to_vector<float>(),
            init.matrix("other", 4, 4).to_vector<float>());
  EXPECT_EQ(init.at("a").at("b").path(), "a.b");
}

TEST(Initializer, OrthogonalMatricesAreOrthonormalWhateverTheirShape) {
  const Initializer init(5, 0.02, /*orthogonal=*/true, DType::f64, testing::device());
  for (const auto& [rows, cols] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {1, 7}, {64, 64}, {200, 30}, {30, 200}})
    EXPECT_LT(distance_from_orthonormal(init.matrix("weight", rows, cols, /*gain=*/0.1)), 1e-13)
        << rows << " x " << cols;
  const Initializer single(5, 0.02, /*orthogonal=*/true, DType::f32, testing::device());
  EXPECT_LT(distance_from_orthonormal(single.matrix("weight", 64, 64)), 1e-6);
}

TEST(Initializer, OrthogonalMatricesAreSpreadEvenly) {
  // The mean of an entry over the orthogonal group is 0 and that of its square 1 / length.
  double mean = 0, square = 0;
  const int n = 2000;
  for (int i = 0; i < n; ++i) {
    const Tensor q =
        random_orthogonal(3, 5, {.seed = 1, .stream = static_cast<std::uint64_t>(i)}, DType::f64);
    const double entry = q.to_vector<double>()[0];
    mean += entry / n;
    square += entry * entry / n;
  }
  EXPECT_NEAR(mean, 0, 6 * std::sqrt(0.2 / n));
  EXPECT_NEAR(square, 0.2, 6 * std::sqrt(0.07 / n));
}

TEST(Initializer, StackedMatricesAreOrthogonalEach) {
  const Initializer orthogonal(5, 0.02, /*orthogonal=*/true, DType::f64, testing::device());
  const Tensor stacked = orthogonal.stacked("weight", {6, 12, 3}, 6);
  EXPECT_EQ(stacked.shape(), (Shape{21, 6}));
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 6}, {6, 18}, {18, 21}})
    EXPECT_LT(distance_from_orthonormal(stacked.slice(0, begin, end).contiguous()), 1e-13);
  // Normal values of parts are those of the whole.
  EXPECT_EQ(normal_init(1).stacked("weight", {2, 3}, 4).to_vector<float>(),
            normal_init(1).matrix("weight", 5, 4).to_vector<float>());
}

TEST(InverseSoftplus, Inverts) {
  for (const double y : {1e-12, 1e-3, 1.0, 30.0, 1e4})
    EXPECT_NEAR(
        std::max(inverse_softplus(y), 0.0) + std::log1p(std::exp(-std::abs(inverse_softplus(y)))),
        y, 1e-12 * y);
}

}  // namespace
}  // namespace mobius::init_test
