#include "core/ops/optimizer.h"

#include "core/ops/checks.h"

namespace mobius {
namespace {

// As the parameter, and dense: it is read and written in place.
void require_in_place(std::string_view op, std::string_view what, const Tensor& x,
                      const Tensor& parameter) {
  require_like(op, what, x, parameter, parameter.shape());
  if (!x.is_contiguous()) throw ShapeError("{}: {} is not dense", op, what);
}

void require_scalars(std::string_view op, const Tensor& scalars, const Tensor& like) {
  require_dtype(op, "the scalars", scalars, like, DType::f64);
  require_shape(op, "the scalars", scalars, {UpdateScalar::count});
}

void check(std::string_view op, const ParameterUpdate& update, std::size_t n_moments,
           const Tensor& scalars) {
  require_real(op, update.value);
  require_scalars(op, scalars, update.value);
  require_in_place(op, "the parameter", update.value, update.value);
  require_in_place(op, "the gradient", update.gradient, update.value);
  if (update.moments.size() < n_moments) {
    throw ShapeError("{}: expected {} moments, got {}", op, n_moments, update.moments.size());
  }
  for (std::size_t i = 0; i < n_moments; ++i) {
    require_in_place(op, "a moment", update.moments[i], update.value);
  }
}

// Calls the kernels, if there is anything to update.
template <typename Call>
void update_all(std::string_view op, std::span<const ParameterUpdate> updates,
                std::size_t n_moments, const Tensor& scalars, Call&& call) {
  for (const ParameterUpdate& update : updates) {
    if (update.gradient.defined()) check(op, update, n_moments, scalars);
  }
  call(kernels(scalars, &Backend::optimizer));
  for (const ParameterUpdate& update : updates) {
    if (!update.gradient.defined()) continue;
    Tensor(update.value).bump_version();
    for (Tensor moment : update.moments) moment.bump_version();
  }
}

}  // namespace

void clip_gradients(const Tensor& squares, double max_norm, const Tensor& scalars) {
  require_scalars("clip_gradients", scalars, squares);
  require_dtype("clip_gradients", "the sums of squares", squares, scalars, DType::f64);
  kernels(squares, &Backend::optimizer)->clip_gradients(squares, max_norm, scalars);
  Tensor(scalars).bump_version();
}

void adamw(const AdamWSettings& settings, std::span<const ParameterUpdate> updates,
           const Tensor& scalars) {
  update_all("adamw", updates, 2, scalars,
             [&](const auto& kernels) { kernels->adamw(settings, updates, scalars); });
}

void sgd(const SgdSettings& settings, std::span<const ParameterUpdate> updates,
         const Tensor& scalars) {
  update_all("sgd", updates, settings.momentum == 0 ? 0 : 1, scalars,
             [&](const auto& kernels) { kernels->sgd(settings, updates, scalars); });
}

}  // namespace mobius
