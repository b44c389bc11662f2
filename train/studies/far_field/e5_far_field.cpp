// What each kind of far field loses against exact conformal attention, on random keys, on clusters,
// and on what trained models give their heads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/far_field/methods.h"
#include "train/studies/far_field/samples.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace e5_far_field {
namespace {

// A far field under comparison: how it is made for a sample.
struct Method {
  std::string name;
  std::function<std::unique_ptr<FarField>(const HeadSample& sample)> make;
  bool has_landmarks = true;
};

// What is found on one sample.
struct Outcome {
  std::string sample;
  std::vector<FarError> errors;  // of the window alone, then of each method
  // Errors that no d + 1 features undercut: on these very keys, and if they are fixed in advance,
  // on uniform keys and on keys of other sequences like this one.
  double least = 0, least_fixed = 0, least_pooled = 0;
};

// Places in Outcome::errors.
constexpr std::size_t of_window = 0, of_degree_1 = 2, of_random = 4, of_k_means = 6, of_learned = 7;

class FarFieldStudy final : public Study {
 public:
  std::string name() const override { return "e5_far_field"; }
  std::string question() const override {
    return "How far is attention with a far field from exact conformal attention, and which "
           "features come closest at equal cost?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  std::int64_t n_ = 512, d_ = 64, window_ = 64;
  std::vector<double> alphas_ = {1, 3, 6};
  std::int64_t n_clusters_ = 32;
  double spread_ = 0.5;
  std::int64_t n_landmarks_ = 48;
  double r_far_ = 0.5, ridge_ = 1e-3;
  std::int64_t learning_steps_ = 40;
  std::vector<std::int64_t> windows_ = {16, 32, 64, 128, 256};
  std::vector<std::int64_t> ranks_ = {8, 16, 32, 64, 128};
  std::vector<std::int64_t> dims_ = {8, 16, 32, 64, 128};
  std::vector<double> radii_ = {0.03, 0.06, 0.1, 0.2, 0.3, 0.5};
  double target_ = 0.05;
  std::string text_ = "runs/bible.txt";
  std::int64_t text_steps_ = 400, recall_steps_ = 1200, recall_window_ = 8;

  ConformalKernel kernel(std::int64_t d) const {
    return conformal_kernel(ConformalWeight::newton, d);
  }
  std::vector<Method> methods(std::uint64_t seed) const;
  std::vector<HeadSample> made_samples(std::uint64_t seed) const;
  std::vector<HeadSample> text_samples(const StudyContext& context,
                                       std::vector<std::string>& words) const;
  std::vector<HeadSample> recall_samples(const StudyContext& context,
                                         std::vector<std::string>& words) const;
  Outcome compare(const HeadSample& sample, const std::vector<Method>& methods,
                  std::int64_t window) const;
  StudyTable table_of(const std::vector<Outcome>& outcomes, const std::vector<Method>& methods,
                      double FarError::*error, const std::string& what) const;
  StudyTable costs(const std::vector<Method>& methods, std::uint64_t seed) const;
  Figure by_window(std::uint64_t seed) const;
  Figure by_rank(std::uint64_t seed) const;
  Figure by_radius(std::uint64_t seed) const;
  Figure by_dimension(std::uint64_t seed) const;
  std::vector<Claim> claims(const std::vector<Outcome>& outcomes,
                            const std::vector<Outcome>& of_text,
                            const std::vector<Outcome>& of_recall) const;
};

void FarFieldStudy::describe(Schema& schema) {
  schema.field("n", n_, "positions of a sequence").at_least(64).at_most(4096);
  schema.field("d", d_, "dimension of a head").at_least(8).at_most(256);
  schema.field("window", window_, "newest keys, which are exact").positive().at_most(1024);
  schema.field("alphas", alphas_, "inverse temperatures per |q| / sqrt(d) of random queries")
      .positive();
  schema.field("n_clusters", n_clusters_, "clusters of the clustered keys").positive();
  schema.field("spread", spread_, "|noise| / |centre| of a clustered key").positive();
  schema.field("n_landmarks", n_landmarks_, "landmarks of a method").positive().at_most(512);
  schema.field("r_far", r_far_, "radius of landmarks that are not fitted").above(0).below(1);
  schema.field("ridge", ridge_, "of the landmarks").positive();
  schema.field("learning_steps", learning_steps_, "of the learned landmarks").positive();
  schema.field("windows", windows_, "windows of a figure").positive().at_most(1024);
  schema.field("ranks", ranks_, "numbers of landmarks of a figure").positive().at_most(512);
  schema.field("dims", dims_, "dimensions of a figure").at_least(8).at_most(256);
  schema.field("radii", radii_, "values of r_far of a figure").above(0).below(1);
  schema.field("target", target_, "error that a far field should stay below").above(0).below(1);
  schema.field("text", text_, "text to train on; scripts/bible_text.sh writes the default");
  schema.field("text_steps", text_steps_, "training steps on the text").positive();
  schema.field("recall_steps", recall_steps_, "training steps on recall, at most").positive();
  schema.field("recall_window", recall_window_, "window on the short sequences of recall")
      .positive()
      .at_most(32);
  require_some(schema, "alphas", alphas_);
  require_some(schema, "windows", windows_);
  require_some(schema, "ranks", ranks_);
  require_some(schema, "dims", dims_);
  require_some(schema, "radii", radii_);
}

// Landmarks are fitted to the keys of another sequence, with a radius that nine queries in ten stay
// below.
std::vector<Method> FarFieldStudy::methods(std::uint64_t seed) const {
  const auto fitted = [](const HeadSample& sample) { return radius_quantile(sample, 0.9); };
  const auto kernel_of = [this](const HeadSample& sample) { return kernel(sample.q.size(3)); };
  const auto random = [this, seed](const HeadSample& sample) {
    return random_sample(n_landmarks_, sample.q.size(3), 1, seed + 7).k;
  };
  const auto centres = [this, seed](const HeadSample& sample, std::int64_t m) {
    return cluster_centres(sample.other_k, m, /*n_rounds=*/10, seed);
  };
  const auto basis = [=, this](const HeadSample& sample, const Tensor& landmarks, double r_far) {
    return std::make_unique<LandmarkBasis>(Variable(landmarks), kernel_of(sample), r_far, ridge_);
  };
  std::vector<Method> methods;
  for (const std::int64_t degree : {0, 1, 2}) {
    const char* names[] = {"degree 0", "degrees 0, 1", "degrees 0, 1, 2"};
    methods.push_back({.name = names[degree],
                       .make =
                           [=](const HeadSample& sample) {
                             return std::make_unique<DegreeBasis>(kernel_of(sample), degree);
                           },
                       .has_landmarks = false});
  }
  methods.push_back({.name = "random landmarks", .make = [=, this](const HeadSample& sample) {
                       return basis(sample, random(sample), r_far_);
                     }});
  methods.push_back({.name = "random, r_far fitted", .make = [=](const HeadSample& sample) {
                       return basis(sample, random(sample), fitted(sample));
                     }});
  methods.push_back({.name = "k-means, r_far fitted", .make = [=, this](const HeadSample& sample) {
                       return basis(sample, centres(sample, n_landmarks_), fitted(sample));
                     }});
  methods.push_back({.name = "learned, r_far fitted", .make = [=, this](const HeadSample& sample) {
                       const Tensor start = centres(sample, n_landmarks_);
                       return basis(sample,
                                    learned_landmarks(sample, kernel_of(sample), start,
                                                      fitted(sample), ridge_, learning_steps_),
                                    fitted(sample));
                     }});
  methods.push_back(
      {.name = "degrees 0, 1 and k-means", .make = [=, this](const HeadSample& sample) {
         return control_variates(kernel_of(sample), centres(sample, n_landmarks_ / 3),
                                 fitted(sample), ridge_);
       }});
  methods.push_back({.name = "degrees 0, 1 and leading 2",
                     .make =
                         [=](const HeadSample& sample) {
                           return leading_quadrupole(kernel_of(sample), sample.other_k, 5);
                         },
                     .has_landmarks = false});
  return methods;
}

std::vector<HeadSample> FarFieldStudy::made_samples(std::uint64_t seed) const {
  std::vector<HeadSample> samples;
  for (const double alpha : alphas_) samples.push_back(random_sample(n_, d_, alpha, seed));
  for (const double alpha : {alphas_.front(), alphas_.back()})
    samples.push_back(clustered_sample(n_, d_, alpha, n_clusters_, spread_, seed));
  return samples;
}

std::vector<HeadSample> FarFieldStudy::text_samples(const StudyContext& context,
                                                    std::vector<std::string>& words) const {
  const std::string yaml = fmt::format(R"(
task: {{name: lm, text: "{}", tokenizer: char, seq_len: {}, n_test: 16}}
model: {{d_model: {}, n_layers: 2, n_heads: 2, positions: rope, bias: false, init_std: 0.08}}
optimizer: {{name: adamw, lr: 1.0e-03, betas: [0.9, 0.99]}}
schedule: {{kind: cosine, warmup_steps: 50, min_lr_ratio: 0.1}}
train: {{max_steps: {}, batch_size: 4, seed: {}}}
eval: {{every: 0}})",
                                       text_, n_, 2 * d_, text_steps_, context.seed);
  return trained_samples(
      "text", yaml, /*alpha=*/1, /*n_others=*/1,
      [&](std::int64_t step) { context.progress("training on text", step, text_steps_); }, words);
}

// Sequences as short as those of `make demo`, which a small model learns in seconds.
std::vector<HeadSample> FarFieldStudy::recall_samples(const StudyContext& context,
                                                      std::vector<std::string>& words) const {
  const std::string yaml = fmt::format(R"(
task: {{name: mqar, vocab: 64, seq_len: 48, n_pairs: 8, filler: random_unused, n_test: 256}}
model: {{d_model: {}, n_layers: 2, n_heads: 1, positions: rope, init_std: 0.1}}
optimizer: {{name: adamw, lr: 5.0e-03, betas: [0.9, 0.99], weight_decay: 0.01}}
schedule: {{kind: cosine, warmup_steps: 50}}
train: {{max_steps: {}, batch_size: 64, seed: {}, early_stop: {{metric: accuracy, threshold: 0.99}}}}
eval: {{every: 50}})",
                                       d_, recall_steps_, context.seed);
  return trained_samples(
      "recall", yaml, /*alpha=*/4, /*n_others=*/24,
      [&](std::int64_t step) { context.progress("training on recall", step, recall_steps_); },
      words);
}

