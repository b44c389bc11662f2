#include "nn/module.h"

#include <algorithm>

namespace mobius {

std::vector<Module::NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> parameters;
  std::vector<NamedBuffer> buffers;
  collect("", parameters, buffers);
  return parameters;
}

std::vector<Module::NamedBuffer> Module::buffers() const {
  std::vector<NamedParameter> parameters;
  std::vector<NamedBuffer> buffers;
  collect("", parameters, buffers);
  return buffers;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : parameters()) count += parameter.value.numel();
  return count;
}

void Module::zero_grad() {
  for (NamedParameter& parameter : parameters()) parameter.value.zero_grad();
}

void Module::to(Device device) {
  zero_grad();
  for (NamedParameter& parameter : parameters()) parameter.value.mutable_data().move_to(device);
  for (NamedBuffer& buffer : buffers()) buffer.value.move_to(device);
}

Variable Module::register_parameter(std::string name, Tensor initial, bool is_trained) {
  if (!is_trained) return Variable(register_buffer(std::move(name), std::move(initial)));
  return share_parameter(std::move(name), Variable(std::move(initial), /*requires_grad=*/true));
}

Variable Module::share_parameter(std::string name, const Variable& parameter) {
  require_free_name(name);
  parameters_.push_back({std::move(name), parameter});
  return parameter;
}

Tensor Module::register_buffer(std::string name, Tensor initial) {
  require_free_name(name);
  return buffers_.emplace_back(NamedBuffer{std::move(name), std::move(initial)}).value;
}

void Module::require_free_name(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos)
    throw Error("module: '{}' is no name for a part; expected text without a dot", name);
  const auto named = [&](const auto& entry) { return entry.name == name; };
  const bool taken = std::any_of(parameters_.begin(), parameters_.end(), named) ||
                     std::any_of(buffers_.begin(), buffers_.end(), named) ||
                     std::any_of(children_.begin(), children_.end(),
                                 [&](const auto& child) { return child.first == name; });
  if (taken) throw Error("module: the name '{}' is registered twice", name);
}

void Module::collect(const std::string& prefix, std::vector<NamedParameter>& parameters,
                     std::vector<NamedBuffer>& buffers) const {
  for (const auto& [name, value] : parameters_) {
    const bool is_tied =
        std::any_of(parameters.begin(), parameters.end(),
                    [&](const NamedParameter& seen) { return seen.value.is(value); });
    if (!is_tied) parameters.push_back({prefix + name, value});
  }
  for (const auto& [name, value] : buffers_) buffers.push_back({prefix + name, value});
  for (const auto& [name, child] : children_)
    child->collect(prefix + name + ".", parameters, buffers);
}

}  // namespace mobius
