// Learning-rate schedules (docs/MATH.md, section 5).
#pragma once

#include <cstdint>

namespace mobius {

class Schema;

enum class Decay { constant, linear, cosine };

/// The section `schedule` of a configuration.
struct ScheduleOptions {
  Decay kind = Decay::cosine;
  std::int64_t warmup_steps = 0;
  double min_lr_ratio = 0;  ///< of the peak learning rate, reached at the last step

  void describe(Schema& schema);
};

/// The learning rate of step `step` = 0, ..., max_steps - 1: peak * (step + 1) / warmup_steps while
/// step < warmup_steps, then from the peak down to min_lr_ratio * peak at step max_steps - 1. If
/// the warm-up leaves no step to decay in, the rate stays at the peak.
double learning_rate(const ScheduleOptions& schedule, double peak, std::int64_t step,
                     std::int64_t max_steps);

}  // namespace mobius
