// The fused attention kernel against the same formulas composed of tensor operations: values and
// every gradient, on ragged shapes that cross the tile borders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "core/score_maps/score_maps.h"
#include "tests/autograd/gradcheck.h"
#include "tests/core/ops/kernel_testing.h"

namespace mobius::attention_test {
namespace {

struct Problem {
  AttentionSpec spec;
  AttentionVariables inputs;
};

struct Sizes {
  std::int64_t batch = 1, heads = 2, groups = 1, n_q = 5, n_k = 5, d = 4, dv = 3;
};

Variable randn(Shape shape, std::uint64_t stream, double scale = 1) {
  return Variable(placed::random_normal(std::move(shape), 0, scale, {11, stream}, DType::f64),
                  true);
}

Variable unit_rows(Shape shape, std::uint64_t stream) {
  const Variable x = randn(std::move(shape), stream);
  return Variable(polar(x).direction.data(), true);
}

Problem make_problem(ScoreMap score, WeightNormalizer normalizer, const Sizes& s,
                     const AttentionMask& mask, bool with_biases) {
  Problem p;
  p.spec = {.score = score, .normalizer = normalizer, .scale = 0.6, .exponent = 2.5, .mask = mask};
  const Shape q{s.batch, s.heads, s.n_q, s.d}, k{s.batch, s.groups, s.n_k, s.d};
  const bool dot = score == ScoreMap::dot;
  p.inputs.q = dot ? randn(q, 1) : unit_rows(q, 1);
  p.inputs.k = dot ? randn(k, 2) : unit_rows(k, 2);
  p.inputs.v = randn({s.batch, s.groups, s.n_k, s.dv}, 3);
  if (dot && with_biases) {
    p.inputs.key_bias = randn({s.batch, s.groups, s.n_k}, 4);
    p.inputs.distance_bias = randn({s.heads, s.n_q + s.n_k - 1}, 5);
    p.inputs.sharpness = randn({s.batch, s.heads, s.n_q}, 6);
  }
  if (!dot) {
    p.inputs.sharpness = Variable(
        placed::random_uniform({s.batch, s.heads, s.n_q}, 0, 0.95, {11, 6}, DType::f64), true);
    if (normalizer == WeightNormalizer::none)
      p.inputs.log_factor = randn({s.batch, s.heads, s.n_q}, 7);
  }
  return p;
}

// Key/value head g repeated for the query heads that share it.
Variable for_every_head(const Variable& x, std::int64_t heads) {
  const std::int64_t per_group = heads / x.size(1);
  Shape split = x.shape(), repeated = x.shape(), merged = x.shape();
  split.insert(split.begin() + 2, 1);
  repeated.insert(repeated.begin() + 2, per_group);
  merged[1] = heads;
  return reshape(expand(reshape(x, split), repeated), merged);
}

// distance_bias[H, Nq + Nk - 1] as [H, Nq, Nk].
Variable as_matrix(const Variable& bias, std::int64_t n_q, std::int64_t n_k) {
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < n_q; ++i) {
    for (std::int64_t j = 0; j < n_k; ++j) index.push_back(j - i + n_q - 1);
  }
  const Variable picked =
      gather_rows(transpose(bias, 0, 1), placed::from(index, {n_q * n_k}));  // [Nq Nk, H]
  return reshape(transpose(picked, 0, 1), {bias.size(0), n_q, n_k});
}

Variable composed(const Problem& p) {
  const AttentionVariables& in = p.inputs;
  const std::int64_t heads = in.q.size(1), n_q = in.q.size(2), n_k = in.k.size(2);
  const Variable product =
      matmul(in.q, transpose(for_every_head(in.k, heads), -1, -2));  // [B, H, Nq, Nk]
  const Tensor allowed = materialize_mask(p.spec.mask, n_q, n_k, testing::device());
  const AttentionMask given{.mask = allowed};
  const Variable v = for_every_head(in.v, heads);
  const auto column = [](const Variable& x) {
    return reshape(x, {x.size(0), x.size(1), x.size(2), 1});
  };
  if (p.spec.score == ScoreMap::dot) {
    Variable logits = scale(product, p.spec.scale);
    if (in.sharpness.defined()) logits = logits * column(in.sharpness);
    if (in.key_bias.defined()) {
      const Variable bias = for_every_head(in.key_bias, heads);
      logits = logits + reshape(bias, {bias.size(0), heads, 1, n_k});
    }
    if (in.distance_bias.defined()) logits = logits + as_matrix(in.distance_bias, n_q, n_k);
    return matmul(masked_softmax(logits, 1, given), v);
  }
  const Variable log_w =
      scale(log(affine(column(in.sharpness) * product, -1, 1)), -p.spec.exponent);
  if (p.spec.normalizer == WeightNormalizer::softmax) {
    return matmul(masked_softmax(log_w, 1, given), v);
  }
  const Variable capped = in.log_factor.defined() ? log_w + column(in.log_factor) : log_w;
  const Variable w = exp(clamp(capped, -HUGE_VAL, 80));
  const Variable zero(placed::zeros({}, w.dtype()));
  return matmul(where(allowed, w, zero), v);
}

double distance(const Tensor& a, const Tensor& b) {
  const double size = std::sqrt(sum_of_squares(b));
  return std::sqrt(sum_of_squares(sub(a, b))) / std::max(size, 1e-300);
}

std::vector<Tensor> take_grads(const AttentionVariables& in) {
  std::vector<Tensor> grads;
  scores::for_each_operand(
      [&](const char*, Variable x) {
        if (!x.defined()) return;
        grads.push_back(x.grad());
        x.zero_grad();
      },
      in);
  return grads;
}

void expect_equal(const Problem& p, const std::string& what) {
  const Variable fused = attention(p.spec, p.inputs), expected = composed(p);
  EXPECT_LT(distance(fused.data(), expected.data()), 1e-10) << what;
  const Tensor cotangent = placed::random_normal(fused.shape(), 0, 1, {11, 99}, DType::f64);
  backward(fused, cotangent);
  const std::vector<Tensor> grads = take_grads(p.inputs);
  backward(expected, cotangent);
  const std::vector<Tensor> expected_grads = take_grads(p.inputs);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_LT(distance(grads[i], expected_grads[i]), 1e-10) << what << ", gradient " << i;
  }
}

