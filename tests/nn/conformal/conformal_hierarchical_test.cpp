// Hierarchical conformal attention: against the exact one, against its own weights as a matrix,
// and against differences.
#include "nn/attention/conformal/conformal_hierarchical.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/backend.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "tests/autograd/gradcheck.h"
#include "tests/error_of.h"
#include "tests/nn/layer_testing.h"
#include "tests/nn/nn_testing.h"

namespace mobius::conformal_hierarchical_test {
namespace {

using testing::causal;
using testing::distance;
using testing::expect_error;
using testing::layer_context;
using testing::normal;
using testing::parameter_of;

struct Sizes {
  std::int64_t n_q = 11, n_k = 11, d = 6, groups = 2, window = 3, m = 5;
};

struct Problem {
  Variable q, k, v, landmarks, alpha;
  std::vector<Variable> all() const { return {q, k, v, landmarks, alpha}; }
};

constexpr std::int64_t batch = 2, heads = 2;

Problem problem_of(const Sizes& s, DType dtype = DType::f64, double q_std = 1) {
  return {Variable(normal({batch, heads, s.n_q, s.d}, 1, q_std, dtype), true),
          Variable(normal({batch, s.groups, s.n_k, s.d}, 2, 1, dtype), true),
          Variable(normal({batch, s.groups, s.n_k, 4}, 3, 1, dtype), true),
          Variable(normal({1, s.groups, s.m, s.d}, 4, 1, dtype), true),
          Variable(placed::from(std::vector<double>{2, 3}, {2, 1, 1}).to(dtype), true)};
}

struct Settings {
  ConformalWeight weight = ConformalWeight::newton;
  ConformalNormalize normalize = ConformalNormalize::analytic;
  double ridge = 1e-3;
};

ConformalKernel kernel_of(const Settings& settings, std::int64_t d) {
  return settings.weight == ConformalWeight::custom ? conformal_kernel(settings.weight, d, 1.7)
                                                    : conformal_kernel(settings.weight, d);
}

HierarchicalCall call_of(const std::vector<Variable>& x, std::int64_t window,
                         const Settings& settings = {}) {
  const ConformalKernel kernel = kernel_of(settings, x[0].size(3));
  const BallPoints points = embed_in_ball(x[0], x[1], x[4], kernel.s);
  const LandmarkBasis basis(x[3], kernel, /*r_far=*/0.5, settings.ridge);
  return hierarchical_call({.q = x[0], .k = x[1], .v = x[2], .mask = causal()}, points, basis,
                           kernel, settings.normalize, window);
}

std::vector<Settings> all_settings() {
  std::vector<Settings> all;
  for (const ConformalWeight weight : {ConformalWeight::newton, ConformalWeight::poisson,
                                       ConformalWeight::jacobian, ConformalWeight::custom})
    for (const ConformalNormalize normalize :
         {ConformalNormalize::none, ConformalNormalize::analytic})
      all.push_back({.weight = weight, .normalize = normalize});
  return all;
}

std::vector<Tensor> gradients(const Problem& problem, const Variable& out) {
  backward(out, placed::random_normal(out.shape(), 0, 1, {12, 99}, out.dtype()));
  std::vector<Tensor> grads;
  for (Variable input : problem.all()) {
    grads.push_back(input.grad().defined() ? input.grad().clone() : Tensor());
    input.zero_grad();
  }
  return grads;
}

TEST(Hierarchical, IsExactWhereTheWindowHoldsAllKeys) {
  for (const Settings& settings : all_settings())
    for (const std::int64_t n_q : {9, 4}) {
      const Problem p = problem_of({.n_q = n_q, .n_k = 9, .window = 9});
      const Variable exact =
          attention(conformal_call({.q = p.q, .k = p.k, .v = p.v, .mask = causal()}, p.alpha,
                                   kernel_of(settings, 6), settings.normalize));
      for (const std::int64_t window : {9, 10, 1000}) {
        const Variable out = attention(call_of(p.all(), window, settings));
        EXPECT_EQ(out.data().to_vector<double>(), exact.data().to_vector<double>());
      }
    }
}

TEST(Hierarchical, WithoutFarFieldIsASlidingWindow) {
  const Problem p = problem_of({});
  FarFieldOptions none;
  none.kind = FarFieldKind::none;
  for (const Settings& settings : all_settings()) {
    const ConformalKernel kernel = kernel_of(settings, 6);
    const HeadInputs in{.q = p.q, .k = p.k, .v = p.v, .mask = causal()};
    const BallPoints points = embed_in_ball(p.q, p.k, p.alpha, kernel.s);
    AttentionCall window =
        conformal_call(in, points, visible_counts(in), kernel, settings.normalize);
    window.spec.mask.window = 3;
    const auto far_field = make_far_field_builder(none, kernel, /*alpha=*/1, /*n_groups=*/2,
                                                  testing::layer_context(12, 2).init)
                               ->build(points.zeta);
    const HierarchicalCall call =
        hierarchical_call(in, points, *far_field, kernel, settings.normalize, /*window=*/3);
    EXPECT_EQ(attention_weights(call).data().to_vector<double>(),
              attention_weights(window).data().to_vector<double>());
    EXPECT_EQ(attention(call).data().to_vector<double>(),
              attention(window).data().to_vector<double>());
  }
}

// Landmarks all around the circle and radii below r_far leave an error that falls with the ridge.
TEST(Hierarchical, ApproachesTheExactOneWithItsLandmarks) {
  const Sizes sizes{.n_q = 40, .n_k = 40, .d = 2};
  Problem p = problem_of(sizes, DType::f64, /*q_std=*/0.1);
  constexpr int m = 24;
  std::vector<double> circle;
  for (int a = 0; a < m; ++a) {
    circle.push_back(std::cos(2 * std::numbers::pi * a / m));
    circle.push_back(std::sin(2 * std::numbers::pi * a / m));
  }
  p.landmarks = Variable(placed::from(circle, {1, 1, m, 2}));
  const Variable exact =
      attention(conformal_call({.q = p.q, .k = p.k, .v = p.v, .mask = causal()}, p.alpha,
                               kernel_of({}, 2), ConformalNormalize::analytic));
  const auto error = [&](double ridge) {
    const Settings settings{.ridge = ridge};
    return distance(attention(call_of(p.all(), 3, settings)).data(), exact.data());
  };
  EXPECT_LT(error(1e-3), 1e-2);
  EXPECT_LT(error(1e-12), 1e-6);
}

TEST(Hierarchical, EqualsItsWeightsTimesTheValues) {
  const std::vector<Sizes> sizes{{},
                                 {.groups = 1},
                                 {.n_q = 4},
                                 {.n_q = 1, .n_k = 9},
                                 {.n_q = 9, .n_k = 6},
                                 {.n_q = 4, .n_k = 4, .window = 3},
                                 {.n_q = 150, .n_k = 170, .d = 5, .window = 33, .m = 17},
                                 {.n_q = 5, .n_k = 40, .window = 64}};
  for (const Sizes& s : sizes)
    for (const Settings& settings : all_settings()) {
      const Problem p = problem_of(s);
      const HierarchicalCall call = call_of(p.all(), s.window, settings);
      const Variable fused = attention(call);
      const Variable composed = apply_weights(attention_weights(call), p.v);
      EXPECT_LT(distance(fused.data(), composed.data()), 1e-12);
      const std::vector<Tensor> got = gradients(p, attention(call_of(p.all(), s.window, settings))),
                                want = gradients(p, composed);
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
        if (!got[i].defined()) continue;
        EXPECT_LT(distance(got[i], want[i]), 1e-11) << i;
      }
    }
}

TEST(Hierarchical, GradientsAgreeWithDifferencesThroughTheSolve) {
  for (const Settings& settings : all_settings()) {
    const Problem p = problem_of({.n_q = 6, .n_k = 7, .groups = 1, .window = 2, .m = 3});
    std::vector<Tensor> inputs;
    for (const Variable& input : p.all()) inputs.push_back(input.data());
    EXPECT_EQ(
        gradcheck(
            [&](const std::vector<Variable>& x) { return attention(call_of(x, 2, settings)); },
            inputs),
        "");
  }
}

TEST(Hierarchical, OutputsDoNotSeeLaterKeys) {
  const Sizes s{.n_q = 200, .n_k = 200, .window = 20};
  const auto first = [&](std::int64_t n, double later) {
    Problem p = problem_of(s, DType::f32);
    for (Variable* x : {&p.q, &p.k, &p.v}) x->mutable_data().slice(2, n, s.n_k).fill(later);
    return attention(call_of(p.all(), s.window)).data().slice(2, 0, n).to_vector<float>();
  };
  for (const std::int64_t n : {15, 21, 100, 199}) EXPECT_EQ(first(n, 3), first(n, -7)) << n;
}

// Far away the query's radius counts as r_far, with the mean of the kernel unchanged: the sum of
// the weights stays near 1 however sharp the query is.
TEST(Hierarchical, FarWeightsOfSharpQueriesAreThoseOfTheLargestFarRadius) {
  const Problem p = problem_of({.n_q = 30, .n_k = 30, .d = 4, .window = 1, .m = 40});
  const ConformalKernel kernel = kernel_of({}, 4);
  const LandmarkBasis basis(p.landmarks, kernel, 0.5, 1e-3);
  const auto features_at = [&](double r) {
    const auto radius = [&](double x) {
      return Variable(placed::full({batch, heads, 30, 1}, x, DType::f64));
    };
    const BallPoints points{
        .radius = {radius(r), radius(1 - r)}, .qhat = polar(p.q).direction, .zeta = {}};
    return basis.query_features(points).data();
  };
  EXPECT_EQ(features_at(0.5).to_vector<double>(), features_at(0.9).to_vector<double>());
  EXPECT_NE(features_at(0.5).to_vector<double>(), features_at(0.4).to_vector<double>());
}

TEST(LandmarkBasis, WhitenedFeaturesHaveTheSizeOfTheKernel) {
  const Problem p = problem_of({.n_k = 50, .d = 4, .m = 20});
  const LandmarkBasis basis(p.landmarks, kernel_of({}, 4), 0.5, 1e-3);
  const Tensor features = basis.key_features(polar(p.k).direction).data();
  const Tensor lengths = sum(unary({UnaryOp::square}, features), {-1});
  for (const double length : lengths.to_vector<double>()) EXPECT_LE(length, 1 + 1e-12);
}

TEST(LandmarkBasis, StaysFiniteForARadiusNearTheSphere) {
  const Problem p = problem_of({.n_k = 64, .d = 64, .m = 16}, DType::f32);
  const LandmarkBasis basis(p.k, kernel_of({}, 64), 0.9999, 1e-3);
  const Tensor features = basis.features(polar(p.k).direction).data();
  for (const float value : features.to_vector<float>()) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  }
}

