// The labels that a loss is computed from.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/row_index.h"

namespace mobius {

constexpr std::int64_t ignored_label = -100;  // counts neither in losses nor in gradients

/// The labels of a batch that are not ignored, and their positions. The constructor checks and
/// counts them on the host, so that later users need not read them back from a device.
class Labels {
 public:
  Labels() = default;
  /// `labels` is i32 or i64, of any shape. `scored` is u8, of the same shape: it is not 0 if the
  /// prediction counts in the accuracy; without it every prediction counts. Both are read back from
  /// a device. Throws Error, naming `what`, unless each label is ignored or in [0, n_classes).
  Labels(std::string_view what, const Tensor& labels, std::int64_t n_classes,
         const Tensor& scored = {});

  /// Returns these labels themselves if they are on that device.
  Labels to(Device device) const;

  /// The number of labels that count, L.
  std::int64_t count() const { return values_.numel(); }
  /// The number of those whose predictions count in the accuracy.
  std::int64_t n_scored() const { return n_scored_; }
  std::int64_t n_classes() const { return n_classes_; }
  Device device() const { return values_.device(); }
  /// [L], ascending: the position of each in the flattened labels.
  const RowIndex& positions() const { return positions_; }
  /// [L] i64.
  const Tensor& values() const { return values_; }
  /// [L] u8: 1 if the prediction counts in the accuracy.
  const Tensor& scored() const { return scored_; }

 private:
  RowIndex positions_;
  Tensor values_;
  Tensor scored_;
  std::int64_t n_scored_ = 0;
  std::int64_t n_classes_ = 0;
};

}  // namespace mobius
