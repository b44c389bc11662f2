// What holds for every attention variant, as a function of q, k and v.
#include <gtest/gtest.h>

#include "tests/autograd/gradcheck.h"
#include "tests/nn/attention_variants.h"
#include "tests/nn/nn_testing.h"

namespace mobius::attention_test {
namespace {

using testing::causal;
using testing::normal;
using testing::Variant;

struct Inputs {
  Tensor q, k, v, alpha;
};

// B = 2 sequences, H = 2 heads.
Inputs inputs_of(std::int64_t n_q, std::int64_t n_k, std::int64_t d, std::int64_t d_v,
                 double q_std = 1, DType dtype = DType::f64) {
  return {normal({2, 2, n_q, d}, 1, q_std, dtype), normal({2, 2, n_k, d}, 2, 1, dtype),
          normal({2, 2, n_k, d_v}, 3, 1, dtype),
          placed::from(std::vector<double>{0.7, 1.6}, {2, 1, 1}).to(dtype)};
}

class AttentionVariant : public ::testing::TestWithParam<Variant> {
 protected:
  Tensor run(const Inputs& in, const AttentionMask& mask) const {
    return GetParam()
        .attend(Variable(in.q), Variable(in.k), Variable(in.v), Variable(in.alpha), mask)
        .data();
  }

