// Associative recall with every variant of attention.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "train/optim/finite.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/recall/by_distance.h"
#include "train/studies/recall/variants.h"
#include "train/studies/small_training.h"

namespace mobius {

namespace {

constexpr double recalled = 0.99;
constexpr std::int64_t distance_width = 8;

struct RecallRun {
  RecallVariant variant;
  SmallTraining training;
  std::vector<DistanceScore> by_distance;  // on the longer sequences
  bool has_diverged = false;

  double accuracy() const {
    return training.tests.empty() ? 0 : training.tests.back().score.accuracy();
  }
  double longer_accuracy() const {
    return accuracy_between(0, std::numeric_limits<std::int64_t>::max());
  }
  /// The accuracy at distances from `from` to `to` - 1, on the longer sequences.
  double accuracy_between(std::int64_t from, std::int64_t to) const {
    DistanceScore all{from, to};
    for (const DistanceScore& score : by_distance) {
      if (score.from < from || score.to > to) continue;
      all.n_correct += score.n_correct;
      all.n_scored += score.n_scored;
    }
    return all.accuracy();
  }
  std::optional<std::int64_t> steps_to_recall() const {
    for (const auto& [step, score] : training.tests)
      if (score.accuracy() >= recalled) return step;
    return {};
  }
};

class RecallStudy final : public Study {
 public:
  RecallSettings settings;

  std::string name() const override { return "e7_recall"; }
  std::string question() const override {
    return "Which variants of attention learn associative recall, how soon, at what cost, and over "
           "which distances?";
  }
  void describe(Schema& schema) override { settings.describe(schema); }
  StudyResult run(const StudyContext& context) const override;

 private:
  RecallRun train(const RecallVariant& variant, std::uint64_t seed, const Batch& longer,
                  const std::function<void(std::int64_t)>& before_step) const;
  void tell_learning(const std::vector<RecallRun>& runs, StudyResult& result) const;
  void tell_distances(const std::vector<RecallRun>& runs, StudyResult& result) const;
};

// A diverged training keeps no points.
RecallRun RecallStudy::train(const RecallVariant& variant, std::uint64_t seed, const Batch& longer,
                             const std::function<void(std::int64_t)>& before_step) const {
  const Registries known;
  const std::unique_ptr<Config> config =
      config_of(recall_config(settings, variant, settings.seq_len, seed), variant.name, known);
  RecallRun run{.variant = variant, .training = {}, .by_distance = {}};
  try {
    run.training = train_in_memory(*config, before_step);
    run.by_distance = recall_by_distance(*run.training.experiment.model, longer, distance_width);
    run.training.experiment = {};  // the memory is needed no longer
  } catch (const TrainingDiverged&) {
    run.has_diverged = true;
  }
  return run;
}

const RecallRun* find_run(const std::vector<RecallRun>& runs, std::string_view name) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const RecallRun& run) {
    return run.variant.name == name && !run.has_diverged;
  });
  return found == runs.end() ? nullptr : &*found;
}

void show_table(const std::vector<RecallRun>& runs, StudyResult& result) {
  StudyTable table{.title = "Associative recall by variant",
                   .columns = {"variant", "accuracy", "steps to 99 %", "ms a step",
                               "time a step / softmax", "accuracy on longer sequences",
                               "numbers a head keeps after 64 tokens", "after 65 536"}};
  const RecallRun* softmax = find_run(runs, "softmax");
  for (const RecallRun& run : runs) {
    if (run.has_diverged) {
      table.rows.push_back({run.variant.name, "diverged", "", "", "", "", "", ""});
      continue;
    }
    const auto steps = run.steps_to_recall();
    const double seconds = run.training.seconds_per_step;
    table.rows.push_back({run.variant.name, run.accuracy(),
                          steps ? Cell(static_cast<double>(*steps)) : Cell("not reached"),
                          1000 * seconds,
                          softmax ? Cell(seconds / softmax->training.seconds_per_step) : Cell(""),
                          run.longer_accuracy(), run.variant.state(64), run.variant.state(65536)});
  }
  result.tables.push_back(std::move(table));
}

// Accuracy against steps, and against the distance.
void show_curves(const std::vector<RecallRun>& runs, StudyResult& result) {
  Figure learning{.name = "learning",
                  .title = "Accuracy while training",
                  .x_label = "step",
                  .y_label = "accuracy on test sequences"};
  Figure distances{.name = "distances",
                   .title = "Accuracy by the distance to the key, on longer sequences",
                   .x_label = "distance (tokens)",
                   .y_label = "accuracy"};
  for (const RecallRun& run : runs) {
    Series curve{run.variant.name}, by_distance{run.variant.name};
    for (const auto& [step, score] : run.training.tests) {
      curve.x.push_back(static_cast<double>(step));
      curve.y.push_back(score.accuracy());
    }
    for (const DistanceScore& score : run.by_distance) {
      by_distance.x.push_back(static_cast<double>(score.from + score.to - 1) / 2);
      by_distance.y.push_back(score.accuracy());
    }
    learning.series.push_back(std::move(curve));
    distances.series.push_back(std::move(by_distance));
  }
  result.figures.push_back(std::move(learning));
  result.figures.push_back(std::move(distances));
}