const std::vector<Sizes> ragged_sizes{
    {},
    {.batch = 2, .heads = 4, .groups = 2, .n_q = 1, .n_k = 1, .d = 1, .dv = 1},
    {.batch = 1, .heads = 2, .groups = 2, .n_q = 49, .n_k = 130, .d = 3, .dv = 7},
    {.batch = 2, .heads = 2, .groups = 1, .n_q = 128, .n_k = 128, .d = 16, .dv = 24},
    {.batch = 1, .heads = 3, .groups = 3, .n_q = 257, .n_k = 300, .d = 9, .dv = 8},
    // Many heads on one thread: what one tile leaves in scratch memory must not reach the next.
    {.batch = 8, .heads = 4, .groups = 2, .n_q = 150, .n_k = 200, .d = 4, .dv = 4},
    {.batch = 8, .heads = 2, .groups = 2, .n_q = 61, .n_k = 97, .d = 4, .dv = 4},
    // Few queries with many keys, as in decoding, which a device may deal out; and wide heads.
    {.batch = 1, .heads = 2, .groups = 1, .n_q = 2, .n_k = 700, .d = 5, .dv = 7},
    {.batch = 1, .heads = 2, .groups = 1, .n_q = 33, .n_k = 40, .d = 130, .dv = 256},
};

struct Pieces {
  const char* name;
  ScoreMap score;
  WeightNormalizer normalizer;
};
class FusedAttention : public ::testing::TestWithParam<Pieces> {};

TEST_P(FusedAttention, EqualsTheComposedFormOnRaggedShapes) {
  for (const Sizes& s : ragged_sizes) {
    for (const bool causal : {false, true}) {
      expect_equal(
          make_problem(GetParam().score, GetParam().normalizer, s, {.causal = causal}, true),
          fmt::format("n_q {} n_k {} d {} causal {}", s.n_q, s.n_k, s.d, causal));
    }
  }
}

