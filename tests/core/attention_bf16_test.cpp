// Attention whose products may take bf16 operands, against the kernels of the CPU in f64 on
// operands that were rounded before. A device without such products computes in f32, with the same
// bits as without the leave.
#include <gtest/gtest.h>

#include <cmath>

#include "core/ops.h"
#include "core/score_maps/score_maps.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::attention_bf16_test {
namespace {

struct Sizes {
  std::int64_t batch = 1, heads = 2, groups = 1, n_q = 70, n_k = 150, d = 64, dv = 64;
};

// Operands on the CPU: of f32, the products' among them with the digits of bf16.
struct Problem {
  AttentionSpec spec;
  AttentionInputs inputs;
  Tensor grad_out;
};

Tensor rounded(const Tensor& x) { return x.to(DType::bf16).to(DType::f32); }

Tensor randn(Shape shape, std::uint64_t stream) {
  return random_normal(std::move(shape), 0, 1, {17, stream});
}

Tensor unit_rows(Shape shape, std::uint64_t stream) {
  const std::int64_t d = shape.back(), rows = numel(shape) / d;
  std::vector<float> x = randn(shape, stream).to_vector<float>();
  for (std::int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    float* const row = x.data() + r * d;
    for (std::int64_t c = 0; c < d; ++c) squares += row[c] * row[c];
    for (std::int64_t c = 0; c < d; ++c)
      row[c] = static_cast<float>(row[c] / std::sqrt(std::max(squares, 1e-12)));
  }
  return Tensor::from(x, std::move(shape));
}

struct Variant {
  ScoreMap score = ScoreMap::dot;
  WeightNormalizer normalizer = WeightNormalizer::softmax;
  bool has_biases = false;
  double exponent = 7;
};

Problem make_problem(const Sizes& s, const Variant& variant, const AttentionMask& mask = {},
                     double dropout = 0) {
  const bool is_dot = variant.score == ScoreMap::dot;
  const Shape q{s.batch, s.heads, s.n_q, s.d}, k{s.batch, s.groups, s.n_k, s.d};
  Problem p;
  p.spec = {.score = variant.score,
            .normalizer = variant.normalizer,
            .scale = 1 / std::sqrt(static_cast<double>(s.d)),
            .exponent = variant.exponent,
            .mask = mask,
            .dropout = dropout,
            .dropout_key = {5, 6}};
  p.inputs.q = rounded(is_dot ? randn(q, 1) : unit_rows(q, 1));
  p.inputs.k = rounded(is_dot ? randn(k, 2) : unit_rows(k, 2));
  p.inputs.v = rounded(randn({s.batch, s.groups, s.n_k, s.dv}, 3));
  p.grad_out = rounded(randn({s.batch, s.heads, s.n_q, s.dv}, 4));
  if (variant.has_biases) {
    p.inputs.key_bias = randn({s.batch, s.groups, s.n_k}, 5);
    p.inputs.distance_bias = randn({s.heads, s.n_q + s.n_k - 1}, 6);
    p.inputs.sharpness = random_uniform({s.batch, s.heads, s.n_q}, 0.5, 1.5, {17, 7});
  }
  if (!is_dot) {
    p.inputs.sharpness = random_uniform({s.batch, s.heads, s.n_q}, 0, 0.9, {17, 7});
    if (variant.normalizer == WeightNormalizer::none)
      p.inputs.log_factor = random_uniform({s.batch, s.heads, s.n_q}, -2, 0, {17, 8});
  }
  return p;
}

// Results and gradients, as f64 on the CPU, by name.
using Results = std::vector<std::pair<std::string, Tensor>>;

Tensor moved(const Tensor& x, DType type, Device device) {
  return x.defined() ? x.to(type).to(device) : x;
}

Results run(const Problem& p, MatmulPrecision precision, DType type, Device device) {
  AttentionSpec spec = p.spec;
  spec.precision = precision;
  spec.mask.mask = moved(spec.mask.mask, DType::u8, device);
  spec.mask.selected = moved(spec.mask.selected, DType::i32, device);
  const AttentionInputs inputs =
      map_operands(p.inputs, [&](const Tensor& x) { return moved(x, type, device); });
  const AttentionResult result = attention(spec, inputs);
  const AttentionGrads grads =
      attention_backward(spec, inputs, result, moved(p.grad_out, type, device));
  Results all{{"out", result.out}};
  if (result.lse.defined()) all.emplace_back("lse", result.lse);
  scores::for_each_operand(
      [&](const char* name, const Tensor& grad) {
        if (grad.defined()) all.emplace_back(std::string("the gradient of ") + name, grad);
      },
      grads);
  for (auto& [name, x] : all) x = x.contiguous().to(Device{}).to(DType::f64);
  return all;
}

Results run_here(const Problem& p, MatmulPrecision precision = MatmulPrecision::bf16) {
  return run(p, precision, DType::f32, testing::device());
}

double norm(const std::vector<double>& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

// Within 2e-2 of f64, as a whole: the rounding of the weights and of their gradients. Gradients
// that vanish, where a query sees one key only, are small beside the gradient of the output.
void expect_near_f64(const Problem& p, const std::string& what) {
  const Results got = run_here(p), want = run(p, MatmulPrecision::full, DType::f64, Device{});
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t r = 0; r < got.size(); ++r) {
    const std::vector<double> x = got[r].second.to_vector<double>(),
                              y = want[r].second.to_vector<double>();
    ASSERT_EQ(x.size(), y.size());
    std::vector<double> error(x.size()), finite(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool both_infinite = std::isinf(y[i]) && x[i] == y[i];
      error[i] = both_infinite ? 0 : x[i] - y[i];
      finite[i] = both_infinite ? 0 : y[i];
    }
    const double floor = 1e-2 * std::sqrt(static_cast<double>(x.size()));
    EXPECT_LT(norm(error), 2e-2 * std::max(norm(finite), floor)) << what << ": " << got[r].first;
  }
}

std::string describe(const Sizes& s) {
  return fmt::format("batch {} heads {} groups {} n_q {} n_k {} d {} dv {}", s.batch, s.heads,
                     s.groups, s.n_q, s.n_k, s.d, s.dv);
}

const std::vector<std::pair<const char*, Variant>> variants{
    {"dot", {}},
    {"dot with biases", {.has_biases = true}},
    {"conformal softmax", {.score = ScoreMap::conformal, .normalizer = WeightNormalizer::softmax}},
    {"conformal", {.score = ScoreMap::conformal, .normalizer = WeightNormalizer::none}},
};

class AttentionBf16 : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Variant& variant() const { return variants[GetParam()].second; }
};

