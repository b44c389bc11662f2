// RMS and layer norm, forward and backward, against plain loops in long double.
#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::norm_test {
namespace {

using testing::expect_same_for_every_thread_count;
using testing::near;
using testing::random_tensor;
using Real = long double;

// One row of either norm: RMS norm is the layer norm that takes the mean for 0.
struct RowReference {
  Real mean = 0, rstd = 0;

  template <class T>
  RowReference(const T* x, std::int64_t n, double eps, bool centred) {
    for (std::int64_t j = 0; centred && j < n; ++j) mean += static_cast<Real>(x[j]) / n;
    Real squares = 0;
    for (std::int64_t j = 0; j < n; ++j) squares += (x[j] - mean) * (x[j] - mean);
    rstd = 1 / std::sqrt(squares / n + eps);
  }
};

template <class T>
class Norm : public ::testing::Test {
 protected:
  static NormResult forward(bool centred, const Tensor& x, const Tensor& w, const Tensor& b) {
    return centred ? layer_norm(x, w, b, eps) : rms_norm(x, w, eps);
  }

  static NormGrads backward(bool centred, const Tensor& x, const Tensor& w, const NormResult& r,
                            const Tensor& grad) {
    return centred ? layer_norm_backward(x, w, r.mean, r.rstd, grad)
                   : rms_norm_backward(x, w, r.rstd, grad);
  }

  static void check_forward(bool centred, const Tensor& x_tensor) {
    const std::int64_t n = x_tensor.size(-1), rows = x_tensor.numel() / n;
    const Tensor w_tensor = random_tensor<T>({n}, 2), b_tensor = random_tensor<T>({n}, 3);
    const NormResult result = forward(centred, x_tensor, w_tensor, b_tensor);
    const std::vector<T> x = x_tensor.to_vector<T>(), y = result.y.template to_vector<T>();
    const std::vector<T> w = w_tensor.to_vector<T>(), b = b_tensor.to_vector<T>();
    const std::vector<double> rstd = result.rstd.template to_vector<double>();
    for (std::int64_t r = 0; r < rows; ++r) {
      const RowReference want(x.data() + r * n, n, eps, centred);
      // Statistics are in double: their error shows only where the mean dwarfs the spread.
      const double lost = static_cast<double>(std::abs(want.mean) * want.rstd);
      ASSERT_TRUE(near(rstd[static_cast<std::size_t>(r)], want.rstd, 8 + n + 2 * lost));
      for (std::int64_t j = 0; j < n; ++j) {
        const std::size_t at = static_cast<std::size_t>(r * n + j), k = static_cast<std::size_t>(j);
        const Real scaled = (x[at] - want.mean) * want.rstd * w[k];
        const double in_double = (8 + n + 2 * lost) * (sizeof(T) == 8 ? 1 : 1e-8);
        ASSERT_TRUE(near(y[at], scaled + (centred ? b[k] : 0), 1 + in_double,
                         std::abs(scaled) + std::abs(w[k]) * (1 + (sizeof(T) == 8 ? lost : 0))))
            << r << " " << j;
      }
    }
  }

  static void check_backward(bool centred, const Tensor& x_tensor) {
    const std::int64_t n = x_tensor.size(-1), rows = x_tensor.numel() / n;
    const Tensor w_tensor = random_tensor<T>({n}, 2), b_tensor = random_tensor<T>({n}, 3);
    const Tensor grad_tensor = random_tensor<T>(x_tensor.shape(), 4);
    const NormResult result = forward(centred, x_tensor, w_tensor, b_tensor);
    const NormGrads grads = backward(centred, x_tensor, w_tensor, result, grad_tensor);
    const std::vector<T> x = x_tensor.to_vector<T>(), w = w_tensor.to_vector<T>();
    const std::vector<T> dy = grad_tensor.to_vector<T>(), dx = grads.x.template to_vector<T>();
    std::vector<Real> dw(static_cast<std::size_t>(n), 0), db(dw), size_dw(dw), size_db(dw);
    for (std::int64_t r = 0; r < rows; ++r) {
      const RowReference row(x.data() + r * n, n, eps, centred);
      const auto h = [&](std::int64_t j) {
        return (x[static_cast<std::size_t>(r * n + j)] - row.mean) * row.rstd;
      };
      Real mean_g = 0, mean_gh = 0, size = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const std::size_t k = static_cast<std::size_t>(j);
        const Real d = dy[static_cast<std::size_t>(r * n + j)], g = d * w[k];
        if (centred) mean_g += g / n;
        mean_gh += g * h(j) / n;
        size = std::max(size, std::abs(g) * (1 + std::abs(h(j))));
        dw[k] += d * h(j);
        db[k] += d;
        size_dw[k] += std::abs(d * h(j));
        size_db[k] += std::abs(d);
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const std::size_t at = static_cast<std::size_t>(r * n + j);
        const Real g = static_cast<Real>(dy[at]) * w[static_cast<std::size_t>(j)];
        const Real want = row.rstd * (g - mean_g - h(j) * mean_gh);
        ASSERT_TRUE(near(dx[at], want, 16 + n, row.rstd * size * (1 + std::abs(h(j)))));
      }
    }
    const double ulps = 8 + static_cast<double>(rows);
    const std::vector<T> got_dw = grads.weight.template to_vector<T>();
    for (std::size_t j = 0; j < dw.size(); ++j)
      ASSERT_TRUE(near(got_dw[j], dw[j], ulps, size_dw[j])) << j;
    if (!centred) return;
    const std::vector<T> got_db = grads.bias.template to_vector<T>();
    for (std::size_t j = 0; j < db.size(); ++j)
      ASSERT_TRUE(near(got_db[j], db[j], ulps, size_db[j])) << j;
  }

