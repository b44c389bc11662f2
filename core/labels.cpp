#include "core/labels.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace mobius {

Labels::Labels(std::string_view what, const Tensor& labels, std::int64_t n_classes,
               const Tensor& scored)
    : n_classes_(n_classes) {
  if (scored.defined() && scored.shape() != labels.shape()) {
    throw ShapeError("{}: labels {} and scored {} differ in shape", what, to_string(labels.shape()),
                     to_string(scored.shape()));
  }
  const std::vector<std::int64_t> all = labels.to_vector<std::int64_t>();
  std::vector<std::uint8_t> all_scored(all.size(), 1);
  if (scored.defined()) all_scored = scored.to_vector<std::uint8_t>();
  std::vector<std::int64_t> positions, kept;
  std::vector<std::uint8_t> kept_scored;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == ignored_label) continue;
    if (all[i] < 0 || all[i] >= n_classes) {
      throw Error("{}: label {} at position {} is outside [0, {})", what, all[i], i, n_classes);
    }
    positions.push_back(static_cast<std::int64_t>(i));
    kept.push_back(all[i]);
    kept_scored.push_back(all_scored[i] != 0);
  }
  const Shape shape{std::ssize(kept)};
  positions_ = RowIndex(what, Tensor::from(positions, shape), labels.numel()).to(labels.device());
  values_ = Tensor::from(kept, shape, labels.device());
  scored_ = Tensor::from(kept_scored, shape, labels.device());
  n_scored_ = std::ranges::count(kept_scored, 1);
}

Labels Labels::to(Device device) const {
  Labels moved = *this;
  moved.positions_ = positions_.to(device);
  moved.values_ = values_.to(device);
  moved.scored_ = scored_.to(device);
  return moved;
}

}  // namespace mobius