TEST_P(AttentionBf16, IsNearF64ForEveryWidth) {
  for (const auto& [d, dv] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 2},
                                                                                {16, 16},
                                                                                {24, 24},
                                                                                {32, 16},
                                                                                {32, 32},
                                                                                {64, 32},
                                                                                {64, 64},
                                                                                {80, 80},
                                                                                {128, 64},
                                                                                {99, 128},
                                                                                {8, 256},
                                                                                {256, 128},
                                                                                {256, 256},
                                                                                {64, 65}}) {
    const Sizes s{.heads = 1, .groups = 1, .n_q = 37, .n_k = 75, .d = d, .dv = dv};
    expect_near_f64(make_problem(s, variant()), describe(s));
  }
}

TEST_P(AttentionBf16, IsNearF64ForRaggedLengthsAndSharedHeads) {
  for (const Sizes& s : std::vector<Sizes>{
           {.n_q = 1, .n_k = 1},
           {.n_q = 1, .n_k = 200},
           {.heads = 4, .groups = 2, .n_q = 1, .n_k = 600, .d = 32, .dv = 32},
           {.batch = 2, .heads = 4, .groups = 2, .n_q = 129, .n_k = 65},
           {.n_q = 100, .n_k = 130, .d = 32, .dv = 32},  // the diagonal one key off a tile's end
           {.heads = 3, .groups = 3, .n_q = 33, .n_k = 257, .d = 20, .dv = 20},
           {.heads = 1, .groups = 1, .n_q = 260, .n_k = 131, .d = 128, .dv = 128}}) {
    for (const bool causal : {false, true})
      expect_near_f64(make_problem(s, variant(), {.causal = causal}),
                      fmt::format("{} causal {}", describe(s), causal));
  }
}