// Rounded inputs to both; the lanes and the transposes of f32 are others than those of f64.
TEST_P(FusedAttention, InFloat32EqualsTheComposedFormInFloat64) {
  for (const Sizes& s : ragged_sizes) {
    Problem wide = make_problem(GetParam().score, GetParam().normalizer, s, {.causal = true}, true);
    Problem narrow = wide;
    scores::for_each_operand(
        [](const char*, Variable& in_f64, Variable& in_f32) {
          if (!in_f64.defined()) return;
          in_f32 = Variable(in_f64.data().to(DType::f32), true);
          in_f64 = Variable(in_f32.data().to(DType::f64), true);
        },
        wide.inputs, narrow.inputs);
    const Variable fused = attention(narrow.spec, narrow.inputs), expected = composed(wide);
    const Tensor cotangent = placed::random_normal(fused.shape(), 0, 1, {11, 99});
    backward(fused, cotangent);
    backward(expected, cotangent.to(DType::f64));
    const std::vector<Tensor> got = take_grads(narrow.inputs), want = take_grads(wide.inputs);
    EXPECT_LT(distance(fused.data().to(DType::f64), expected.data()), 1e-5);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double error = std::sqrt(sum_of_squares(sub(got[i].to(DType::f64), want[i])));
      EXPECT_LT(error, 2e-5 * std::max(std::sqrt(sum_of_squares(want[i])), 1.0))
          << fmt::format("n_q {} n_k {} d {}, gradient {}", s.n_q, s.n_k, s.d, i);
    }
  }
}

// Few heads with many keys: several tasks share a head's queries.
TEST_P(FusedAttention, DoesNotDependOnTheNumberOfThreads) {
  for (const std::int64_t groups : {1, 2}) {
    const Sizes s{
        .batch = 1, .heads = 2, .groups = groups, .n_q = 500, .n_k = 600, .d = 5, .dv = 7};
    const Problem p =
        make_problem(GetParam().score, GetParam().normalizer, s, {.causal = true}, true);
    testing::expect_same_for_every_thread_count<double>([&] {
      const Variable out = attention(p.spec, p.inputs);
      backward(out, out.data());
      std::vector<Tensor> all{out.data().reshape({-1})};
      for (const Tensor& grad : take_grads(p.inputs)) all.push_back(grad.reshape({-1}));
      return concat(all, 0);
    });
  }
}

// Where a product was taken, what is not a number would show: 0 times it is not 0. Queries from 224
// on may share a tile (of 32 or 48) with some that see key 256.
TEST_P(FusedAttention, SkipsTilesThatNoQuerySees) {
  const Sizes s{.batch = 1, .heads = 1, .groups = 1, .n_q = 512, .n_k = 512, .d = 4, .dv = 4};
  const auto is_finite = [](const Tensor& x, std::int64_t begin, std::int64_t end) {
    return std::isfinite(sum_of_squares(x.slice(2, begin, end).contiguous()));
  };
  for (const AttentionMask& mask : {AttentionMask{.causal = true}, AttentionMask{.window = 4},
                                    AttentionMask{.causal = true, .window = 4}}) {
    Problem p = make_problem(GetParam().score, GetParam().normalizer, s, mask, false);
    p.inputs.v.mutable_data().slice(2, 256, 384).fill(NAN);
    const Variable out = attention(p.spec, p.inputs);
    EXPECT_TRUE(is_finite(out.data(), 0, 224));
    EXPECT_FALSE(is_finite(out.data(), 256, 384));
    EXPECT_EQ(is_finite(out.data(), 432, 512), mask.window > 0);

    p.inputs.v.mutable_data().slice(2, 256, 384).fill(1);
    Tensor cotangent = out.data().zeros_like();
    cotangent.slice(2, 192, 224).fill(NAN);
    backward(attention(p.spec, p.inputs), cotangent);
    for (const Variable& x : {p.inputs.k, p.inputs.v}) {
      EXPECT_TRUE(is_finite(x.grad(), 256, 512));
      EXPECT_FALSE(is_finite(x.grad(), 128, 256));
      EXPECT_EQ(is_finite(x.grad(), 0, 128), mask.window > 0);
    }
  }
}

