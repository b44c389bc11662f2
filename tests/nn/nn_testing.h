// Helpers for the tests of modules.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/ops.h"
#include "core/error.h"
#include "core/ops.h"
#include "nn/language_model.h"
#include "tests/device.h"

namespace mobius::testing {

inline Tensor normal(Shape shape, std::uint64_t stream, double std = 1, DType dtype = DType::f64) {
  return placed::random_normal(std::move(shape), 0, std, {.seed = 20, .stream = stream}, dtype);
}

inline std::vector<std::string> parameter_names(const Module& module) {
  std::vector<std::string> names;
  for (const Module::NamedParameter& parameter : module.parameters())
    names.push_back(parameter.name);
  return names;
}

inline Variable parameter_of(const Module& module, const std::string& name) {
  for (const Module::NamedParameter& parameter : module.parameters())
    if (parameter.name == name) return parameter.value;
  throw Error("test: no parameter '{}'", name);
}

inline double dot(const Tensor& a, const Tensor& b) { return sum(mul(a, b)).item(); }

// |a - b| / |b|; |b| below 0.01 counts as 0.01: what cancels wholly leaves rounding.
inline double distance(const Tensor& a, const Tensor& b) {
  const double difference = std::sqrt(sum_of_squares(sub(a, b)));
  return difference / std::max(std::sqrt(sum_of_squares(b.contiguous())), 1e-2);
}

// Gives a model the block and the head of docs/MATH.md, section 3.
inline void make_published(ModelOptions& model) {
  model.mlp = MlpKind::swiglu;
  model.norm = NormKind::rms_norm;
  model.positions = Positions::rope;
  model.bias = model.tied_head = false;
}

// That block, twice.
inline ModelOptions published_model(std::int64_t d_model, std::int64_t n_heads, std::int64_t d_ff) {
  ModelOptions model;
  model.d_model = d_model;
  model.n_layers = 2;
  model.n_heads = n_heads;
  model.d_ff = d_ff;
  make_published(model);
  return model;
}

inline RowIndex prepared(const LanguageModel& model, const Tensor& tokens) {
  return RowIndex("test", tokens, model.vocab_size()).to(model.device());
}

inline LossResult loss_of(const LanguageModel& model, const Tensor& tokens, const Tensor& labels,
                          const ForwardContext& context = {}, double normalizer = 0) {
  return model.loss(prepared(model, tokens),
                    Labels("test", labels, model.vocab_size()).to(model.device()), context,
                    normalizer);
}

inline AttentionMask causal() { return {.causal = true}; }

// Expects the gradient of f in every parameter of an f64 module to agree with central differences
// of fourth order of f along a random direction.
inline void expect_parameter_gradients(Module& module, const std::function<Variable()>& f) {
  const auto value_at = [&f](Variable& parameter, const Tensor& direction, double step) {
    const Tensor start = parameter.data().clone();
    parameter.mutable_data().add_(scale(direction, step));
    const NoGradGuard no_grad;
    const double value = f().item();
    parameter.mutable_data().copy_from(start);
    return value;
  };
  module.zero_grad();
  backward(f());
  std::uint64_t stream = 1000;
  for (auto& [name, parameter] : module.parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name << " gets no gradient";
    const Tensor direction = normal(parameter.shape(), ++stream);
    const auto slope = [&](double step) {
      return (value_at(parameter, direction, step) - value_at(parameter, direction, -step)) /
             (2 * step);
    };
    const double step = 1e-5;
    const double numeric = (4 * slope(step) - slope(2 * step)) / 3;
    EXPECT_NEAR(dot(parameter.grad(), direction), numeric, 1e-6 * std::abs(numeric) + 1e-10)
        << name;
  }
}

// Expects `statement` to throw E with `part` in its message.
template <class E>
void expect_error(const std::function<void()>& statement, const std::string& part) {
  try {
    statement();
    FAIL() << "expected an error that says '" << part << "'";
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace mobius::testing