  std::string check_gradients(const Inputs& in, const AttentionMask& mask) const {
    return gradcheck(
        [&](const std::vector<Variable>& x) {
          return GetParam().attend(x[0], x[1], x[2], x[3], mask);
        },
        {in.q, in.k, in.v, in.alpha});
  }
};

// By what they can do.
class MaskedVariant : public AttentionVariant {};
class UnplacedVariant : public AttentionVariant {};
class CausalVariant : public AttentionVariant {};
class SafeVariant : public AttentionVariant {};

auto variants_where(bool (*holds)(const Variant&)) {
  std::vector<Variant> chosen;
  for (Variant& variant : testing::variants())
    if (holds(variant)) chosen.push_back(std::move(variant));
  return ::testing::ValuesIn(chosen);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionVariant, ::testing::ValuesIn(testing::variants()),
                         testing::name_of);
INSTANTIATE_TEST_SUITE_P(All, MaskedVariant,
                         variants_where([](const Variant& v) { return v.takes_any_mask; }),
                         testing::name_of);
INSTANTIATE_TEST_SUITE_P(All, UnplacedVariant, variants_where([](const Variant& v) {
                           return v.takes_any_mask && !v.sees_distance;
                         }),
                         testing::name_of);
INSTANTIATE_TEST_SUITE_P(All, CausalVariant,
                         variants_where([](const Variant& v) { return !v.takes_any_mask; }),
                         testing::name_of);
INSTANTIATE_TEST_SUITE_P(All, SafeVariant,
                         variants_where([](const Variant& v) { return !v.overflows; }),
                         testing::name_of);

TEST_P(AttentionVariant, GradientsAgreeWithDifferencesForOddAndEvenHeads) {
  for (const std::int64_t d : {2, 3, 16}) {
    EXPECT_EQ(check_gradients(inputs_of(3, 3, d, 4), causal()), "") << "d = " << d;
    EXPECT_EQ(check_gradients(inputs_of(2, 4, d, 3), {}), "") << "d = " << d;
  }
  EXPECT_EQ(check_gradients(inputs_of(2, 3, 24, 24), causal()), "");
}

TEST_P(AttentionVariant, GradientsAgreeWithDifferencesForPeakedQueries) {
  EXPECT_EQ(check_gradients(inputs_of(3, 4, 3, 2, /*q_std=*/6), causal()), "");
}

TEST_P(AttentionVariant, AQuerySeesAsManyEarlierKeysAsThereAre) {
  // The last n_q queries of a longer sequence: rows of the square case.
  const Inputs whole = inputs_of(6, 6, 4, 3);
  Inputs last = whole;
  last.q = whole.q.slice(2, 4, 6);
  const Tensor expected = run(whole, causal()).slice(2, 4, 6).contiguous();
  EXPECT_LT(std::sqrt(sum_of_squares(sub(run(last, causal()), expected))), 1e-13);
}

// Bit for bit, across the blocks of the kernels.
TEST_P(AttentionVariant, CausalOutputsDoNotSeeLaterKeys) {
  for (const std::int64_t n : {7, 200})
    for (const std::int64_t t : {n / 2, n - 2}) {
      const Inputs in = inputs_of(n, n, 4, 3, 1, DType::f32);
      const auto first = [&](std::int64_t end) {
        return run(in, causal()).slice(2, 0, end).to_vector<float>();
      };
      const std::vector<float> before = first(t), with_t = first(t + 1);
      in.k.slice(2, t + 1, n).fill(9);
      in.v.slice(2, t + 1, n).fill(-9);
      in.q.slice(2, t + 1, n).fill(3);
      EXPECT_EQ(first(t + 1), with_t);
      in.q.slice(2, t, t + 1).fill(5);
      in.v.slice(2, t, t + 1).fill(-9);
      EXPECT_EQ(first(t), before);
      EXPECT_NE(first(t + 1), with_t);
    }
}

TEST_P(UnplacedVariant, ABooleanMaskEqualsLeavingTheKeysOut) {
  Inputs in = inputs_of(3, 5, 4, 3);
  const AttentionMask mask{.causal = false,
                           .mask = placed::from(std::vector<std::uint8_t>{1, 0, 1, 1, 0}, {1, 5})};
  const Tensor masked = run(in, mask);
  const auto keep = [](const Tensor& x) { return concat({x.slice(2, 0, 1), x.slice(2, 2, 4)}, 2); };
  in.k = keep(in.k);
  in.v = keep(in.v);
  EXPECT_LT(std::sqrt(sum_of_squares(sub(masked, run(in, {})))), 1e-14);
}

// Two documents in one sequence, told apart by a mask, are two sequences: values and gradients.
TEST_P(MaskedVariant, PackedDocumentsAreSeparate) {
  const std::int64_t n = 7, first = 3;
  const Inputs in = inputs_of(n, n, 4, 3);
  Tensor same_document = placed::zeros({n, n}, DType::u8);
  same_document.slice(0, 0, first).slice(1, 0, first).fill(1);
  same_document.slice(0, first, n).slice(1, first, n).fill(1);
  const auto grads = [&](const std::vector<std::pair<std::int64_t, std::int64_t>>& documents,
                         const Tensor& mask) {
    const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
    for (const auto& [begin, end] : documents)
      backward(sum(square(GetParam().attend(slice(q, 2, begin, end), slice(k, 2, begin, end),
                                            slice(v, 2, begin, end), alpha,
                                            {.causal = true, .mask = mask}))));
    return std::vector{q.grad(), k.grad(), v.grad(), alpha.grad()};
  };
  const std::vector<Tensor> packed = grads({{0, n}}, same_document);
  const std::vector<Tensor> separate = grads({{0, first}, {first, n}}, {});
  for (std::size_t i = 0; i < packed.size(); ++i)
    EXPECT_LT(testing::distance(packed[i], separate[i]), 1e-12) << i;
}

TEST_P(CausalVariant, RefusesOtherMasks) {
  const Inputs in = inputs_of(3, 3, 4, 3);
  testing::expect_error<Error>(
      [&] {
        run(in, {.mask = placed::ones({3, 3}, DType::u8)});
      },
      "given mask");
  testing::expect_error<Error>([&] { run(in, {.causal = true, .window = 2}); }, "window");
}

TEST_P(MaskedVariant, AQueryThatSeesNothingIsZeroWithZeroGradients) {
  const Inputs in = inputs_of(2, 3, 4, 3);
  const AttentionMask mask{
      .causal = false, .mask = placed::from(std::vector<std::uint8_t>{1, 0, 1, 0, 0, 0}, {2, 3})};
  const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
  const Variable out = GetParam().attend(q, k, v, alpha, mask);
  EXPECT_EQ(sum_of_squares(out.data().slice(2, 1, 2).contiguous()), 0);
  EXPECT_GT(sum_of_squares(out.data().slice(2, 0, 1).contiguous()), 0);
  backward(sum(slice(out, 2, 1, 2)));
  for (const Variable& input : {q, k, v, alpha})
    EXPECT_TRUE(!input.grad().defined() || sum_of_squares(input.grad()) == 0);
}

TEST_P(AttentionVariant, RefusesAMaskOfAnotherSize) {
  const Inputs in = inputs_of(2, 3, 4, 3);
  for (const Shape& shape : {Shape{2, 4}, Shape{3, 3}, Shape{2, 2}, Shape{3, 2, 2, 3}})
    EXPECT_THROW(run(in, {.causal = false, .mask = placed::ones(shape, DType::u8)}), Error)
        << to_string(shape);
}

TEST_P(AttentionVariant, ZeroQueriesAndKeysAreFinite) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Inputs in = inputs_of(3, 3, 4, 3, 1, dtype);
    in.q.slice(2, 0, 1).fill(0);
    in.k.slice(2, 1, 2).fill(0);
    const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
    const Variable out = GetParam().attend(q, k, v, alpha, causal());
    backward(sum(square(out)));
    for (const Tensor& tensor : {out.data(), q.grad(), k.grad(), v.grad(), alpha.grad()})
      EXPECT_TRUE(std::isfinite(sum_of_squares(tensor)));
  }
}