TEST_P(AttentionBf16, IsNearF64UnderEveryMask) {
  const Sizes s{.batch = 2, .heads = 2, .groups = 1, .n_q = 150, .n_k = 170, .d = 32, .dv = 32};
  const Tensor uniform = random_uniform({s.batch, 1, s.n_q, s.n_k}, 0, 1, {1, 1});
  const Tensor given = compare(CompareOp::less, uniform, Tensor::full({}, 0.3));
  given.slice(2, 7, 8).fill(0);  // a query that sees nothing
  const AttentionInputs keys{.q = randn({s.batch, s.heads, s.n_q, s.d}, 1),
                             .k = randn({s.batch, s.groups, s.n_k, s.d}, 2),
                             .v = randn({s.batch, s.groups, s.n_k, s.dv}, 3)};
  const AttentionMask causal{.causal = true};
  const Tensor selected = attention_topk({.mask = causal}, keys, 9);
  const std::vector<std::pair<const char*, AttentionMask>> masks{
      {"window", {.window = 20}},
      {"window that starts one key into a tile", {.window = 115}},
      {"window that ends one key before a tile", {.window = 107}},
      {"causal window", {.causal = true, .window = 20}},
      {"strided", {.causal = true, .window = 5, .stride = 7}},
      {"global", {.causal = true, .window = 5, .n_global = 3}},
      {"given", {.mask = given}},
      {"given, for all heads", {.causal = true, .mask = given.slice(0, 0, 1)}},
      {"selected", {.causal = true, .selected = selected}}};
  for (const auto& [name, mask] : masks) expect_near_f64(make_problem(s, variant(), mask), name);
  // Splits of the keys, of which some see nothing.
  const Sizes few_queries{.heads = 1, .groups = 1, .n_q = 40, .n_k = 900, .d = 32, .dv = 32};
  expect_near_f64(make_problem(few_queries, variant(), {.causal = true, .window = 20}),
                  "few queries with a window");
  Sizes more_queries = s;
  more_queries.n_k = 40;  // the first see nothing
  expect_near_f64(make_problem(more_queries, variant(), causal), "more queries than keys");
}

// One key too many or too few would pass for rounding above. Offsets and windows end at, one before
// and one behind the borders of tiles, of which the matrix shows every pair on its own.
TEST_P(AttentionBf16, APatternIsTheMatrixOfItsPairs) {
  for (const std::int64_t n_k : {158, 159, 160, 161, 162}) {
    const Sizes s{.batch = 2, .heads = 4, .groups = 4, .n_q = 128, .n_k = n_k, .d = 32, .dv = 32};
    for (const std::int64_t window : {0, 96, 97, 98, 127, 128, 129}) {
      const AttentionMask pattern{.causal = n_k % 2 == 0 || window == 0, .window = window};
      const Problem by_pattern = make_problem(s, variant(), pattern);
      Problem by_matrix = by_pattern;
      by_matrix.spec.mask = {.mask = materialize_mask(pattern, s.n_q, s.n_k, Device{})};
      const Results got = run_here(by_pattern), want = run_here(by_matrix);
      for (std::size_t r = 0; r < got.size(); ++r) {
        const std::vector<double> x = got[r].second.to_vector<double>(),
                                  y = want[r].second.to_vector<double>();
        const double usual = norm(y) / std::sqrt(static_cast<double>(y.size()));
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(x[i], y[i], 5e-3 * (std::abs(y[i]) + usual))
              << got[r].first << ", n_k " << n_k << " window " << window;
      }
    }
  }
}

TEST_P(AttentionBf16, DropsTheSameWeightsAsTheCpu) {
  for (const std::int64_t n_k : {64, 150}) {  // a row's numbers start at whole blocks, or not
    const Sizes s{.batch = 2, .heads = 2, .groups = 1, .n_q = 70, .n_k = n_k};
    for (const bool causal : {false, true})
      expect_near_f64(make_problem(s, variant(), {.causal = causal}, 0.3),
                      fmt::format("n_k {} causal {}", n_k, causal));
  }
}

TEST_P(AttentionBf16, HasTheSameBitsInEveryRun) {
  const Sizes s{.batch = 1, .heads = 4, .groups = 2, .n_q = 140, .n_k = 300};
  for (const double dropout : {0.0, 0.2}) {
    const Problem p = make_problem(s, variant(), {.causal = true}, dropout);
    const Results first = run_here(p), second = run_here(p);
    for (std::size_t r = 0; r < first.size(); ++r)
      EXPECT_TRUE(testing::same_bits(first[r].second.to_vector<double>(),
                                     second[r].second.to_vector<double>()))
          << first[r].first;
  }
}