TEST(LandmarkBasis, RefusesWhatHasNoMeaning) {
  const Variable landmarks(normal({1, 1, 3, 4}, 1));
  const ConformalKernel kernel = kernel_of({}, 4);
  const auto basis = [&](const ConformalKernel& of, double r_far, double ridge) {
    return [&, of, r_far, ridge] { LandmarkBasis(landmarks, of, r_far, ridge); };
  };
  expect_error<ShapeError>(basis(kernel_of({}, 5), 0.5, 1), "[B or 1, G or 1, m, 5], got [1, 1");
  expect_error<Error>(basis(kernel, 0, 1), "r_far in (0, 1), got 0");
  expect_error<Error>(basis(kernel, 1, 1), "r_far in (0, 1), got 1");
  expect_error<Error>(basis(kernel, 0.5, 0), "a ridge above 0, got 0");
}

TEST(Hierarchical, RefusesMasksAndNormalisationsWithoutFarField) {
  const Problem p = problem_of({});
  const ConformalKernel kernel = kernel_of({}, 6);
  const BallPoints points = embed_in_ball(p.q, p.k, p.alpha, kernel.s);
  const LandmarkBasis basis(p.landmarks, kernel, 0.5, 1e-3);
  const auto call = [&](const AttentionMask& mask, ConformalNormalize normalize,
                        std::int64_t window) {
    return [&, mask, normalize, window] {
      hierarchical_call({.v = p.v, .mask = mask}, points, basis, kernel, normalize, window);
    };
  };
  const auto analytic = ConformalNormalize::analytic;
  expect_error<Error>(call({}, analytic, 3), "a causal mask alone, got none");
  expect_error<Error>(call({.causal = true, .window = 2}, analytic, 3), "got a window");
  expect_error<Error>(
      call({.causal = true, .mask = placed::ones({11, 11}, DType::u8)}, analytic, 3),
      "got a given mask");
  expect_error<Error>(call(causal(), ConformalNormalize::empirical, 3), "empirical");
  expect_error<Error>(call(causal(), analytic, 0), "a window above 0, got 0");
}