  static constexpr double eps = 1e-5;
};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Norm, Reals);

// A row of the last length is longer than a block of a GPU holds.
constexpr std::initializer_list<std::int64_t> lengths{1,  2,  3,  4,  7,   8,   9,   15,
                                                      16, 17, 31, 33, 128, 515, 8501};

TYPED_TEST(Norm, Forward) {
  for (const bool centred : {false, true})
    for (const std::int64_t n : lengths)
      this->check_forward(centred, random_tensor<TypeParam>({2, 3, n}, 1));
}

TYPED_TEST(Norm, RowsFarFromZero) {
  for (const bool centred : {false, true})
    this->check_forward(centred, random_tensor<TypeParam>({5, 100}, 1, 9999, 10001));
}

TYPED_TEST(Norm, Backward) {
  for (const bool centred : {false, true})
    for (const std::int64_t n : lengths) {
      if (n == 1 && centred) continue;  // a row of one element has no spread: all rounding
      this->check_backward(centred, random_tensor<TypeParam>({5, n}, 1));
    }
}

TYPED_TEST(Norm, BackwardOverManyGroupsOfRows) {
  for (const bool centred : {false, true})
    this->check_backward(centred, random_tensor<TypeParam>({20011, 3}, 1));
}

TYPED_TEST(Norm, ConstantRowsOfLayerNormGiveTheBias) {
  using T = TypeParam;
  const Tensor x = placed::full({2, 17}, 3, dtype_of<T>()), bias = random_tensor<T>({17}, 1);
  const NormResult result = layer_norm(x, random_tensor<T>({17}, 2), bias, 1e-5);
  EXPECT_EQ(result.y.slice(0, 1, 2).template to_vector<T>(), bias.to_vector<T>());
}

TYPED_TEST(Norm, NoRowsGiveZeroParameterGradients) {
  using T = TypeParam;
  const DType type = dtype_of<T>();
  const Tensor x = placed::empty({0, 3}, type), w = placed::ones({3}, type);
  for (const bool centred : {false, true}) {
    const NormResult result = this->forward(centred, x, w, w);
    const NormGrads grads = this->backward(centred, x, w, result, x);
    EXPECT_EQ(grads.weight.template to_vector<T>(), std::vector<T>(3, T{0}));
  }
}

TYPED_TEST(Norm, SameBitsForEveryThreadCount) {
  using T = TypeParam;
  const Tensor x = random_tensor<T>({3001, 33}, 1), w = random_tensor<T>({33}, 2);
  const Tensor b = random_tensor<T>({33}, 3), grad = random_tensor<T>({3001, 33}, 4);
  for (const bool centred : {false, true}) {
    const NormResult result = this->forward(centred, x, w, b);
    const auto gradients = [&] { return this->backward(centred, x, w, result, grad); };
    expect_same_for_every_thread_count<T>([&] { return this->forward(centred, x, w, b).y; });
    expect_same_for_every_thread_count<T>([&] { return gradients().x; });
    expect_same_for_every_thread_count<T>([&] { return gradients().weight; });
    if (centred) expect_same_for_every_thread_count<T>([&] { return gradients().bias; });
  }
}

}  // namespace
}  // namespace mobius::norm_test
