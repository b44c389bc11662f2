// Optimiser updates against their formulas in long double, several steps in a row.
#include <cmath>

#include "tests/core/ops/kernel_testing.h"

namespace mobius {
namespace {

using testing::cpu;
using testing::near;
using Real = long double;

constexpr int steps = 6;

template <class T>
class Optimizer : public ::testing::Test {
 protected:
  // A dense view of zeros that starts off a vector's border, between two values that must stay.
  static Tensor state(std::int64_t n) {
    const Tensor whole = Tensor::full({n + 4}, 77, dtype_of<T>());
    Tensor view = whole.slice(0, 3, n + 3);
    view.fill(0);
    return view;
  }
  static std::vector<T> gradient(std::int64_t n, int step) {
    return testing::random_values<T>(n, -1, 1, static_cast<std::uint64_t>(step));
  }
  // A step of `lr` rounds to T: a few units of the parameter, and of what moved it, at each step.
  static constexpr double ulps = 4 * steps;
};

using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Optimizer, RealTypes);

TYPED_TEST(Optimizer, AdamWFollowsItsFormula) {
  using T = TypeParam;
  const Real lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
  for (const std::int64_t n : testing::ragged_sizes) {
    const auto start = testing::random_values<T>(n, -2, 2, 99);
    const Tensor p = testing::misaligned(start), m = this->state(n), v = this->state(n);
    std::vector<Real> want_p(start.begin(), start.end()), want_m(start.size()),
        want_v(start.size());
    for (int step = 1; step <= steps; ++step) {
      const auto g = this->gradient(n, step);
      cpu().optimizer->adamw({0.01, 0.9, 0.95, 1e-8, 0.1, step}, testing::misaligned(g), p, m, v);
      for (std::size_t i = 0; i < g.size(); ++i) {
        want_m[i] = beta1 * want_m[i] + (1 - beta1) * g[i];
        want_v[i] = beta2 * want_v[i] + (1 - beta2) * g[i] * g[i];
        const Real m_hat = want_m[i] / (1 - std::pow(beta1, Real(step)));
        const Real v_hat = want_v[i] / (1 - std::pow(beta2, Real(step)));
        want_p[i] -= lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * want_p[i]);
      }
    }
    const auto got = p.template to_vector<T>(), got_m = m.template to_vector<T>();
    const auto got_v = v.template to_vector<T>();
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(near(got[i], want_p[i], this->ulps, 1)) << n << " " << i;
      ASSERT_TRUE(near(got_m[i], want_m[i], this->ulps, 1)) << n << " " << i;
      ASSERT_TRUE(near(got_v[i], want_v[i], this->ulps)) << n << " " << i;
    }
  }
}

// A gradient of 0 moves nothing but by decay: no 0 / 0.
TYPED_TEST(Optimizer, AdamWWithoutGradientOnlyDecays) {
  const Tensor p = Tensor::full({19}, 1, dtype_of<TypeParam>());
  const Tensor zero = p.zeros_like(), m = p.zeros_like(), v = p.zeros_like();
  cpu().optimizer->adamw({0.5, 0.9, 0.999, 1e-8, 0.25, 1}, zero, p, m, v);
  EXPECT_EQ(p.template to_vector<double>(), std::vector<double>(19, 0.875));
}

TYPED_TEST(Optimizer, SgdFollowsPyTorch) {
  using T = TypeParam;
  struct Setting {
    double momentum, decay;
    bool nesterov;
  };
  for (const Setting s : {Setting{0, 0, false}, Setting{0, 0.1, false}, Setting{0.9, 0, false},
                          Setting{0.9, 0.1, false}, Setting{0.9, 0.1, true}}) {
    for (const std::int64_t n : testing::ragged_sizes) {
      const auto start = testing::random_values<T>(n, -2, 2, 98);
      const Tensor p = testing::misaligned(start), buffer = this->state(n);
      std::vector<Real> want_p(start.begin(), start.end()), want_b(start.size());
      for (int step = 1; step <= steps; ++step) {
        const auto g = this->gradient(n, step);
        cpu().optimizer->sgd({0.01, s.momentum, s.decay, s.nesterov, step}, testing::misaligned(g),
                             p, buffer);
        for (std::size_t i = 0; i < g.size(); ++i) {
          const Real slope = g[i] + Real(s.decay) * want_p[i];
          want_b[i] = step == 1 ? slope : Real(s.momentum) * want_b[i] + slope;
          const Real move = s.momentum == 0 ? slope
                            : s.nesterov    ? slope + Real(s.momentum) * want_b[i]
                                            : want_b[i];
          want_p[i] -= Real{0.01} * move;
        }
      }
      const auto got = p.template to_vector<T>();
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(near(got[i], want_p[i], this->ulps, 1)) << s.momentum << " " << n << " " << i;
    }
  }
}

// What the momentum tensor held before the first step must not matter.
TYPED_TEST(Optimizer, SgdStartsItsMomentumAtTheGradient) {
  const Tensor p = Tensor::zeros({9}, dtype_of<TypeParam>()), g = Tensor::ones({9}, p.dtype());
  const Tensor buffer = Tensor::full({9}, 1e6, p.dtype());
  cpu().optimizer->sgd({0.5, 0.9, 0, false, 1}, g, p, buffer);
  EXPECT_EQ(p.template to_vector<double>(), std::vector<double>(9, -0.5));
  EXPECT_EQ(buffer.template to_vector<double>(), std::vector<double>(9, 1));
}

TYPED_TEST(Optimizer, SgdWithoutMomentumNeedsNoBuffer) {
  const Tensor p = Tensor::zeros({9}, dtype_of<TypeParam>()), g = Tensor::ones({9}, p.dtype());
  cpu().optimizer->sgd({0.5, 0, 0, false, 1}, g, p, Tensor());
  EXPECT_EQ(p.template to_vector<double>(), std::vector<double>(9, -0.5));
}

TYPED_TEST(Optimizer, ThreadsDoNotMatter) {
  const auto g = this->gradient(50001, 1);
  testing::expect_same_for_every_thread_count<TypeParam>([&] {
    const Tensor p = testing::misaligned(this->gradient(50001, 2));
    cpu().optimizer->adamw({0.01, 0.9, 0.95, 1e-8, 0.1, 3}, testing::misaligned(g), p,
                           this->state(50001), this->state(50001));
    return p;
  });
}

}  // namespace
}  // namespace mobius
