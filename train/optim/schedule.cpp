#include "train/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/options/schema.h"

namespace mobius {

void ScheduleOptions::describe(Schema& schema) {
  schema.choice(
      "kind", kind,
      {{"constant", Decay::constant}, {"linear", Decay::linear}, {"cosine", Decay::cosine}},
      "how the learning rate decays after the warm-up");
  schema.field("warmup_steps", warmup_steps, "steps of linear warm-up").non_negative();
  schema
      .field("min_lr_ratio", min_lr_ratio, "learning rate of the last step, as a share of the peak")
      .at_least(0)
      .at_most(1)
      .only_if([this] { return kind != Decay::constant; }, "kind: linear or cosine");
}

double learning_rate(const ScheduleOptions& schedule, double peak, std::int64_t step,
                     std::int64_t max_steps) {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(schedule.warmup_steps);
  if (step < schedule.warmup_steps) return peak * (at + 1) / warmup;
  const double room = static_cast<double>(max_steps - 1) - warmup;
  if (schedule.kind == Decay::constant || room <= 0) return peak;

  const double progress = std::min((at - warmup) / room, 1.0);
  const double share_left = schedule.kind == Decay::linear
                                ? 1 - progress
                                : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return peak * (schedule.min_lr_ratio + (1 - schedule.min_lr_ratio) * share_left);
}

}  // namespace mobius
