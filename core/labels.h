// Labels that a loss is taken over, found once on the host.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/row_index.h"

namespace mobius {

constexpr std::int64_t ignored_label = -100;  // counts neither in losses nor in gradients

/// The labels of a batch that are not ignored, and where they stand. They are checked and counted
/// on the host when this is made, so that nothing that uses them later has to read them back from
/// a device.
class Labels {
 public:
  Labels() = default;
  /// `labels` is i32 or i64, of any shape; `scored`, where defined, is u8, of the same shape: 1
  /// where a prediction counts in the accuracy, elsewhere wherever there is a label. What is not in
  /// host memory is read. Throws Error, naming `what`, where a label is neither ignored nor in
  /// [0, n_classes).
  Labels(std::string_view what, const Tensor& labels, std::int64_t n_classes,
         const Tensor& scored = {});

  /// These labels themselves where they lie on that device already.
  Labels to(Device device) const;

  /// Number of labels that count, L.
  std::int64_t count() const { return values_.numel(); }
  /// Number of them whose predictions count in the accuracy.
  std::int64_t n_scored() const { return n_scored_; }
  std::int64_t n_classes() const { return n_classes_; }
  Device device() const { return values_.device(); }
  /// [L]: where in the flattened labels each one stands, ascending.
  const RowIndex& positions() const { return positions_; }
  /// [L] i64.
  const Tensor& values() const { return values_; }
  /// [L] u8: 1 where the prediction counts in the accuracy.
  const Tensor& scored() const { return scored_; }

 private:
  RowIndex positions_;
  Tensor values_;
  Tensor scored_;
  std::int64_t n_scored_ = 0;
  std::int64_t n_classes_ = 0;
};

}  // namespace mobius
