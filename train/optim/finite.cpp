#include "train/optim/finite.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/ops.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

// An IEEE 754 number is not finite if all bits of its exponent are set. `Bits` is an integer of its
// size. The elements need not be aligned.
template <typename Bits>
std::optional<std::int64_t> find(std::span<const std::byte> elements, Bits exponent) {
  const std::size_t count = elements.size() / sizeof(Bits);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, elements.data() + i * sizeof bits, sizeof bits);
    if ((bits & exponent) == exponent) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

bool is_finite(const Tensor& tensor) { return std::isfinite(sum_of_squares(tensor)); }

// Names the first parameter or moment of this rank that is not finite; empty if all are finite.
std::string tensor_not_finite(const Optimizer& optimizer) {
  for (const TrainedParameter& parameter : optimizer.parameters()) {
    if (!is_finite(parameter.value.data())) return fmt::format("parameter '{}'", parameter.name);
  }
  for (const NamedTensor& tensor : optimizer.state()) {
    if (!is_finite(tensor.value)) return fmt::format("the optimiser's '{}'", tensor.name);
  }
  return "";
}

}  // namespace

std::optional<std::int64_t> find_not_finite(std::span<const std::byte> elements, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return find<std::uint32_t>(elements, 0x7f800000u);
    case DType::f64:
      return find<std::uint64_t>(elements, 0x7ff0000000000000u);
    case DType::bf16:
      return find<std::uint16_t>(elements, 0x7f80u);
    default:
      return std::nullopt;
  }
}

void require_finite_loss(const LanguageModel& model, std::string_view what, double loss,
                         std::int64_t step) {
  if (std::isfinite(loss)) return;
  for (const auto& [name, value] : model.parameters()) {
    if (is_finite(value.data())) continue;
    throw TrainingDiverged("step {}: the {} is {}, and parameter '{}' is not finite", step, what,
                           printable(loss), name);
  }
  throw TrainingDiverged(
      "step {}: the {} is {}, though every parameter is finite: the activations overflow", step,
      what, printable(loss));
}

double finite_gradient_norm(const Optimizer& optimizer, std::int64_t step) {
  const GradientNorm norm = optimizer.gradient_norm();
  if (norm.is_finite) return norm.value;
  if (!norm.parameter) {
    throw TrainingDiverged("step {}: the gradient norm is {}", step, printable(norm.value));
  }
  throw TrainingDiverged("step {}: the gradient of '{}' is not finite", step,
                         optimizer.parameters()[*norm.parameter].name);
}

void require_finite_state(const Optimizer& optimizer, std::int64_t step,
                          Communicator& communicator) {
  const std::string found = tensor_not_finite(optimizer);
  if (!communicator.any(!found.empty())) return;
  throw TrainingDiverged("step {}: after the update, {} is not finite", step,
                         found.empty() ? "the optimiser's state of another rank" : found);
}

}  // namespace mobius