TEST_P(FusedAttention, HonoursGivenMasksAndRowsThatSeeNothing) {
  const Sizes s{.batch = 2, .heads = 2, .groups = 2, .n_q = 50, .n_k = 140, .d = 8, .dv = 8};
  Tensor given =
      compare(CompareOp::less, placed::random_uniform({s.batch, 1, s.n_q, s.n_k}, 0, 1, {1, 1}),
              placed::full({}, 0.3));
  given.slice(2, 7, 8).fill(0);
  const AttentionMask mask{.causal = true, .mask = given};
  Problem p = make_problem(GetParam().score, GetParam().normalizer, s, mask, false);
  expect_equal(p, "random mask");
  const Tensor row = attention(p.spec, p.inputs).data().slice(2, 7, 8);
  EXPECT_EQ(sum_of_squares(row), 0);
}

TEST_P(FusedAttention, HonoursWindowsStridesAndGlobalKeys) {
  const Sizes s{.batch = 1, .heads = 1, .groups = 1, .n_q = 150, .n_k = 200, .d = 4, .dv = 4};
  for (const bool causal : {false, true}) {
    for (const AttentionMask& mask :
         {AttentionMask{.causal = causal, .window = 5},
          AttentionMask{.causal = causal, .window = 140},
          AttentionMask{.causal = causal, .window = 3, .stride = 7},
          AttentionMask{.causal = causal, .window = 3, .n_global = 2}}) {
      expect_equal(make_problem(GetParam().score, GetParam().normalizer, s, mask, true),
                   fmt::format("window {} stride {} global {} causal {}", mask.window, mask.stride,
                               mask.n_global, causal));
    }
  }
}

// A window has no largest number: of any that reaches all keys, the results are the same bits.
TEST_P(FusedAttention, AWindowBeyondAllKeysIsNone) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [n_q, n_k] : {std::pair<std::int64_t, std::int64_t>{150, 200}, {200, 150}}) {
    const Sizes s{.batch = 1, .heads = 1, .groups = 1, .n_q = n_q, .n_k = n_k, .d = 4, .dv = 4};
    for (const bool causal : {false, true}) {
      const auto results = [&](const AttentionMask& mask) {
        Problem p = make_problem(GetParam().score, GetParam().normalizer, s, mask, true);
        const Variable out = attention(p.spec, p.inputs);
        backward(out, placed::ones(out.shape(), DType::f64));
        std::vector<std::vector<double>> values = {out.data().to_vector<double>()};
        for (const Tensor& grad : take_grads(p.inputs)) values.push_back(grad.to_vector<double>());
        return values;
      };
      const auto without = results({.causal = causal});
      for (const std::int64_t window : {n_q + n_k, largest / 2 + 1, largest - 1, largest})
        EXPECT_EQ(results({.causal = causal, .window = window}), without) << window;
      expect_equal(
          make_problem(
              GetParam().score, GetParam().normalizer, s,
              {.causal = causal, .window = largest, .stride = largest, .n_global = largest}, true),
          "all that it can hold");
    }
  }
}

TEST_P(FusedAttention, ReadsStridedOperandsInPlace) {
  const Sizes s{.batch = 2, .heads = 2, .groups = 2, .n_q = 20, .n_k = 20, .d = 4, .dv = 4};
  Problem p = make_problem(GetParam().score, GetParam().normalizer, s, {.causal = true}, false);
  const Tensor expected = attention(p.spec, p.inputs).data();
  for (Variable* x : {&p.inputs.q, &p.inputs.k, &p.inputs.v}) {
    *x = Variable(x->data().transpose(1, 2).clone().transpose(1, 2), true);
  }
  EXPECT_EQ(attention(p.spec, p.inputs).data().to_vector<double>(), expected.to_vector<double>());
  expect_equal(p, "strided");
}

