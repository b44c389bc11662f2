#include "autograd/variable.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "autograd/ops.h"
#include "tests/device.h"
#include "tests/error_of.h"

namespace mobius::variable_test {
namespace {

Variable leaf(const std::vector<double>& values) {
  return Variable(placed::from(values, {static_cast<std::int64_t>(values.size())}), true);
}

TEST(Backward, AddsUpOverEveryPathAndEveryCall) {
  const Variable x = leaf({2, 3});
  backward(sum(x * x + x));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{5, 7}));
  backward(sum(x));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 8}));
}

TEST(Backward, LeavesSharedGradientBuffersAlone) {
  // add hands one tensor to both inputs: changing one gradient must not change the other.
  Variable a = leaf({1}), b = leaf({1});
  const Variable total = a + b;
  backward(total + total);
  a.mutable_grad().scale_(10);
  EXPECT_EQ(b.grad().item(), 2);
  EXPECT_EQ(a.grad().item(), 20);
}

TEST(Backward, SecondCallOverAFreedGraphIsAnError) {
  const Variable x = leaf({2});
  const Variable y = x * x;
  backward(y);
  const std::string message = error_of([&] { backward(y); });
  EXPECT_NE(message.find("'mul' was freed"), std::string::npos) << message;
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
}

TEST(Backward, RetainedGraphCanBeWalkedAgain) {
  const Variable x = leaf({2});
  const Variable y = x * x;
  backward(y, {}, true);
  backward(y);
  EXPECT_EQ(x.grad().item(), 8);
}

TEST(Backward, NeedsAScalarOrAGradientToStartFrom) {
  const Variable x = leaf({1, 2});
  EXPECT_NE(error_of([&] { backward(x * x); }).find("[2]"), std::string::npos);
  EXPECT_NE(error_of([&] { backward(x * x, placed::ones({3}, DType::f64)); }).find("[3]"),
            std::string::npos);
  EXPECT_NE(error_of([&] { backward(Variable(placed::ones({1}))); }), "no error");
}

TEST(Backward, DeepChainsNeitherOverflowTheStackNorLeak) {
  const std::size_t before = allocator_for({}).stats().current;
  {
    const Variable x = leaf({1});
    Variable y = x;
    for (int i = 0; i < 10000; ++i) y = affine(y, 1, 1);
    backward(y);
    EXPECT_EQ(x.grad().item(), 1);
    for (int i = 0; i < 100000; ++i) y = affine(y, 1, 1);  // dropped without a backward pass
  }
  EXPECT_EQ(allocator_for({}).stats().current, before);
}

TEST(Backward, FreesSavedTensorsOnTheWay) {
  const std::size_t before = allocator_for({}).stats().current;
  const Variable x(placed::ones({1000}, DType::f64), true);
  const Variable loss = sum(exp(x * x));
  backward(loss);
  const std::size_t kept = allocator_for({}).stats().current - before;
  EXPECT_LE(kept, 2 * 1000 * sizeof(double) + 4096);  // x, its gradient, the loss
}

TEST(Backward, SavedTensorChangedInPlaceIsAnError) {
  Variable x = leaf({2});
  const Variable y = x * x;
  x.mutable_data().fill(3);
  const std::string message = error_of([&] { backward(y); });
  EXPECT_NE(message.find("mul: a tensor saved"), std::string::npos) << message;
}

TEST(Backward, AMissingGradientNamesTheOp) {
  const Variable x = leaf({2});
  const Variable y =
      record("half_done", {x}, x.data().clone(),
             [](const std::vector<Tensor>&, const NeedsGrad&) { return std::vector<Tensor>(1); });
  EXPECT_NE(error_of([&] { backward(y); }).find("'half_done' has no gradient"), std::string::npos);
}

TEST(Variable, NoGradGuardStopsRecordingAndNests) {
  const Variable x = leaf({2});
  {
    const NoGradGuard outer;
    { const NoGradGuard inner; }
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE((x * x).requires_grad());
  }
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(Variable, DetachCutsTheGraphAndSharesData) {
  const Variable x = leaf({3});
  const Variable cut = (x * x).detach();
  EXPECT_FALSE(cut.requires_grad());
  backward(sum(cut * x));
  EXPECT_EQ(x.grad().item(), 9);
  EXPECT_TRUE(x.detach().data().shares_storage(x.data()));
}

TEST(Variable, OnlyRealTensorsRequireGradients) {
  EXPECT_THROW(Variable(placed::arange(3), true), ShapeError);
  EXPECT_THROW(Variable(Tensor(), true), Error);
}

TEST(Variable, HooksSeeTheWholeGradientOncePerBackward) {
  Variable x = leaf({2});
  std::vector<double> seen;
  x.add_grad_hook([&](Variable& v) { seen.push_back(v.grad().item()); });
  backward(sum(x * x + x + x));
  EXPECT_EQ(seen, std::vector<double>{6});
  EXPECT_THROW((x * x).add_grad_hook([](Variable&) {}), Error);
}

TEST(Variable, HooksComeInTheOrderGradientsBecomeReady) {
  Variable first = leaf({2}), last = leaf({3});
  std::string order;
  first.add_grad_hook([&](Variable&) { order += "first "; });
  last.add_grad_hook([&](Variable&) { order += "last "; });
  backward(exp(first) * last);
  EXPECT_EQ(order, "last first ");
}

TEST(Backward, KnowsTheRootItStartedFrom) {
  std::vector<bool> is_default;
  const Variable x(placed::ones({}), true);
  const Variable y = record("probe", {x}, placed::ones({}), [&](const auto& grads, const auto&) {
    is_default.push_back(is_default_root(grads[0]));
    return std::vector<Tensor>{grads[0]};
  });
  backward(y, {}, /*retain_graph=*/true);
  backward(y, placed::ones({}), /*retain_graph=*/true);
  backward(scale(y, 2), {}, /*retain_graph=*/true);
  EXPECT_EQ(is_default, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(x.grad().item(), 4);
}
}  // namespace
}  // namespace mobius::variable_test