// Queries far beyond any temperature that training reaches, and keys in their direction.
TEST_P(SafeVariant, ExtremeQueriesAreFiniteInFloat32) {
  for (const double q_std : {1e2, 1e4, 1e8}) {
    Inputs in = inputs_of(4, 4, 8, 3, q_std, DType::f32);
    in.k.slice(2, 0, 1).copy_from(scale(in.q.slice(2, 3, 4).contiguous(), 1 / q_std));
    const Variable q(in.q, true), k(in.k, true), v(in.v, true), alpha(in.alpha, true);
    const Variable out = GetParam().attend(q, k, v, alpha, causal());
    backward(sum(out));
    for (const Tensor& tensor : {out.data(), q.grad(), k.grad(), v.grad(), alpha.grad()})
      for (const double value : tensor.to_vector<double>()) ASSERT_TRUE(std::isfinite(value));
  }
}

// All but the naive form, which is explicit: less than one matrix of bytes for every pair.
TEST_P(SafeVariant, MemoryIsLinearInTheSequence) {
  const std::int64_t n = 8192;
  const auto rows = [n](std::uint64_t stream, std::int64_t d) {
    return Variable(normal({1, 1, n, d}, stream, 1, DType::f32), true);
  };
  const Variable q = rows(1, 4), k = rows(2, 4), v = rows(3, 4);
  const Variable alpha(placed::ones({1, 1, 1}), true);
  Allocator& allocator = allocator_for({});
  allocator.reset_peak();
  const std::size_t before = allocator.stats().current;
  backward(sum(GetParam().attend(q, k, v, alpha, causal())));
  EXPECT_LT(allocator.stats().peak - before, static_cast<std::size_t>(n * n) / 2);
}

struct Sizes {
  std::int64_t batch, heads, groups, n_q, n_k, d, d_v;
};