// No queries, no keys or no batch: outputs and gradients are empty or 0.
TEST_P(FusedAttention, TakesEmptyOperands) {
  for (const Sizes& s : {Sizes{.batch = 0}, Sizes{.n_q = 0}, Sizes{.n_k = 0}}) {
    const Problem p = make_problem(GetParam().score, GetParam().normalizer, s, {}, true);
    const Variable out = attention(p.spec, p.inputs);
    EXPECT_EQ(sum_of_squares(out.data().contiguous()), 0);
    backward(out, placed::ones(out.shape(), DType::f64));
    for (const Tensor& grad : take_grads(p.inputs)) EXPECT_EQ(sum_of_squares(grad), 0);
  }
}

TEST_P(FusedAttention, DropoutKeepsAWeightScaledOrNotAtAll) {
  const std::int64_t n = 40;
  const Sizes s{.batch = 1, .heads = 2, .groups = 1, .n_q = n, .n_k = n, .d = 4, .dv = n};
  Problem p = make_problem(GetParam().score, GetParam().normalizer, s, {}, false);
  const Tensor index = placed::arange(n);
  const Tensor identity = compare(CompareOp::equal, index.unsqueeze(1), index).to(DType::f64);
  p.inputs.v = Variable(identity.reshape({1, 1, n, n}));
  const std::vector<double> weights = attention(p.spec, p.inputs).data().to_vector<double>();
  p.spec.dropout = 0.3;
  p.spec.dropout_key = {5, 6};
  const std::vector<double> dropped = attention(p.spec, p.inputs).data().to_vector<double>();
  std::int64_t n_kept = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::uint32_t word = philox(p.spec.dropout_key, i / 4)[i % 4];
    ASSERT_EQ(dropped[i] == 0, word < static_cast<std::uint32_t>(0.3 * 4294967296.0)) << i;
    if (dropped[i] == 0) continue;
    ++n_kept;
    ASSERT_NEAR(dropped[i], weights[i] / 0.7, 1e-13 * weights[i]) << i;
  }
  const double kept = static_cast<double>(n_kept) / static_cast<double>(weights.size());
  EXPECT_NEAR(kept, 0.7, 0.04);  // five standard deviations
}

TEST_P(FusedAttention, TheGradientUnderDropoutIsRight) {
  const Sizes s{.batch = 1, .heads = 2, .groups = 1, .n_q = 6, .n_k = 6, .d = 4, .dv = 6};
  Problem p = make_problem(GetParam().score, GetParam().normalizer, s, {.causal = true}, false);
  p.spec.dropout = 0.3;
  p.spec.dropout_key = {5, 6};
  std::vector<Tensor> inputs{p.inputs.q.data(), p.inputs.k.data(), p.inputs.v.data()};
  const auto f = [&](const std::vector<Variable>& in) {
    AttentionVariables variables = p.inputs;
    variables.q = in[0];
    variables.k = in[1];
    variables.v = in[2];
    return attention(p.spec, variables);
  };
  EXPECT_EQ(gradcheck(f, inputs), "");
}

TEST_P(FusedAttention, ChangingALaterTokenLeavesEarlierOutputsAsTheyAre) {
  const Sizes s{.batch = 1, .heads = 1, .groups = 1, .n_q = 200, .n_k = 200, .d = 8, .dv = 8};
  Problem p = make_problem(GetParam().score, GetParam().normalizer, s, {.causal = true}, false);
  const std::int64_t t = 131;
  const Tensor before = attention(p.spec, p.inputs).data().slice(2, 0, t).clone();
  for (Variable* x : {&p.inputs.q, &p.inputs.k, &p.inputs.v}) {
    x->mutable_data().slice(2, t, t + 1).fill(0.1);
  }
  EXPECT_EQ(attention(p.spec, p.inputs).data().slice(2, 0, t).to_vector<double>(),
            before.to_vector<double>());
}

// e^g is in the range of f32 where e^(g/s) is not.
TEST(ConformalMap, TakesLogFactorsWithAnyExponent) {
  for (const double exponent : {0.05, 0.3, 0.5, 1.0, 7.0, 31.5}) {
    const AttentionSpec spec{
        .score = ScoreMap::conformal, .normalizer = WeightNormalizer::none, .exponent = exponent};
    const Tensor one = placed::ones({1, 1, 3, 1}), g = placed::full({1, 1, 3}, -6);
    const AttentionInputs in{one, one, one, {}, {}, g.zeros_like(), g};
    for (const double sum : attention(spec, in).out.to_vector<double>())
      EXPECT_NEAR(sum, 3 * std::exp(-6), 1e-8) << exponent;
  }
}

