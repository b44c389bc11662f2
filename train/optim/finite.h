// Checks that the numbers of a file, a step or an update are finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/comm/communicator.h"
#include "core/dtype.h"
#include "core/error.h"
#include "nn/language_model.h"
#include "train/optim/optimizer.h"

namespace mobius {

/// A loss, a gradient or the result of an update is not finite.
class TrainingDiverged : public Error {
 public:
  using Error::Error;
};

/// Returns the index of the first element that is NaN or infinite; empty if there is none, as for
/// integer types.
std::optional<std::int64_t> find_not_finite(std::span<const std::byte> elements, DType dtype);

/// Throws TrainingDiverged, naming the step and a parameter that is not finite, unless `loss` is
/// finite. `what` is "loss" or "test loss".
void require_finite_loss(const LanguageModel& model, std::string_view what, double loss,
                         std::int64_t step);

/// Reads back and returns the gradient norm of the last clipped step. Throws TrainingDiverged,
/// naming `step` and the first parameter whose gradient is not finite, unless this norm and those
/// of earlier steps are finite.
double finite_gradient_norm(const Optimizer& optimizer, std::int64_t step);

/// Throws TrainingDiverged on all ranks, naming the step and the first tensor, unless every
/// parameter and the state of the optimiser are finite: an update may overflow although its
/// gradient did not.
void require_finite_state(const Optimizer& optimizer, std::int64_t step,
                          Communicator& communicator);

}  // namespace mobius