TEST_P(AttentionBf16, ReadsViewsThatStartAnywhere) {
  const Sizes s{.batch = 2, .heads = 2, .groups = 2, .n_q = 40, .n_k = 40, .d = 24, .dv = 24};
  const Problem dense = make_problem(s, variant());
  Problem strided = dense;
  strided.spec.precision = MatmulPrecision::bf16;
  // The operands as columns of one matrix, as a projection leaves them, from an odd element on.
  const std::int64_t width = 3 * s.heads * s.d + 1;
  const Tensor all = Tensor::zeros({s.batch, s.n_q, width});
  std::int64_t column = 1;
  for (Tensor* x : {&strided.inputs.q, &strided.inputs.k, &strided.inputs.v}) {
    Tensor view = all.slice(2, column, column + s.heads * s.d);
    column += s.heads * s.d;
    view.copy_from(x->transpose(1, 2).contiguous().reshape({s.batch, s.n_q, s.heads * s.d}));
  }
  const Tensor here = all.to(testing::device());
  const auto heads = [&](std::int64_t part) {
    return here.slice(2, 1 + part * s.heads * s.d, 1 + (part + 1) * s.heads * s.d)
        .reshape({s.batch, s.n_q, s.heads, s.d})
        .transpose(1, 2);
  };
  AttentionInputs inputs = map_operands(
      dense.inputs, [](const Tensor& x) { return moved(x, DType::f32, testing::device()); });
  const AttentionResult want = attention(strided.spec, inputs);
  inputs.q = heads(0);
  inputs.k = heads(1);
  inputs.v = heads(2);
  const AttentionResult got = attention(strided.spec, inputs);
  EXPECT_TRUE(testing::same_bits(got.out.to_vector<float>(), want.out.to_vector<float>()));
}

TEST_P(AttentionBf16, ChangesNothingWhereProductsAreInF32) {
  if (testing::device().type == DeviceType::cuda) GTEST_SKIP() << "they are in bf16 there";
  const Problem p = make_problem({}, variant(), {.causal = true}, 0.1);
  const Results full = run_here(p, MatmulPrecision::full), bf16 = run_here(p);
  for (std::size_t r = 0; r < full.size(); ++r)
    EXPECT_TRUE(
        testing::same_bits(full[r].second.to_vector<double>(), bf16[r].second.to_vector<double>()))
        << full[r].first;
}

// The device that has the products uses them: the results are not those of f32.
TEST_P(AttentionBf16, RoundsWhereItIsFaster) {
  if (testing::device().type != DeviceType::cuda) GTEST_SKIP() << "products are in f32 here";
  const Problem p = make_problem({}, variant());
  const Results full = run_here(p, MatmulPrecision::full), bf16 = run_here(p);
  EXPECT_FALSE(
      testing::same_bits(full[0].second.to_vector<double>(), bf16[0].second.to_vector<double>()));
}

INSTANTIATE_TEST_SUITE_P(Variants, AttentionBf16, ::testing::Range<std::size_t>(0, 4),
                         [](const auto& one) {
                           std::string name = variants[one.param].first;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(ConformalBf16, TakesAnyExponent) {
  const Sizes s{.heads = 1, .groups = 1, .n_q = 40, .n_k = 70};
  for (const auto normalizer : {WeightNormalizer::softmax, WeightNormalizer::none}) {
    for (const double exponent : {0.3, 0.5, 1.0, 2.5, 31.0, 31.5, 63.0})
      expect_near_f64(
          make_problem(
              s, {.score = ScoreMap::conformal, .normalizer = normalizer, .exponent = exponent}),
          fmt::format("exponent {}", exponent));
  }
}

// A query on its key with t = 1 has a distance of 0: the weight is that of the least distance, or
// the cap, and a capped weight has no gradient.
TEST(ConformalBf16, CapsItsWeights) {
  const Sizes s{.heads = 1, .groups = 1, .n_q = 3, .n_k = 3, .d = 8, .dv = 8};
  for (const double exponent : {0.5, 40.0}) {
    for (const double log_cap : {80.0, 0.0}) {
      Problem p = make_problem(s, {.score = ScoreMap::conformal,
                                   .normalizer = WeightNormalizer::none,
                                   .exponent = exponent});
      p.spec.log_cap = log_cap;
      p.inputs.q.fill(0);
      p.inputs.q.slice(3, 0, 1).fill(1);
      p.inputs.k = p.inputs.q.clone();
      p.inputs.sharpness.fill(1);
      for (const auto& [name, x] : run_here(p)) {
        for (const double value : x.to_vector<double>()) EXPECT_TRUE(std::isfinite(value)) << name;
      }
      const Results got = run_here(p), want = run(p, MatmulPrecision::full, DType::f32, Device{});
      const std::vector<double> x = got[0].second.to_vector<double>(),
                                y = want[0].second.to_vector<double>();
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(x[i], y[i], 2e-2 * std::abs(y[i]) + 1e-6) << exponent << " " << log_cap;
    }
  }
}

}  // namespace
}  // namespace mobius::attention_bf16_test