TEST(AttentionTopk, KeepsTheLargestProductsAndOfEqualOnesTheEarlier) {
  const Sizes s{.batch = 1, .heads = 2, .groups = 1, .n_q = 150, .n_k = 200, .d = 2, .dv = 4};
  for (const bool causal : {false, true}) {
    Problem p =
        make_problem(ScoreMap::dot, WeightNormalizer::softmax, s, {.causal = causal}, false);
    // Small whole numbers: many products are equal.
    for (Variable* x : {&p.inputs.q, &p.inputs.k}) {
      *x = Variable(scale(x->data(), 2).to(DType::i64).to(DType::f64), true);
    }
    p.spec.scale = 1;
    const std::int64_t topk = 7;
    const AttentionInputs inputs{
        p.inputs.q.data(), p.inputs.k.data(), p.inputs.v.data(), {}, {}, {}, {}};
    p.spec.mask.selected = attention_topk(p.spec, inputs, topk);

    const Tensor products =
        matmul(p.inputs.q.data(), for_every_head(p.inputs.k, s.heads).data().transpose(-1, -2));
    const std::vector<double> all = products.to_vector<double>();
    const std::vector<double> seen = materialize_mask(p.spec.mask, s.n_q, s.n_k, testing::device())
                                         .expand(products.shape())
                                         .to_vector<double>();
    std::vector<std::uint8_t> kept(all.size(), 0);
    for (std::size_t row = 0; row < all.size(); row += static_cast<std::size_t>(s.n_k)) {
      std::vector<std::size_t> order;
      for (std::size_t j = row; j < row + static_cast<std::size_t>(s.n_k); ++j) {
        if (seen[j] != 0) order.push_back(j);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return all[a] > all[b]; });
      order.resize(std::min<std::size_t>(order.size(), static_cast<std::size_t>(topk)));
      for (const std::size_t j : order) kept[j] = 1;
    }
    Problem selected = p;
    selected.spec.mask = {.mask = placed::from(kept, products.shape())};
    EXPECT_EQ(attention(p.spec, p.inputs).data().to_vector<double>(),
              attention(selected.spec, p.inputs).data().to_vector<double>());
    const Tensor cotangent = placed::random_normal({1, 2, 150, 4}, 0, 1, {11, 98}, DType::f64);
    backward(attention(p.spec, p.inputs), cotangent);
    const std::vector<Tensor> grads = take_grads(p.inputs);
    backward(attention(selected.spec, p.inputs), cotangent);
    const std::vector<Tensor> expected = take_grads(p.inputs);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_LT(distance(grads[i], expected[i]), 1e-14)
          << "causal " << causal << ", gradient " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Pieces, FusedAttention,
    ::testing::Values(Pieces{"dot_softmax", ScoreMap::dot, WeightNormalizer::softmax},
                      Pieces{"conformal_softmax", ScoreMap::conformal, WeightNormalizer::softmax},
                      Pieces{"conformal_none", ScoreMap::conformal, WeightNormalizer::none}),
    [](const auto& one) { return one.param.name; });

Variable positive(Shape shape, std::uint64_t stream) {
  return Variable(placed::random_uniform(std::move(shape), 0.1, 2, {12, stream}, DType::f64), true);
}

// Bytes that a forward and a backward pass hold at once, inputs and gradients included.
template <class Attend>
std::size_t peak_bytes(const Attend& attend) {
  allocator_for({}).release_cache();
  allocator_for({}).reset_peak();
  const std::size_t before = allocator_for({}).stats().current;
  const Variable out = attend();
  backward(out, out.data());
  return allocator_for({}).stats().peak - before;
}