// Who learned, and when.
void RecallStudy::tell_learning(const std::vector<RecallRun>& runs, StudyResult& result) const {
  std::string learned, others;
  for (const RecallRun& run : runs) {
    const auto steps = run.steps_to_recall();
    std::string& list = steps ? learned : others;
    list += list.empty() ? "" : ", ";
    list += steps              ? fmt::format("{} after {} steps", run.variant.name, *steps)
            : run.has_diverged ? fmt::format("{} diverges", run.variant.name)
                               : fmt::format("{} {:.1f} %", run.variant.name, 100 * run.accuracy());
  }
  result.findings.push_back(fmt::format(
      "These reach 99 % accuracy on {} pairs in {} tokens: {}. After {} steps, the "
      "others have: {}. Guessing among the values of the sequence gives {:.1f} %.",
      settings.n_pairs, settings.seq_len, learned.empty() ? "none" : learned, settings.max_steps,
      others.empty() ? "none" : others, 100.0 / static_cast<double>(settings.n_pairs)));
  const RecallRun *softmax = find_run(runs, "softmax"),
                  *conformal = find_run(runs, "conformal_analytic");
  if (!softmax || !conformal) return;
  const auto ours = conformal->steps_to_recall(), theirs = softmax->steps_to_recall();
  const auto words = [](const std::optional<std::int64_t>& steps) {
    return steps ? fmt::format("{} steps", *steps) : std::string("not reached");
  };
  result.claims.push_back({"Conformal attention learns recall in as few steps as softmax",
                           fmt::format("{}, and softmax {}", words(ours), words(theirs)),
                           ours && (!theirs || *ours <= *theirs)});
}

// What the far field adds to the window. Two layers of a window reach keys less than 2 windows
// back.
void RecallStudy::tell_distances(const std::vector<RecallRun>& runs, StudyResult& result) const {
  const RecallRun *far = find_run(runs, "hierarchical_degree_1"),
                  *local = find_run(runs, "sparse_local"),
                  *exact = find_run(runs, "conformal_analytic");
  if (!far || !local || !exact) return;
  const auto percent = [&](const RecallRun& run, std::int64_t from, std::int64_t to) {
    return 100 * run.accuracy_between(from, to);
  };
  const std::int64_t reach = 2 * settings.window;
  result.findings.push_back(fmt::format(
      "On sequences of {} tokens, keys less than {} tokens back are recalled in {:.0f} % of the "
      "cases by hierarchical attention with the degrees 0 and 1 of the far field, {:.0f} % by the "
      "same window alone and {:.0f} % by exact conformal attention; keys farther back in {:.0f} %, "
      "{:.0f} % and {:.0f} %.",
      settings.longer_seq_len, reach, percent(*far, 0, reach), percent(*local, 0, reach),
      percent(*exact, 0, reach), percent(*far, reach, settings.longer_seq_len + distance_width),
      percent(*local, reach, settings.longer_seq_len + distance_width),
      percent(*exact, reach, settings.longer_seq_len + distance_width)));
  const double beyond = percent(*far, reach, settings.longer_seq_len + distance_width);
  result.claims.push_back(
      {"The far field recalls keys beyond the reach of two windows in at least half of the cases",
       fmt::format("{:.0f} %", beyond), beyond >= 50});
}

StudyResult RecallStudy::run(const StudyContext& context) const {
  const Registries known;
  const std::vector<RecallVariant> all = recall_variants(settings);
  const Batch longer =
      config_of(recall_config(settings, all.front(), settings.longer_seq_len, context.seed), name(),
                known)
          ->task->build(context.seed)
          ->batch(Split::test, 0, 256);
  const auto n_steps = static_cast<std::int64_t>(all.size()) * settings.max_steps;
  std::vector<RecallRun> runs;
  for (const RecallVariant& variant : all) {
    const auto first = static_cast<std::int64_t>(runs.size()) * settings.max_steps;
    runs.push_back(train(variant, context.seed, longer, [&](std::int64_t step) {
      context.progress(variant.name, first + step, n_steps);
    }));
  }
  StudyResult result;
  show_table(runs, result);
  show_curves(runs, result);
  tell_learning(runs, result);
  tell_distances(runs, result);
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e7_recall() { return std::make_unique<RecallStudy>(); }

}  // namespace mobius
