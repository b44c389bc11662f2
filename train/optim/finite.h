// The one place where numbers are checked to be finite: those of a file, of a step, of an update.
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

/// A loss, a gradient or what an update made is not finite. Nothing of it is kept.
class TrainingDiverged : public Error {
 public:
  using Error::Error;
};

/// The first of the elements, stored one after the other, that is NaN or infinite; nothing where
/// all are finite, as those of integer types are.
std::optional<std::int64_t> find_not_finite(std::span<const std::byte> elements, DType dtype);

/// Throws TrainingDiverged, naming the step and a parameter that is to blame, unless `loss` is
/// finite. `what` names it: "loss", "test loss".
void require_finite_loss(const LanguageModel& model, std::string_view what, double loss,
                         std::int64_t step);

/// Reads the norm of the last clipped step back. Throws TrainingDiverged, naming `step` and the
/// first parameter whose gradient is not finite, unless that norm and those of earlier steps are:
/// `step` is the first that changed nothing.
double finite_gradient_norm(const Optimizer& optimizer, std::int64_t step);

/// Throws TrainingDiverged, on all ranks alike, naming the step and the first tensor, unless every
/// parameter and all of the optimiser's state is finite: an update may overflow though its gradient
/// did not.
void require_finite_state(const Optimizer& optimizer, std::int64_t step,
                          Communicator& communicator);

}  // namespace mobius
