// Optimisers: they turn gradients into parameter updates (docs/MATH.md, section 5).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/share.h"
#include "core/options/registry.h"
#include "nn/module.h"

namespace mobius {

class Schema;

/// A tensor with the name under which a checkpoint keeps it.
struct NamedTensor {
  std::string name;
  Tensor value;
};

/// A parameter as an optimiser sees it.
struct TrainedParameter {
  std::string name;
  Variable value;
  bool decayed;
};

/// All parameters of a model. Weight decay acts on those with two dimensions or more: not on
/// norms, biases, or the raw scales of attention heads.
std::vector<TrainedParameter> trained_parameters(const Module& model);

/// Euclidean norm of all gradients together, summed in double. A parameter without one counts 0.
double gradient_norm(const std::vector<TrainedParameter>& parameters);
/// Scales all gradients by max_norm / norm where norm, as gradient_norm() gave it, is larger.
void clip_gradients(const std::vector<TrainedParameter>& parameters, double norm, double max_norm);

/// The part of every parameter that an optimiser updates and keeps state for: elements
/// share_of(numel, index, count).
struct Shard {
  int index = 0;
  int count = 1;

  bool is_whole() const { return count == 1; }
};

class Optimizer {
 public:
  explicit Optimizer(std::vector<TrainedParameter> parameters, Shard shard = {});
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates its shard of every parameter that has a gradient, in place; the gradients stay as they
  /// are.
  void step(double learning_rate);

  const std::vector<TrainedParameter>& parameters() const { return parameters_; }
  const Shard& shard() const { return shard_; }
  /// What it remembers between steps: handles to its own tensors, named "<moment>/<parameter>", of
  /// the parameter's shape; of a shard's elements, in one dimension, where it is not the whole.
  virtual std::vector<NamedTensor> state() const = 0;
  /// Steps taken, which state() belongs to.
  std::int64_t steps_taken() const { return steps_taken_; }
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

 protected:
  /// One tensor of zeros for each parameter, like its shard.
  std::vector<Tensor> zeros_like_parameters() const;
  std::vector<NamedTensor> named(const std::string& moment,
                                 const std::vector<Tensor>& tensors) const;

 private:
  /// Updates the shard `value` of parameter `index`; `step` counts from 1.
  virtual void update(std::size_t index, const Tensor& value, const Tensor& gradient,
                      double learning_rate, std::int64_t step) = 0;
  /// A view.
  Tensor shard_of(const Tensor& dense) const;

  std::vector<TrainedParameter> parameters_;
  Shard shard_;
  std::int64_t steps_taken_ = 0;
};

/// The section `optimizer` of a configuration: a kind, and its keys.
struct OptimizerOptions {
  double lr = 1e-3;  ///< peak; the schedule scales it
  double weight_decay = 0;

  virtual ~OptimizerOptions() = default;
  virtual void describe(Schema& schema) = 0;
  /// How many tensors of a parameter's shape the optimiser keeps for it, at least.
  virtual int moments() const { return 0; }
  virtual std::unique_ptr<Optimizer> build(std::vector<TrainedParameter> parameters,
                                           Shard shard = {}) const = 0;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019):
/// p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p).
struct AdamWOptions final : OptimizerOptions {
  AdamWOptions() { weight_decay = 0.1; }

  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;

  void describe(Schema& schema) override;
  int moments() const override { return 2; }
  std::unique_ptr<Optimizer> build(std::vector<TrainedParameter> parameters,
                                   Shard shard = {}) const override;
};

/// Stochastic gradient descent; with momentum, the first step's momentum is its gradient.
struct SgdOptions final : OptimizerOptions {
  double momentum = 0.9;
  bool nesterov = false;

  void describe(Schema& schema) override;
  int moments() const override { return 1; }
  std::unique_ptr<Optimizer> build(std::vector<TrainedParameter> parameters,
                                   Shard shard = {}) const override;
};

/// "adamw" and "sgd".
Registry<OptimizerOptions> builtin_optimizers();

}  // namespace mobius
