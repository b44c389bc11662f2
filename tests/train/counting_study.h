// A study that takes as long as a test wants.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "train/studies/study.h"

namespace mobius {

/// Counts to `n_parts`, and waits in each part. Its result has everything a result may have. It
/// fails if the environment has COUNTING_FAILURE.
class CountingStudy final : public Study {
 public:
  std::int64_t n_parts = 3;
  std::int64_t part_ms = 0;
  std::vector<double> heights = {1, 2};
  bool is_broken = false;

  std::string name() const override { return "counting"; }
  std::string question() const override { return "How far does one get?"; }
  void describe(Schema& schema) override {
    schema.field("n_parts", n_parts, "how far to count").positive();
    schema.field("part_ms", part_ms, "time that a part waits").non_negative();
    schema.field("heights", heights, "of the curve").positive();
    schema.field("is_broken", is_broken, "whether the result is incomplete");
  }
  StudyResult run(const StudyContext& context) const override {
    for (std::int64_t i = 0; i < n_parts; ++i) {
      context.progress("number " + std::to_string(i), i, n_parts);
      std::this_thread::sleep_for(std::chrono::milliseconds(part_ms));
    }
    if (std::getenv("COUNTING_FAILURE") != nullptr) throw Error("cannot count");
    Rng rng({context.seed, stream_id("counting")});
    const double drawn = rng.uniform();
    StudyResult result;
    result.findings = {"One gets to " + std::to_string(n_parts) + "."};
    result.claims = {{"One gets to 3", std::to_string(n_parts), n_parts == 3},
                     {"0 < 1 | yes", "yes", true}};
    result.tables = {{"Numbers <b>", {"name", "value"}, {{"drawn", drawn}, {"none", NAN}}}};
    result.figures = {{.name = "curve",
                       .title = "Heights & more",
                       .x_label = "number",
                       .y_label = "height",
                       .series = {{"heights", {1, 2, 3}, {heights.at(0), INFINITY, drawn}}}}};
    if (is_broken) result.figures[0].series[0].x.pop_back();
    return result;
  }
};

inline Registry<Study> registry_with_counting_study() {
  Registry<Study> studies;
  add_study<CountingStudy>(studies);
  return studies;
}

}  // namespace mobius