// Lengths around those where the kernels change chunks, then random ones.
std::vector<Sizes> sizes_to_try() {
  std::vector<Sizes> all;
  for (const std::int64_t n : {1, 2, 7, 8, 9, 63, 64, 65, 100})
    all.push_back({1, 2, 2, n, n, 5, 3});
  Rng rng({.seed = 1, .stream = 2});
  const auto below = [&rng](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
  for (int i = 0; i < 6; ++i) {
    const std::int64_t groups = 1 + below(2), n_q = 1 + below(300);
    all.push_back({.batch = 1 + below(2),
                   .heads = groups * (1 + below(2)),
                   .groups = groups,
                   .n_q = n_q,
                   .n_k = std::min<std::int64_t>(300, n_q + below(100)),
                   .d = 3 + 2 * below(9),
                   .d_v = 1 + below(12)});
  }
  return all;
}

// Both forms of a variant: outputs and gradients of every input agree.
void expect_equal_forms(const Variant& variant, const Sizes& s, const AttentionMask& mask) {
  const std::vector<Variable> in = {
      Variable(normal({s.batch, s.heads, s.n_q, s.d}, 1), true),
      Variable(normal({s.batch, s.groups, s.n_k, s.d}, 2), true),
      Variable(normal({s.batch, s.groups, s.n_k, s.d_v}, 3), true),
      Variable(placed::random_uniform({s.heads, 1, 1}, 0.5, 1.5, {20, 4}, DType::f64), true)};
  const Tensor cotangent = normal({s.batch, s.heads, s.n_q, s.d_v}, 5);
  const auto results = [&](const Variable& out) {
    backward(out, cotangent);
    std::vector<Tensor> tensors{out.data()};
    for (Variable x : in) {
      tensors.push_back(x.grad().clone());
      x.zero_grad();
    }
    return tensors;
  };
  const std::vector<Tensor> fused = results(variant.attend(in[0], in[1], in[2], in[3], mask));
  const std::vector<Tensor> composed =
      results(apply_weights(variant.weights(in[0], in[1], in[3], mask), in[2]));
  for (std::size_t i = 0; i < fused.size(); ++i)
    EXPECT_LT(testing::distance(fused[i], composed[i]), 1e-10)
        << "tensor " << i << ", causal " << mask.causal << ", n_q " << s.n_q << ", n_k " << s.n_k
        << ", d " << s.d << ", heads " << s.heads << " / " << s.groups;
}

TEST_P(AttentionVariant, TheFusedFormEqualsTheExplicitOne) {
  for (const Sizes& s : sizes_to_try())
    for (const bool is_causal : {true, false})
      expect_equal_forms(GetParam(), s, {.causal = is_causal});
}

TEST_P(MaskedVariant, TheFusedFormEqualsTheExplicitOneUnderAMask) {
  const Sizes s{.batch = 2, .heads = 4, .groups = 2, .n_q = 70, .n_k = 150, .d = 5, .d_v = 3};
  Tensor given =
      compare(CompareOp::less, placed::random_uniform({s.batch, 1, s.n_q, s.n_k}, 0, 1, {1, 1}),
              placed::full({}, 0.3));
  given.slice(2, 7, 8).fill(0);  // a query that sees nothing
  for (const bool is_causal : {true, false})
    expect_equal_forms(GetParam(), s, {.causal = is_causal, .mask = given});
}

// Every score map, with all the numbers that it takes: the fused kernel and the composed reference
// are instances of one struct, and their gradients are found in two ways.
class EveryScoreMap : public ::testing::TestWithParam<std::tuple<ScoreMap, WeightNormalizer>> {
 protected:
  static constexpr std::int64_t n_q = 53, n_k = 140, d = 6;

  // Heads share keys; unit lengths and the range of the numbers are those that every map takes.
  static AttentionCall call(const AttentionMask& mask) {
    const auto [score, normalizer] = GetParam();
    AttentionCall call{.spec = {.score = score,
                                .normalizer = normalizer,
                                .scale = 0.6,
                                .exponent = 2.5,
                                .mask = mask},
                       .inputs = {}};
    const auto unit = [](Shape shape, std::uint64_t stream) {
      return Variable(polar(Variable(normal(std::move(shape), stream))).direction.data(), true);
    };
    call.inputs.q = unit({2, 4, n_q, d}, 1);
    call.inputs.k = unit({2, 2, n_k, d}, 2);
    call.inputs.v = Variable(normal({2, 2, n_k, 5}, 3), true);
    scores::with_score(call.spec, [&](auto map, auto) {
      std::uint64_t stream = 4;
      scores::for_each_number(
          [&](const NumberKind& number, const NumberUse& use, Variable& x) {
            if (!use.is_taken) return;
            const Shape shape = number.of == NumberOf::query ? Shape{2, 4, n_q}
                                : number.of == NumberOf::key ? Shape{2, 2, n_k}
                                                             : Shape{4, n_q + n_k - 1};
            x = Variable(placed::random_uniform(shape, 0.05, 0.9, {7, stream++}, DType::f64), true);
          },
          map.uses, call.inputs);
    });
    return call;
  }

  static bool has_kernel() {
    return scores::with_score(
        call({}).spec, [](auto map, auto is_softmax) { return is_softmax || map.has_weight; });
  }

  static std::vector<Tensor> take_grads(AttentionVariables in) {
    std::vector<Tensor> grads;
    scores::for_each_operand(
        [&](const char*, Variable& x) {
          if (!x.defined()) return;
          // The composed softmax leaves out a factor that all weights of a query share.
          grads.push_back(x.grad().defined() ? x.grad() : x.data().zeros_like());
          x.zero_grad();
        },
        in);
    return grads;
  }

  static double error(const Tensor& a, const Tensor& b) {
    return std::sqrt(sum_of_squares(sub(a, b)) / std::max(sum_of_squares(b), 1e-20));
  }

  static void expect_fused_is_composed(const AttentionCall& call) {
    const Variable fused = attention(call);
    const Variable composed = apply_weights(attention_weights(call), call.inputs.v);
    EXPECT_LT(error(fused.data(), composed.data()), 1e-11);
    const Tensor cotangent = normal(fused.shape(), 9);
    backward(fused, cotangent);
    const std::vector<Tensor> grads = take_grads(call.inputs);
    backward(composed, cotangent);
    const std::vector<Tensor> expected = take_grads(call.inputs);
    for (std::size_t i = 0; i < grads.size(); ++i)
      EXPECT_LT(error(grads[i], expected[i]), 1e-9) << "gradient " << i;
  }
};

TEST_P(EveryScoreMap, IsFusedAsItIsComposed) {
  if (!has_kernel()) {
    EXPECT_THROW(attention(call({})), Error);
    return;
  }
  for (const AttentionMask& mask :
       {AttentionMask{}, AttentionMask{.causal = true}, AttentionMask{.window = 3, .stride = 7}})
    expect_fused_is_composed(call(mask));
}

// The composed form takes the selection of the fused one.
TEST_P(EveryScoreMap, SelectsTheSameKeysInBothForms) {
  if (!has_kernel()) return;
  AttentionCall selected = call({.causal = true});
  selected.spec.mask.selected = attention_topk(
      selected.spec,
      map_operands(selected.inputs,
                   [](const Variable& x) { return x.defined() ? x.data() : Tensor(); }),
      5);
  expect_fused_is_composed(selected);
  const Tensor weights = attention_weights(selected).data();
  const Tensor is_kept = compare(CompareOp::less, placed::zeros({}, DType::f64), weights);
  EXPECT_EQ(max(sum(is_kept.to(DType::f64), {-1}).reshape({-1}), 0).item(), 5);
}

INSTANTIATE_TEST_SUITE_P(All, EveryScoreMap,
                         ::testing::Combine(::testing::ValuesIn(score_maps),
                                            ::testing::Values(WeightNormalizer::softmax,
                                                              WeightNormalizer::none)));

}  // namespace
}  // namespace mobius::attention_test