TEST(AttentionMemory, IsLinearInTheSequence) {
  const std::int64_t n = 8192, d = 16;
  const std::size_t smallest_square = static_cast<std::size_t>(n * n);  // of single bytes
  const auto rows = [&](std::uint64_t stream) {
    return Variable(placed::random_normal({1, 1, n, d}, 0, 0.2, {13, stream}), true);
  };
  const AttentionVariables in{.q = rows(1), .k = rows(2), .v = rows(3)};
  AttentionVariables conformal = in;
  conformal.sharpness = Variable(placed::full({1, 1, n}, 0.1), true);
  const AttentionMask causal{.causal = true};
  EXPECT_LT(peak_bytes([&] { return attention({.mask = causal}, in); }), smallest_square / 4);
  EXPECT_LT(peak_bytes([&] {
              return attention({.mask = {.causal = true, .window = 64, .stride = 128}}, in);
            }),
            smallest_square / 4);
  EXPECT_LT(peak_bytes([&] {
              AttentionSpec spec{.mask = causal};
              spec.mask.selected =
                  attention_topk(spec, {in.q.data(), in.k.data(), in.v.data(), {}, {}, {}, {}}, 8);
              return attention(spec, in);
            }),
            smallest_square / 4);
  EXPECT_LT(peak_bytes([&] {
              return attention({.score = ScoreMap::conformal,
                                .normalizer = WeightNormalizer::none,
                                .exponent = 7,
                                .mask = causal},
                               conformal);
            }),
            smallest_square / 4);
  EXPECT_LT(peak_bytes([&] { return linear_attention(exp(in.q), exp(in.k), in.v, true, 1e-6); }),
            smallest_square / 4);
}

TEST(LinearAttention, EqualsTheQuadraticFormOnRaggedShapes) {
  std::vector<Sizes> all(ragged_sizes.begin(), ragged_sizes.end());
  // Several tiles of features, of values and of rows.
  all.push_back({.batch = 1, .heads = 2, .groups = 1, .n_q = 150, .n_k = 160, .d = 65, .dv = 67});
  all.push_back({.batch = 1, .heads = 1, .groups = 1, .n_q = 270, .n_k = 270, .d = 2, .dv = 130});
  for (const Sizes& s : all) {
    for (const bool causal : {false, true}) {
      const std::string what =
          fmt::format("n_q {} n_k {} d {} causal {}", s.n_q, s.n_k, s.d, causal);
      AttentionVariables in;
      in.q = positive({s.batch, s.heads, s.n_q, s.d}, 1);
      in.k = positive({s.batch, s.groups, s.n_k, s.d}, 2);
      in.v = randn({s.batch, s.groups, s.n_k, s.dv}, 3);
      const Variable products = matmul(in.q, transpose(for_every_head(in.k, s.heads), -1, -2));
      const Variable w =
          where(materialize_mask({.causal = causal}, s.n_q, s.n_k, testing::device()), products,
                Variable(placed::zeros({}, DType::f64)));
      const Variable expected =
          matmul(w, for_every_head(in.v, s.heads)) / affine(sum(w, {-1}, true), 1, 1e-6);
      const Variable fused = linear_attention(in.q, in.k, in.v, causal, 1e-6);
      EXPECT_LT(distance(fused.data(), expected.data()), 1e-12) << what;
      const Tensor cotangent = placed::random_normal(fused.shape(), 0, 1, {12, 99}, DType::f64);
      backward(fused, cotangent);
      const std::vector<Tensor> grads = take_grads(in);
      backward(expected, cotangent);
      const std::vector<Tensor> expected_grads = take_grads(in);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        EXPECT_LT(distance(grads[i], expected_grads[i]), 1e-11) << what << ", gradient " << i;
      }
    }
  }
}

