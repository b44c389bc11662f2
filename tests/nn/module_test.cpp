#include "nn/module.h"

#include <gmock/gmock.h>

#include "nn/linear.h"
#include "tests/nn/nn_testing.h"

namespace mobius::module_test {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::parameter_names;

class Open : public Module {
 public:
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
  using Module::share_parameter;
};

TEST(Module, NamesParametersByDottedPathInOrderOfRegistration) {
  const auto root = std::make_shared<Open>(), middle = std::make_shared<Open>(),
             leaf = std::make_shared<Open>();
  root->register_module("middle", middle);
  middle->register_module("0", leaf);
  leaf->register_parameter("weight", placed::zeros({2, 3}));
  leaf->register_buffer("mean", placed::zeros({4}));
  root->register_parameter("scale", placed::zeros({5}));
  middle->register_parameter("bias", placed::zeros({6}));

  EXPECT_THAT(parameter_names(*root), ElementsAre("scale", "middle.bias", "middle.0.weight"));
  ASSERT_EQ(root->buffers().size(), 1u);
  EXPECT_EQ(root->buffers()[0].name, "middle.0.mean");
  EXPECT_EQ(root->parameter_count(), 6 + 5 + 6);
}

TEST(Module, RefusesANameTakenByAnythingOrWithADot) {
  for (const std::string taken : {"parameter", "buffer", "child"}) {
    Open module;
    module.register_parameter("parameter", placed::zeros({1}));
    module.register_buffer("buffer", placed::zeros({1}));
    module.register_module("child", std::make_shared<Open>());
    EXPECT_THROW(module.register_parameter(taken, placed::zeros({1})), Error);
    EXPECT_THROW(module.register_buffer(taken, placed::zeros({1})), Error);
    EXPECT_THROW(module.register_module(taken, std::make_shared<Open>()), Error);
  }
  Open module;
  expect_error<Error>([&] { module.register_parameter("a.b", placed::zeros({1})); }, "a.b");
  EXPECT_THROW(module.register_parameter("", placed::zeros({1})), Error);
}

TEST(Module, CountsATiedParameterOnceUnderItsFirstName) {
  Open root;
  const auto first = std::make_shared<Open>(), second = std::make_shared<Open>();
  root.register_module("first", first);
  root.register_module("second", second);
  const Variable weight = first->register_parameter("weight", placed::zeros({2, 2}));
  second->share_parameter("weight", weight);
  EXPECT_THAT(parameter_names(root), ElementsAre("first.weight"));
  EXPECT_EQ(root.parameter_count(), 4);
}

TEST(Module, ZeroGradClearsEveryParameter) {
  const Initializer init(1, 0.02, false, DType::f32, testing::device());
  Linear linear(init, 3, 2, /*bias=*/true);
  backward(sum(linear.forward(Variable(placed::ones({4, 3})))));
  EXPECT_EQ(testing::parameter_of(linear, "bias").grad().to_vector<float>(),
            (std::vector<float>{4, 4}));
  linear.zero_grad();
  for (const auto& [name, parameter] : linear.parameters())
    EXPECT_TRUE(!parameter.grad().defined() || sum_of_squares(parameter.grad()) == 0) << name;
}

}  // namespace
}  // namespace mobius::module_test