// ---- the layer

ConformalHierarchicalOptions small_options(LandmarkSource source) {
  ConformalHierarchicalOptions options;
  options.window = 3;
  options.alpha = 3;
  options.far.kind = FarFieldKind::landmarks;
  options.far.n_landmarks = 4;
  options.far.landmark_source = source;
  return options;
}

TEST(HierarchicalLayer, GradientsOfEveryParameterAgreeWithDifferences) {
  for (const LandmarkSource source :
       {LandmarkSource::random, LandmarkSource::learned, LandmarkSource::keys})
    for (const std::int64_t n_kv_heads : {1, 2}) {
      AttentionContext context = layer_context(8, 2, Positions::rope);
      context.model.n_kv_heads = n_kv_heads;
      const auto layer = small_options(source).build(context);
      const Variable x(normal({2, 9, 8}, 4));
      testing::expect_parameter_gradients(
          *layer, [&] { return sum(square(layer->forward(x, causal(), {}))); });
    }
}

TEST(HierarchicalLayer, SavesItsLandmarks) {
  const auto random = small_options(LandmarkSource::random).build(layer_context(8, 2));
  ASSERT_EQ(random->buffers().size(), 1u);
  EXPECT_EQ(random->buffers()[0].name, "far.landmarks");
  EXPECT_EQ(random->buffers()[0].value.shape(), (Shape{2, 4, 4}));
  const auto learned = small_options(LandmarkSource::learned).build(layer_context(8, 2));
  EXPECT_TRUE(learned->buffers().empty());
  EXPECT_EQ(parameter_of(*learned, "far.landmarks").data().to_vector<double>(),
            random->buffers()[0].value.to_vector<double>());
  const auto keys = small_options(LandmarkSource::keys).build(layer_context(8, 2));
  EXPECT_TRUE(keys->buffers().empty());
  EXPECT_EQ(keys->parameter_count() + 2 * 4 * 4, learned->parameter_count());
}

