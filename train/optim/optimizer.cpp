#include "train/optim/optimizer.h"

#include <cmath>
#include <utility>

#include "core/ops.h"
#include "core/options/schema.h"
#include "core/options/validate.h"

namespace mobius {

namespace {

class AdamW final : public Optimizer {
 public:
  AdamW(std::vector<TrainedParameter> parameters, Shard shard, const AdamWOptions& options)
      : Optimizer(std::move(parameters), shard),
        options_(options),
        first_(zeros_like_parameters()),
        second_(zeros_like_parameters()) {}

  std::vector<NamedTensor> state() const override {
    std::vector<NamedTensor> state = named("m", first_);
    for (NamedTensor& tensor : named("v", second_)) state.push_back(std::move(tensor));
    return state;
  }

 private:
  void update(std::size_t index, const Tensor& value, const Tensor& gradient, double learning_rate,
              std::int64_t step) override {
    const AdamWStep settings{
        .lr = learning_rate,
        .beta1 = options_.betas[0],
        .beta2 = options_.betas[1],
        .eps = options_.eps,
        .weight_decay = parameters()[index].decayed ? options_.weight_decay : 0,
        .step = step};
    adamw(settings, gradient, value, first_[index], second_[index]);
  }

  AdamWOptions options_;
  std::vector<Tensor> first_;
  std::vector<Tensor> second_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<TrainedParameter> parameters, Shard shard, const SgdOptions& options)
      : Optimizer(std::move(parameters), shard),
        options_(options),
        momentum_(zeros_like_parameters()) {}

  std::vector<NamedTensor> state() const override { return named("momentum", momentum_); }

 private:
  void update(std::size_t index, const Tensor& value, const Tensor& gradient, double learning_rate,
              std::int64_t step) override {
    const SgdStep settings{.lr = learning_rate,
                           .momentum = options_.momentum,
                           .weight_decay = parameters()[index].decayed ? options_.weight_decay : 0,
                           .nesterov = options_.nesterov,
                           .step = step};
    sgd(settings, gradient, value, momentum_[index]);
  }

  SgdOptions options_;
  std::vector<Tensor> momentum_;
};

void describe_common(Schema& schema, OptimizerOptions& options) {
  schema.field("lr", options.lr, "peak learning rate").positive();
  schema
      .field("weight_decay", options.weight_decay,
             "decay of parameters with two dimensions or more")
      .non_negative();
}

}  // namespace

std::vector<TrainedParameter> trained_parameters(const Module& model) {
  std::vector<TrainedParameter> trained;
  for (const Module::NamedParameter& parameter : model.parameters()) {
    trained.push_back({parameter.name, parameter.value, parameter.value.ndim() >= 2});
  }
  return trained;
}

double gradient_norm(const std::vector<TrainedParameter>& parameters) {
  double total = 0;
  for (const TrainedParameter& parameter : parameters) {
    const Tensor& gradient = parameter.value.grad();
    if (gradient.defined()) total += sum_of_squares(gradient);
  }
  return std::sqrt(total);
}

void clip_gradients(const std::vector<TrainedParameter>& parameters, double norm, double max_norm) {
  if (norm <= max_norm) return;
  for (TrainedParameter parameter : parameters) {
    Tensor& gradient = parameter.value.mutable_grad();
    if (gradient.defined()) gradient.scale_(max_norm / norm);
  }
}

Optimizer::Optimizer(std::vector<TrainedParameter> parameters, Shard shard)
    : parameters_(std::move(parameters)), shard_(shard) {}

void Optimizer::step(double learning_rate) {
  ++steps_taken_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Variable& value = parameters_[i].value;
    if (!value.grad().defined()) continue;
    update(i, shard_of(value.data()), shard_of(value.grad().contiguous()), learning_rate,
           steps_taken_);
    value.mutable_data().bump_version();
  }
}

Tensor Optimizer::shard_of(const Tensor& dense) const {
  if (shard_.is_whole()) return dense;
  const Share share = share_of(dense.numel(), shard_.index, shard_.count);
  return dense.reshape({-1}).slice(0, share.begin, share.end);
}

std::vector<Tensor> Optimizer::zeros_like_parameters() const {
  std::vector<Tensor> tensors;
  for (const TrainedParameter& parameter : parameters_) {
    tensors.push_back(shard_of(parameter.value.data()).zeros_like());
  }
  return tensors;
}

std::vector<NamedTensor> Optimizer::named(const std::string& moment,
                                          const std::vector<Tensor>& tensors) const {
  std::vector<NamedTensor> result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result.push_back({moment + "/" + parameters_[i].name, tensors[i]});
  }
  return result;
}

void AdamWOptions::describe(Schema& schema) {
  describe_common(schema, *this);
  schema.field("betas", betas, "decay of the first and of the second moment").at_least(0).below(1);
  schema.field("eps", eps, "added to the root of the second moment").positive();
  schema.check("betas", [this] {
    if (betas.size() != 2) throw ConfigError("expected 2 numbers, got {}", betas.size());
  });
}

std::unique_ptr<Optimizer> AdamWOptions::build(std::vector<TrainedParameter> parameters,
                                               Shard shard) const {
  validate_option_values(*this, "adamw");
  return std::make_unique<AdamW>(std::move(parameters), shard, *this);
}

void SgdOptions::describe(Schema& schema) {
  describe_common(schema, *this);
  schema.field("momentum", momentum, "0 for plain gradient descent").at_least(0).below(1);
  schema.field("nesterov", nesterov, "Nesterov's momentum");
  schema.check("nesterov", [this] {
    if (nesterov && momentum == 0) throw ConfigError("needs a momentum above 0");
  });
}

std::unique_ptr<Optimizer> SgdOptions::build(std::vector<TrainedParameter> parameters,
                                             Shard shard) const {
  validate_option_values(*this, "sgd");
  return std::make_unique<Sgd>(std::move(parameters), shard, *this);
}

Registry<OptimizerOptions> builtin_optimizers() {
  Registry<OptimizerOptions> optimizers;
  optimizers.add<AdamWOptions>("adamw", "Adam with decoupled weight decay");
  optimizers.add<SgdOptions>("sgd", "stochastic gradient descent with momentum");
  return optimizers;
}

}  // namespace mobius
