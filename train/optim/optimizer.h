// Optimisers turn gradients into parameter updates (docs/MATH.md, section 5).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/ops/optimizer.h"
#include "core/options/registry.h"
#include "train/optim/arena.h"

namespace mobius {

class Schema;

/// A tensor and its name in a checkpoint.
struct NamedTensor {
  std::string name;
  Tensor value;
};

/// The gradients of the last clipped step.
struct GradientNorm {
  double value = 0;
  bool is_finite = true;
  /// The number of last steps that changed nothing: the first with a norm that was not finite, and
  /// all later ones.
  std::int64_t n_skipped = 0;
  /// The first parameter whose gradient was not finite; empty if only the norm was not.
  std::optional<std::size_t> parameter{};
};

/// A sharded optimiser keeps only the moments of its shard.
class Optimizer {
 public:
  /// The arithmetic of one step; see UpdateScalar for the scalars.
  using Update =
      std::function<void(std::span<const ParameterUpdate> updates, const Tensor& scalars)>;

  /// Keeps a buffer of zeros for each of the named moments.
  Optimizer(ParameterArena arena, Shard shard, const std::vector<std::string>& moments,
            Update update);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates its shard of every parameter that has a gradient, in place.
  void step(double learning_rate);
  /// A step whose gradients are scaled by max_norm / norm if their joint Euclidean norm, summed in
  /// double, is larger. If the norm is not finite, this step and all later ones change nothing. All
  /// ranks must call it with summed gradients; each measures its part. Reads nothing back from the
  /// device.
  void clipped_step(double learning_rate, double max_norm, Communicator& ranks);
  /// Waits for the device. The result is equal on every rank.
  GradientNorm gradient_norm() const;

  const ParameterArena& arena() const { return arena_; }
  const std::vector<TrainedParameter>& parameters() const { return arena_.parameters(); }
  const Shard& shard() const { return shard_; }
  /// The state between steps: buffers of its shard (ParameterArena::zeros).
  const std::vector<NamedTensor>& moments() const { return moments_; }
  /// Returns views of the moments by parameter, named "<moment>/<parameter>". They have the
  /// parameter's shape, or are flat pieces if the optimiser is sharded.
  std::vector<NamedTensor> state() const { return by_parameter(moments_, shard_); }
  /// Returns such views of other buffers and another shard.
  std::vector<NamedTensor> by_parameter(const std::vector<NamedTensor>& moments,
                                        const Shard& shard) const;
  /// The number of steps that led to state().
  std::int64_t steps_taken() const { return steps_taken_; }
  void set_steps_taken(std::int64_t steps) { steps_taken_ = steps; }

 private:
  void begin_step(double learning_rate);
  void update_all();
  void set(UpdateScalar::Index scalar, double value);

  ParameterArena arena_;
  Shard shard_;
  Update update_;
  std::vector<NamedTensor> moments_;
  std::vector<ParameterUpdate> updates_;  // of each parameter; gradients only during a step
  Tensor scalars_;                        // see UpdateScalar
  Tensor squares_;                        // [parameters] f64: sums of the squares of a gradient
  std::int64_t steps_taken_ = 0;
};

/// The section `optimizer` of a configuration: a kind, and its keys.
struct OptimizerOptions {
  double lr = 1e-3;  ///< peak; the schedule scales it
  double weight_decay = 0;

  virtual ~OptimizerOptions() = default;
  virtual void describe(Schema& schema) = 0;
  /// The number of tensors that the optimiser keeps for each parameter, at least.
  virtual int moments() const { return 0; }
  virtual std::unique_ptr<Optimizer> build(ParameterArena arena, Shard shard) const = 0;
  /// For one process.
  std::unique_ptr<Optimizer> build(std::vector<TrainedParameter> parameters) const {
    return build(ParameterArena(std::move(parameters)), {});
  }
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019):
/// p -= lr * (m_hat / (sqrt(v_hat) + eps) + weight_decay * p).
struct AdamWOptions final : OptimizerOptions {
  AdamWOptions() { weight_decay = 0.1; }

  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;

  void describe(Schema& schema) override;
  int moments() const override { return 2; }
  using OptimizerOptions::build;
  std::unique_ptr<Optimizer> build(ParameterArena arena, Shard shard) const override;
};

/// Stochastic gradient descent; with momentum, the first step's momentum is its gradient.
struct SgdOptions final : OptimizerOptions {
  double momentum = 0.9;
  bool nesterov = false;

  void describe(Schema& schema) override;
  int moments() const override { return 1; }
  using OptimizerOptions::build;
  std::unique_ptr<Optimizer> build(ParameterArena arena, Shard shard) const override;
};

/// "adamw" and "sgd".
Registry<OptimizerOptions> builtin_optimizers();

}  // namespace mobius