// Memory of both passes, which an n x n matrix would multiply by 16.
TEST(HierarchicalLayer, TakesMemoryLinearInTheSequence) {
  const auto layer = small_options(LandmarkSource::learned).build(layer_context(8, 2));
  const auto peak_of = [&](std::int64_t n) {
    const Variable x(normal({1, n, 8}, 4));
    Allocator& allocator = allocator_for(testing::device());
    allocator.reset_peak();
    const std::size_t before = allocator.stats().current;
    backward(sum(square(layer->forward(x, causal(), {}))));
    return allocator.stats().peak - before;
  };
  peak_of(500);
  EXPECT_LT(peak_of(2000), 5 * peak_of(500));
}

TEST(HierarchicalLayer, KeysAsLandmarksLookAhead) {
  const ConformalHierarchicalOptions options = small_options(LandmarkSource::keys);
  const auto layer = options.build(layer_context(8, 2));
  const auto first = [&](double last) {
    const Tensor x = normal({1, 12, 8}, 4);
    x.slice(1, 11, 12).fill(last);
    return layer->forward(Variable(x), causal(), {}).data().slice(1, 0, 8).to_vector<double>();
  };
  EXPECT_NE(first(1), first(-1));
  expect_error<ConfigError>([&] { options.require_trainable(); },
                            "landmark_source: keys cannot be trained");
  expect_error<Error>([&] { layer->make_cache(); }, "no generation");
  EXPECT_NO_THROW(small_options(LandmarkSource::random).require_trainable());
}