Outcome FarFieldStudy::compare(const HeadSample& sample, const std::vector<Method>& methods,
                               std::int64_t window) const {
  const ConformalKernel k = kernel(sample.q.size(3));
  Outcome outcome{.sample = sample.name, .errors = {error_of_window(sample, k, window)}};
  for (const Method& method : methods)
    outcome.errors.push_back(error_of(*method.make(sample), sample, k, window));
  outcome.least = least_weights_error(sample, k, window, k.d + 1);
  outcome.least_fixed = least_fixed_error(sample, k, outcome.errors[of_window].weights, k.d + 1);
  outcome.least_pooled = least_pooled_error(sample, k, k.d + 1);
  return outcome;
}

StudyTable FarFieldStudy::table_of(const std::vector<Outcome>& outcomes,
                                   const std::vector<Method>& methods, double FarError::*error,
                                   const std::string& what) const {
  StudyTable table{.title = what, .columns = {"keys", "no far field"}};
  for (const Method& method : methods) table.columns.push_back(method.name);
  const bool has_bound = error == &FarError::weights;
  if (has_bound) {
    table.columns.push_back("bound for d + 1 features");
    table.columns.push_back("bound if fixed in advance, uniform keys");
    table.columns.push_back("kernel alone: bound if fixed in advance, such keys");
  }
  for (const Outcome& outcome : outcomes) {
    std::vector<Cell> row{outcome.sample};
    for (const FarError& of : outcome.errors) row.emplace_back(of.*error);
    if (has_bound)
      row.insert(row.end(), {outcome.least, outcome.least_fixed, outcome.least_pooled});
    table.rows.push_back(std::move(row));
  }
  return table;
}

