// Optimiser updates against their formulas in long double, several steps in a row.
#include <cmath>
#include <limits>

#include "tests/core/ops/kernel_testing.h"

namespace mobius::optimizer_test {
namespace {

using testing::near;
using testing::update_scalars;
using Real = long double;

constexpr int steps = 6;

void update_by(const AdamWSettings& settings, const ParameterUpdate& update,
               const Tensor& scalars) {
  adamw(settings, std::span(&update, 1), scalars);
}
void update_by(const SgdSettings& settings, const ParameterUpdate& update, const Tensor& scalars) {
  sgd(settings, std::span(&update, 1), scalars);
}

template <class T>
class Optimizer : public ::testing::Test {
 protected:
  // A dense view of zeros that starts off a vector's border, between two values that must stay.
  static Tensor state(std::int64_t n) {
    const Tensor whole = placed::full({n + 4}, 77, dtype_of<T>());
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
      update_by(AdamWSettings{0.9, 0.95, 1e-8, 0.1}, {testing::misaligned(g), p, {m, v}},
                update_scalars(0.01, step));
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
  const Tensor p = placed::full({19}, 1, dtype_of<TypeParam>());
  const Tensor zero = p.zeros_like(), m = p.zeros_like(), v = p.zeros_like();
  update_by(AdamWSettings{0.9, 0.999, 1e-8, 0.25}, {zero, p, {m, v}}, update_scalars(0.5, 1));
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
        update_by(SgdSettings{s.momentum, s.decay, s.nesterov},
                  {testing::misaligned(g), p, {buffer}}, update_scalars(0.01, step));
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
  const Tensor p = placed::zeros({9}, dtype_of<TypeParam>()), g = placed::ones({9}, p.dtype());
  const Tensor buffer = placed::full({9}, 1e6, p.dtype());
  update_by(SgdSettings{0.9, 0, false}, {g, p, {buffer}}, update_scalars(0.5, 1));
  EXPECT_EQ(p.template to_vector<double>(), std::vector<double>(9, -0.5));
  EXPECT_EQ(buffer.template to_vector<double>(), std::vector<double>(9, 1));
}

TYPED_TEST(Optimizer, SgdWithoutMomentumNeedsNoBuffer) {
  const Tensor p = placed::zeros({9}, dtype_of<TypeParam>()), g = placed::ones({9}, p.dtype());
  update_by(SgdSettings{0, 0, false}, {g, p, {}}, update_scalars(0.5, 1));
  EXPECT_EQ(p.template to_vector<double>(), std::vector<double>(9, -0.5));
}

TYPED_TEST(Optimizer, ThreadsDoNotMatter) {
  const auto g = this->gradient(50001, 1);
  testing::expect_same_for_every_thread_count<TypeParam>([&] {
    const Tensor p = testing::misaligned(this->gradient(50001, 2));
    update_by(AdamWSettings{0.9, 0.95, 1e-8, 0.1},
              {testing::misaligned(g), p, {this->state(50001), this->state(50001)}},
              update_scalars(0.01, 3));
    return p;
  });
}

// ---- many parameters at once

// Each as if it were alone; one without a gradient, and one that does not decay.
TYPED_TEST(Optimizer, UpdatesAList) {
  const auto make_updates = [this] {
    std::vector<ParameterUpdate> updates;
    for (const std::int64_t n : {7, 40000, 1, 16384, 50001}) {
      const int seed = static_cast<int>(n);
      updates.push_back({testing::misaligned(this->gradient(n, seed)),
                         testing::misaligned(this->gradient(n, seed + 1)),
                         {this->state(n), this->state(n)},
                         n != 40000});
    }
    updates[2].gradient = Tensor();
    return updates;
  };
  const auto scalars = update_scalars(0.01, 3, 0.5);
  const auto expect_alike = [](const ParameterUpdate& a, const ParameterUpdate& b) {
    EXPECT_EQ(a.value.template to_vector<TypeParam>(), b.value.template to_vector<TypeParam>());
    EXPECT_EQ(a.moments[0].template to_vector<TypeParam>(),
              b.moments[0].template to_vector<TypeParam>());
  };
  for (const bool is_adamw : {true, false}) {
    const auto together = make_updates(), alone = make_updates();
    const auto run = [&](std::span<const ParameterUpdate> updates) {
      is_adamw ? adamw({0.9, 0.95, 1e-8, 0.1}, updates, scalars)
               : sgd({0.9, 0.1, false}, updates, scalars);
    };
    run(together);
    for (const ParameterUpdate& update : alone) run(std::span(&update, 1));
    for (std::size_t i = 0; i < alone.size(); ++i) expect_alike(together[i], alone[i]);
    expect_alike(together[2], make_updates()[2]);
    EXPECT_NE(together[1].value.template to_vector<TypeParam>(),
              make_updates()[1].value.template to_vector<TypeParam>());
  }
}

TYPED_TEST(Optimizer, UpdatesALongList) {
  std::vector<ParameterUpdate> updates;
  for (int i = 0; i < 300; ++i) {
    const Tensor p = placed::full({1 + i % 5}, i, dtype_of<TypeParam>());
    updates.push_back({p.clone(), p, {}});
  }
  sgd({0, 0, false}, updates, update_scalars(0.5, 1));
  for (std::size_t i = 0; i < updates.size(); ++i)
    EXPECT_EQ(updates[i].value.template to_vector<double>(),
              std::vector<double>(1 + i % 5, static_cast<double>(i) / 2));
}

// A factor scales gradients, in the type of the parameter; the gradients stay as they are.
TYPED_TEST(Optimizer, ScalesGradientsByTheFactor) {
  const auto values = this->gradient(9, 1);
  const Tensor g = testing::misaligned(values), scaled = g.clone();
  Tensor(scaled).scale_(0.3);
  const Tensor a = placed::zeros({9}, g.dtype()), b = a.clone();
  update_by(SgdSettings{0, 0, false}, {g, a, {}}, update_scalars(1, 1, 0.3));
  update_by(SgdSettings{0, 0, false}, {scaled, b, {}}, update_scalars(1, 1));
  EXPECT_EQ(a.template to_vector<TypeParam>(), b.template to_vector<TypeParam>());
  EXPECT_EQ(g.template to_vector<TypeParam>(), values);
}

TYPED_TEST(Optimizer, ChangesNothingWhereTheFactorIsZero) {
  const Tensor p = placed::ones({9}, dtype_of<TypeParam>()), m = p.clone(), v = p.clone();
  const Tensor g = placed::full({9}, std::nan(""), p.dtype());
  update_by(AdamWSettings{0.9, 0.95, 1e-8, 0.1}, {g, p, {m, v}}, update_scalars(1, 1, 0));
  update_by(SgdSettings{0.9, 0.1, false}, {g, p, {m}}, update_scalars(1, 1, 0));
  for (const Tensor& tensor : {p, m, v}) {
    EXPECT_EQ(tensor.template to_vector<double>(), std::vector<double>(9, 1));
  }
}

TYPED_TEST(Optimizer, RefusesTensorsThatDoNotFit) {
  const Tensor p = placed::ones({9}, dtype_of<TypeParam>()),
               short_one = placed::ones({8}, p.dtype());
  const AdamWSettings settings{0.9, 0.95, 1e-8, 0.1};
  EXPECT_THROW(update_by(settings, {short_one, p, {p, p}}, update_scalars(1, 1)), ShapeError);
  EXPECT_THROW(update_by(settings, {p, p, {p, short_one}}, update_scalars(1, 1)), ShapeError);
  EXPECT_THROW(update_by(settings, {p, p, {p}}, update_scalars(1, 1)), ShapeError);
  EXPECT_THROW(update_by(settings, {p, p, {p, p}}, placed::zeros({2}, DType::f64)), ShapeError);
}

// ---- clipping

std::vector<double> clip(const std::vector<double>& squares, double max_norm,
                         const Tensor& scalars) {
  clip_gradients(placed::from(squares, {std::ssize(squares)}), max_norm, scalars);
  return scalars.to_vector<double>();
}

TEST(ClipGradients, ScalesDownToTheLargestNorm) {
  const auto below = clip({9, 16}, 5, update_scalars(1, 1, 7));
  EXPECT_EQ(below[UpdateScalar::norm], 5);
  EXPECT_EQ(below[UpdateScalar::factor], 1);
  EXPECT_EQ(clip({9, 16}, 2, update_scalars(1, 1))[UpdateScalar::factor], 2.0 / 5);
  EXPECT_EQ(clip({}, 2, update_scalars(1, 1))[UpdateScalar::factor], 1);
}

TEST(ClipGradients, RemembersTheFirstNormThatIsNotFinite) {
  const Tensor scalars = update_scalars(1, 4);
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  auto got = clip({1, infinity, nan}, 5, scalars);
  EXPECT_EQ(got[UpdateScalar::factor], 0);
  EXPECT_EQ(got[UpdateScalar::failed_step], 4);
  EXPECT_EQ(got[UpdateScalar::failed_gradient], 1);
  scalars.slice(0, UpdateScalar::step, UpdateScalar::step + 1).fill(5);
  got = clip({nan, 1, 1}, 5, scalars);
  got = clip({1, 1, 1}, 5, scalars);
  EXPECT_EQ(got[UpdateScalar::factor], 0);
  EXPECT_EQ(got[UpdateScalar::failed_step], 4);
  EXPECT_EQ(got[UpdateScalar::failed_gradient], 1);
  EXPECT_EQ(clip({1e308, 1e308}, 5, update_scalars(1, 1))[UpdateScalar::failed_gradient], -1);
}

}  // namespace
}  // namespace mobius::optimizer_test
