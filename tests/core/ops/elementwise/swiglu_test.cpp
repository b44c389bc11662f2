// swiglu against its composed form: the activation, and a product.
#include <gtest/gtest.h>

#include "core/ops.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::swiglu_test {
namespace {

template <class T>
class Swiglu : public ::testing::Test {
 protected:
  static Tensor values(std::int64_t n, std::uint64_t seed) {
    return testing::misaligned(testing::random_values<T>(n, -6, 6, seed));
  }

  static void expect_near(const Tensor& got, const Tensor& want, std::int64_t n) {
    const auto a = got.to_vector<T>(), b = want.to_vector<T>();
    ASSERT_EQ(a.size(), b.size());
    const T tolerance = 8 * std::numeric_limits<T>::epsilon();
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << i << " of " << n;
  }
};

using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Swiglu, RealTypes);

TYPED_TEST(Swiglu, EqualsItsComposedFormAtEverySize) {
  for (const std::int64_t n : testing::ragged_sizes) {
    const Tensor gate = this->values(n, 1), up = this->values(n, 2), grad = this->values(n, 3);
    const Unary silu{UnaryOp::silu};
    const Tensor activated = unary(silu, gate);
    this->expect_near(swiglu(gate, up), mul(activated, up), n);
    const SwigluGrads grads = swiglu_backward(gate, up, grad);
    this->expect_near(grads.gate, unary_backward(silu, gate, activated, mul(grad, up)), n);
    this->expect_near(grads.up, mul(grad, activated), n);
  }
}

TYPED_TEST(Swiglu, StridedOperandsAreMadeDense) {
  const Tensor both = testing::random_tensor<TypeParam>({5, 14}, 4);
  const Tensor gate = both.slice(1, 0, 7), up = both.slice(1, 7, 14);
  this->expect_near(swiglu(gate, up), swiglu(gate.contiguous(), up.contiguous()), 35);
}

TYPED_TEST(Swiglu, ThreadsDoNotMatter) {
  const Tensor gate = this->values(50001, 5), up = this->values(50001, 6);
  testing::expect_same_for_every_thread_count<TypeParam>(
      [&] { return swiglu_backward(gate, up, gate).gate; });
}

TEST(SwigluErrors, ShapesAndTypesMustAgree) {
  const Tensor gate = placed::zeros({2, 3}, DType::f32);
  EXPECT_THROW(swiglu(gate, placed::zeros({3}, DType::f32)), ShapeError);
  EXPECT_THROW(swiglu(gate, placed::zeros({2, 3}, DType::f64)), ShapeError);
  EXPECT_THROW(swiglu_backward(gate, gate, placed::zeros({3, 2}, DType::f32)), ShapeError);
}

}  // namespace
}  // namespace mobius::swiglu_test