// Operations of a query relative to exact attention in the window alone.
StudyTable FarFieldStudy::costs(const std::vector<Method>& methods, std::uint64_t seed) const {
  StudyTable table{
      .title = fmt::format("Cost of a query, forward, at d = {} and a window of {}", d_, window_),
      .columns = {"far field", "features", "operations relative to the window alone"}};
  const HeadSample sample = random_sample(n_, d_, 1, seed);
  for (const Method& method : methods) {
    const auto far_field = method.make(sample);
    table.rows.push_back({method.name, static_cast<double>(far_field->n_features()),
                          cost_of(*far_field, method.has_landmarks, d_, window_)});
  }
  return table;
}

// ---- figures: random keys, the middle alpha

Figure figure_of(const std::string& name, const std::string& title, const std::string& x_label) {
  return {.name = name,
          .title = title,
          .x_label = x_label,
          .y_label = "relative error of the output",
          .x_axis = Axis::logarithmic,
          .y_axis = Axis::logarithmic};
}

Figure FarFieldStudy::by_window(std::uint64_t seed) const {
  Figure figure = figure_of(
      "window", fmt::format("Error against the window, random keys, d = {}", d_), "window");
  for (const double alpha : alphas_) {
    const HeadSample sample = random_sample(n_, d_, alpha, seed);
    Series with{.name = fmt::format("degrees 0, 1, alpha {}", short_number(alpha))},
        without{.name = fmt::format("no far field, alpha {}", short_number(alpha))};
    for (const std::int64_t window : windows_) {
      const auto x = static_cast<double>(window);
      with.x.push_back(x);
      without.x.push_back(x);
      with.y.push_back(error_of(DegreeBasis(kernel(d_), 1), sample, kernel(d_), window).output);
      without.y.push_back(error_of_window(sample, kernel(d_), window).output);
    }
    figure.series.push_back(std::move(with));
    figure.series.push_back(std::move(without));
  }
  return figure;
}

