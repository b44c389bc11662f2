#include "train/optim/optimizer.h"

#include <iterator>
#include <utility>

#include "core/ops/reduce.h"
#include "core/options/schema.h"
#include "core/options/validate.h"

namespace mobius {

namespace {

void describe_common(Schema& schema, OptimizerOptions& options) {
  schema.field("lr", options.lr, "peak learning rate").positive();
  schema
      .field("weight_decay", options.weight_decay,
             "decay of parameters with two dimensions or more")
      .non_negative();
}

}  // namespace

Optimizer::Optimizer(ParameterArena arena, Shard shard, const std::vector<std::string>& moments,
                     Update update)
    : arena_(std::move(arena)),
      shard_(shard),
      update_(std::move(update)),
      updates_(parameters().size()) {
  const Device device = arena_.values().device();
  scalars_ = Tensor::zeros({UpdateScalar::count}, DType::f64, device);
  squares_ = Tensor::zeros({std::ssize(parameters())}, DType::f64, device);
  for (const std::string& name : moments) moments_.push_back({name, arena_.zeros(shard_)});
  for (std::size_t i = 0; i < updates_.size(); ++i) {
    const TrainedParameter& parameter = parameters()[i];
    updates_[i].value = arena_.piece_of(parameter.value.data(), i, shard_);
    updates_[i].decays = parameter.decayed;
    for (const NamedTensor& moment : moments_) {
      updates_[i].moments.push_back(arena_.piece_in(moment.value, i, shard_));
    }
  }
}

void Optimizer::step(double learning_rate) {
  begin_step(learning_rate);
  set(UpdateScalar::factor, 1);
  update_all();
}

void Optimizer::clipped_step(double learning_rate, double max_norm, Communicator& ranks) {
  begin_step(learning_rate);
  std::vector<Tensor> gradients;
  gradients.reserve(parameters().size());
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const Tensor& gradient = parameters()[i].value.grad();
    gradients.push_back(
        gradient.defined() ? arena_.piece_of(gradient.contiguous(), i, {ranks.rank(), ranks.size()})
                           : Tensor());
  }
  sum_of_squares(gradients, squares_);
  ranks.start_sum(squares_)->wait();
  clip_gradients(squares_, max_norm, scalars_);
  update_all();
}

void Optimizer::set(UpdateScalar::Index scalar, double value) {
  scalars_.slice(0, scalar, scalar + 1).fill(value);
}

void Optimizer::begin_step(double learning_rate) {
  ++steps_taken_;
  set(UpdateScalar::learning_rate, learning_rate);
  set(UpdateScalar::step, static_cast<double>(steps_taken_));
}

void Optimizer::update_all() {
  for (std::size_t i = 0; i < updates_.size(); ++i) {
    const Tensor& gradient = parameters()[i].value.grad();
    if (gradient.defined())
      updates_[i].gradient = arena_.piece_of(gradient.contiguous(), i, shard_);
  }
  update_(updates_, scalars_);
  for (ParameterUpdate& update : updates_) update.gradient = Tensor();
}

GradientNorm Optimizer::gradient_norm() const {
  const std::vector<double> scalars = scalars_.to_vector<double>();
  GradientNorm norm{.value = scalars[UpdateScalar::norm]};
  const auto failed_step = static_cast<std::int64_t>(scalars[UpdateScalar::failed_step]);
  if (failed_step == 0) return norm;
  norm.is_finite = false;
  norm.n_skipped = steps_taken_ - failed_step + 1;
  const double parameter = scalars[UpdateScalar::failed_gradient];
  if (parameter >= 0) norm.parameter = static_cast<std::size_t>(parameter);
  return norm;
}

std::vector<NamedTensor> Optimizer::by_parameter(const std::vector<NamedTensor>& moments,
                                                 const Shard& shard) const {
  std::vector<NamedTensor> state;
  for (const auto& [name, buffer] : moments) {
    for (std::size_t i = 0; i < parameters().size(); ++i) {
      state.push_back({name + "/" + parameters()[i].name, arena_.piece_in(buffer, i, shard)});
    }
  }
  return state;
}

void AdamWOptions::describe(Schema& schema) {
  describe_common(schema, *this);
  schema.field("betas", betas, "decay of the first and of the second moment").at_least(0).below(1);
  schema.field("eps", eps, "added to the root of the second moment").positive();
  schema.check("betas", [this] {
    if (betas.size() != 2) throw ConfigError("expected 2 numbers, got {}", betas.size());
  });
}

std::unique_ptr<Optimizer> AdamWOptions::build(ParameterArena arena, Shard shard) const {
  validate_options(*this, "adamw");
  const AdamWSettings settings{
      .beta1 = betas[0], .beta2 = betas[1], .eps = eps, .weight_decay = weight_decay};
  return std::make_unique<Optimizer>(
      std::move(arena), shard, std::vector<std::string>{"m", "v"},
      [settings](auto updates, const Tensor& scalars) { adamw(settings, updates, scalars); });
}

void SgdOptions::describe(Schema& schema) {
  describe_common(schema, *this);
  schema.field("momentum", momentum, "0 for plain gradient descent").at_least(0).below(1);
  schema.field("nesterov", nesterov, "Nesterov's momentum")
      .only_if([this] { return momentum > 0; }, "momentum: > 0");
}

std::unique_ptr<Optimizer> SgdOptions::build(ParameterArena arena, Shard shard) const {
  validate_options(*this, "sgd");
  const SgdSettings settings{
      .momentum = momentum, .weight_decay = weight_decay, .nesterov = nesterov};
  return std::make_unique<Optimizer>(
      std::move(arena), shard, std::vector<std::string>{"momentum"},
      [settings](auto updates, const Tensor& scalars) { sgd(settings, updates, scalars); });
}

Registry<OptimizerOptions> builtin_optimizers() {
  Registry<OptimizerOptions> optimizers;
  optimizers.add<AdamWOptions>("adamw", "Adam with decoupled weight decay");
  optimizers.add<SgdOptions>("sgd", "stochastic gradient descent with momentum");
  return optimizers;
}

}  // namespace mobius