// The weights that are formed in parts, here of a long sequence, are those of the forward pass: the
// landmarks of every part are keys of the whole sequence.
TEST(HierarchicalLayer, TellsTheWeightsThatItAppliesWithKeysAsLandmarks) {
  constexpr std::int64_t n = 800, width = 8;
  const auto layer = small_options(LandmarkSource::keys).build(layer_context(width, 2));
  Variable projection = parameter_of(*layer, "proj.weight");
  projection.mutable_data().fill(0);
  for (std::int64_t i = 0; i < width; ++i)
    projection.mutable_data().slice(0, i, i + 1).slice(1, i, i + 1).fill(1);
  const Tensor x = normal({1, n, width}, 4);
  DiagnosticsSink sink(Diagnosis::weights);
  const Tensor out = layer->forward(Variable(x), causal(), {.sink = &sink}).data();
  const Tensor value_rows =
      parameter_of(*layer, "qkv.weight").data().slice(0, 2 * width, 3 * width);
  const Tensor values = matmul(x, value_rows.transpose(0, 1)).reshape({n, 2, width / 2});
  const Tensor applied = matmul(sink.layers().at(0).weights, values.transpose(0, 1));
  EXPECT_LT(distance(applied.transpose(0, 1).contiguous().reshape({1, n, width}), out), 1e-12);
}

TEST(HierarchicalLayer, CountsQueriesBeyondTheResolutionLimitOfAllTheirKeys) {
  const ConformalHierarchicalOptions options = small_options(LandmarkSource::random);
  ConformalOptions exact;
  exact.alpha = options.alpha;
  const Variable x(normal({2, 9, 8}, 4));
  const auto summaries = [&x](const Attention& layer) {
    DiagnosticsSink sink;
    layer.forward(x, causal(), {.sink = &sink});
    return sink.summaries();
  };
  EXPECT_EQ(summaries(*options.build(layer_context(8, 2))),
            summaries(*exact.build(layer_context(8, 2))));
}

TEST(HierarchicalLayer, RefusesOptionsByName) {
  const auto refused = [](auto change, const std::string& part) {
    ConformalHierarchicalOptions options;
    options.far.kind = FarFieldKind::landmarks;
    change(options);
    expect_error<ConfigError>([&] { options.build(layer_context(8, 2)); }, part);
  };
  refused([](auto& o) { o.window = 0; }, "conformal_hierarchical: window");
  refused([](auto& o) { o.far.n_landmarks = 0; }, "n_landmarks");
  refused([](auto& o) { o.far.r_far = 0; }, "r_far");
  refused([](auto& o) { o.far.r_far = 1; }, "r_far");
  refused([](auto& o) { o.far.ridge = 0; }, "ridge");
  refused([](auto& o) { o.normalize = ConformalNormalize::empirical; }, "normalize: empirical");
}

}  // namespace
}  // namespace mobius::conformal_hierarchical_test