Figure FarFieldStudy::by_rank(std::uint64_t seed) const {
  Figure figure = figure_of(
      "rank", fmt::format("Error against the number of landmarks, random keys, d = {}", d_),
      "landmarks");
  for (const double alpha : alphas_) {
    const HeadSample sample = random_sample(n_, d_, alpha, seed);
    const double r_far = radius_quantile(sample, 0.9);
    Series fitted{.name = fmt::format("k-means, r_far fitted, alpha {}", short_number(alpha))},
        bound{.name = fmt::format("bound for any features, alpha {}", short_number(alpha))};
    for (const std::int64_t m : ranks_) {
      const LandmarkBasis basis(Variable(cluster_centres(sample.other_k, m, 10, seed)), kernel(d_),
                                r_far, ridge_);
      fitted.x.push_back(static_cast<double>(m));
      fitted.y.push_back(error_of(basis, sample, kernel(d_), window_).output);
      bound.x.push_back(static_cast<double>(m));
      bound.y.push_back(least_weights_error(sample, kernel(d_), window_, m));
    }
    figure.series.push_back(std::move(fitted));
    figure.series.push_back(std::move(bound));
  }
  return figure;
}

Figure FarFieldStudy::by_radius(std::uint64_t seed) const {
  Figure figure = figure_of(
      "radius", fmt::format("Error against r_far, {} random landmarks, d = {}", n_landmarks_, d_),
      "r_far");
  for (const double alpha : alphas_) {
    const HeadSample sample = random_sample(n_, d_, alpha, seed);
    const Tensor landmarks = random_sample(n_landmarks_, d_, 1, seed + 7).k;
    Series series{.name = fmt::format("alpha {}", short_number(alpha))};
    for (const double r_far : radii_) {
      series.x.push_back(r_far);
      series.y.push_back(error_of(LandmarkBasis(Variable(landmarks), kernel(d_), r_far, ridge_),
                                  sample, kernel(d_), window_)
                             .output);
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

Figure FarFieldStudy::by_dimension(std::uint64_t seed) const {
  Figure figure = figure_of("dimension", "Error against the dimension of a head, random keys",
                            "dimension of a head");
  for (const double alpha : alphas_) {
    for (const std::int64_t degree : {1, 2}) {
      Series series{.name = fmt::format("degrees up to {}, alpha {}", degree, short_number(alpha))};
      for (const std::int64_t d : dims_) {
        if (degree == 2 && d > d_) continue;  // d^2 / 2 features
        series.x.push_back(static_cast<double>(d));
        series.y.push_back(error_of(DegreeBasis(kernel(d), degree),
                                    random_sample(n_, d, alpha, seed), kernel(d), window_)
                               .output);
      }
      figure.series.push_back(std::move(series));
    }
  }
  return figure;
}

// ---- words

std::string finding_of(const Outcome& outcome) {
  const auto error = [&](std::size_t i) { return outcome.errors[i].output; };
  return fmt::format(
      "{}: degrees 0 and 1 miss the exact output by {:.3g}; landmarks by {:.3g} (random, r_far as "
      "given), {:.3g} (k-means, r_far fitted) or {:.3g} (learned, r_far fitted); no far field at "
      "all by {:.3g}.",
      outcome.sample, error(of_degree_1), error(of_random), error(of_k_means), error(of_learned),
      error(of_window));
}

double worst_of(const std::vector<Outcome>& outcomes, std::size_t method) {
  double worst = 0;
  for (const Outcome& outcome : outcomes) worst = std::max(worst, outcome.errors[method].output);
  return worst;
}

// The samples on which degrees 0 and 1 do more harm than leaving far keys out.
std::string where_harmful(const std::vector<Outcome>& outcomes) {
  std::string names;
  for (const Outcome& outcome : outcomes) {
    const double with = outcome.errors[of_degree_1].output,
                 without = outcome.errors[of_window].output;
    if (with > without)
      names += fmt::format("{}{} ({:.3g} against {:.3g})", names.empty() ? "" : ", ",
                           outcome.sample, with, without);
  }
  return names;
}

std::vector<Claim> FarFieldStudy::claims(const std::vector<Outcome>& outcomes,
                                         const std::vector<Outcome>& of_text,
                                         const std::vector<Outcome>& of_recall) const {
  const Outcome& sharpest = outcomes[alphas_.size() - 1];
  const double reached = sharpest.errors[of_degree_1].weights / sharpest.least_fixed;
  const std::string harmful = where_harmful(outcomes);
  const double worst_text = worst_of(of_text, of_degree_1);
  const double worst_recall = std::ranges::max(of_recall, {}, &Outcome::least_pooled).least_pooled;
  return {
      {.statement = fmt::format("On the heads of a model trained on text, degrees 0 and 1 stay "
                                "below an error of {}",
                                short_number(target_)),
       .measured = fmt::format("the largest error of a head is {:.3g}", worst_text),
       .holds = worst_text < target_},
      {.statement =
           fmt::format("On {} keys, degrees 0 and 1 come within a tenth of the least error "
                       "of weights that d + 1 features fixed in advance can have",
                       sharpest.sample),
       .measured = fmt::format("their error is {:.3g}, {:.3f} times the least",
                               sharpest.errors[of_degree_1].weights, reached),
       .holds = reached < 1.1},
      {.statement =
           fmt::format("Some d + 1 features, fixed in advance, bring the kernel between the "
                       "queries and keys of a model trained on recall below an error of {}",
                       short_number(target_)),
       .measured = fmt::format("in the sharpest head none leave less than {:.3g}", worst_recall),
       .holds = worst_recall < target_},
      {.statement = "Degrees 0 and 1 are on no keys worse than leaving far keys out",
       .measured = harmful.empty() ? "they are better on all keys tried" : "worse on " + harmful,
       .holds = harmful.empty()}};
}

StudyResult FarFieldStudy::run(const StudyContext& context) const {
  StudyResult result;
  const std::vector<HeadSample> text = text_samples(context, result.findings),
                                recall = recall_samples(context, result.findings);
  const std::vector<Method> all = methods(context.seed);
  std::vector<Outcome> outcomes, of_text, of_recall;
  const std::vector<HeadSample> made = made_samples(context.seed);
  const auto n_parts = static_cast<std::int64_t>(made.size() + text.size() + recall.size() + 4);
  std::int64_t part = 0;
  const auto look_at = [&](const HeadSample& sample, std::int64_t window) {
    context.progress(sample.name, part++, n_parts);
    outcomes.push_back(compare(sample, all, window));
    result.findings.push_back(finding_of(outcomes.back()));
  };
  for (const HeadSample& sample : made) look_at(sample, window_);
  for (const HeadSample& sample : text) {
    look_at(sample, window_);
    of_text.push_back(outcomes.back());
  }
  for (const HeadSample& sample : recall) {
    look_at(sample, recall_window_);
    of_recall.push_back(outcomes.back());
  }

  result.tables = {table_of(outcomes, all, &FarError::output, "Relative error of the output"),
                   table_of(outcomes, all, &FarError::query,
                            "Relative error of a position's output, mean over the positions"),
                   table_of(outcomes, all, &FarError::weights, "Relative error of the weights"),
                   costs(all, context.seed)};
  for (const auto draw : {&FarFieldStudy::by_window, &FarFieldStudy::by_rank,
                          &FarFieldStudy::by_radius, &FarFieldStudy::by_dimension}) {
    context.progress("figures", part++, n_parts);
    result.figures.push_back((this->*draw)(context.seed));
  }
  result.claims = claims(outcomes, of_text, of_recall);
  return result;
}

}  // namespace
}  // namespace e5_far_field

std::unique_ptr<Study> make_e5_far_field() {
  return std::make_unique<e5_far_field::FarFieldStudy>();
}

}  // namespace mobius