TEST(LinearAttention, InFloat32EqualsThatInFloat64) {
  for (const bool causal : {false, true}) {
    AttentionVariables narrow, wide;
    const auto set = [](Variable& in_f32, Variable& in_f64, const Variable& x) {
      in_f32 = Variable(x.data().to(DType::f32), true);
      in_f64 = Variable(in_f32.data().to(DType::f64), true);
    };
    set(narrow.q, wide.q, positive({2, 4, 77, 21}, 1));
    set(narrow.k, wide.k, positive({2, 2, 140, 21}, 2));
    set(narrow.v, wide.v, randn({2, 2, 140, 35}, 3));
    const Variable got = linear_attention(narrow.q, narrow.k, narrow.v, causal, 1e-6);
    const Variable want = linear_attention(wide.q, wide.k, wide.v, causal, 1e-6);
    EXPECT_LT(distance(got.data().to(DType::f64), want.data()), 1e-5);
    const Tensor cotangent = placed::random_normal(got.shape(), 0, 1, {12, 98});
    backward(got, cotangent);
    backward(want, cotangent.to(DType::f64));
    const std::vector<Tensor> grads = take_grads(narrow), want_grads = take_grads(wide);
    for (std::size_t i = 0; i < grads.size(); ++i) {
      EXPECT_LT(distance(grads[i].to(DType::f64), want_grads[i]), 2e-5) << "gradient " << i;
    }
  }
}

// Features of either sign, which a denominator would not survive.
TEST(LinearAttention, WithoutNormalisationIsTheNumerator) {
  std::vector<Sizes> all(ragged_sizes.begin(), ragged_sizes.end());
  all.push_back({.n_q = 6, .n_k = 4});
  for (const Sizes& s : all) {
    for (const std::int64_t lag : {-1, 0, 1, 3, 60, 500}) {  // -1: not causal
      const bool causal = lag >= 0;
      const std::string what = fmt::format("n_q {} n_k {} d {} lag {}", s.n_q, s.n_k, s.d, lag);
      AttentionVariables in;
      in.q = randn({s.batch, s.heads, s.n_q, s.d}, 1);
      in.k = randn({s.batch, s.groups, s.n_k, s.d}, 2);
      in.v = randn({s.batch, s.groups, s.n_k, s.dv}, 3);
      // Laid out as the output of attention is.
      Variable initial = randn({s.batch, s.n_q, s.heads, s.dv}, 4);
      const Variable products = matmul(in.q, transpose(for_every_head(in.k, s.heads), -1, -2));
      const Variable zero(placed::zeros({}, DType::f64));
      Variable w = where(materialize_mask({.causal = causal}, s.n_q, s.n_k, testing::device()),
                         products, zero);
      if (lag > 0) {
        const AttentionMask newest{.causal = true, .window = lag};
        w = where(materialize_mask(newest, s.n_q, s.n_k, testing::device()), zero, w);
      }
      const Variable expected = transpose(initial, 1, 2) + matmul(w, for_every_head(in.v, s.heads));
      const Variable fused = linear_attention_sums(
          in.q, in.k, in.v, causal, std::max<std::int64_t>(lag, 0), transpose(initial, 1, 2));
      EXPECT_LT(distance(fused.data(), expected.data()), 1e-12) << what;
      const Tensor cotangent = placed::random_normal(fused.shape(), 0, 1, {12, 99}, DType::f64);
      const auto gradients = [&](const Variable& out) {
        backward(out, cotangent);
        std::vector<Tensor> grads = take_grads(in);
        grads.push_back(initial.grad().clone());
        initial.zero_grad();
        return grads;
      };
      const std::vector<Tensor> grads = gradients(fused), expected_grads = gradients(expected);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        EXPECT_LT(distance(grads[i], expected_grads[i]), 1e-11) << what << ", gradient " << i;
      }
    }
  }
}

TEST(LinearAttention, GradientWithoutNormalisationAgreesWithDifferences) {
  for (const bool causal : {false, true}) {
    EXPECT_EQ(gradcheck(
                  [causal](const std::vector<Variable>& x) {
                    return linear_attention_sums(x[0], x[1], x[2], causal);
                  },
                  {randn({1, 2, 5, 3}, 1).data(), randn({1, 1, 7, 3}, 2).data(),
                   randn({1, 1, 7, 4}, 3).data()}),
              "");
  }
}

TEST(LinearAttention, RefusesFewerKeysThanCausalQueries) {
  const Variable q(placed::ones({1, 1, 3, 2})), k(placed::ones({1, 1, 2, 2}));
  EXPECT_THROW(linear_attention(q, k, k, true, 0), ShapeError);
}

}  // namespace
}  // namespace mobius::attention_test
