// Retrieval of a planted key: one of n random keys matches the query, and its value is wanted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/rng.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax_naive.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

// The weights of one query over all keys, [1, 1, 1, n].
using WeightsOf = std::function<Variable(const HeadInputs&)>;

struct RetrievalKind {
  std::string label;
  WeightsOf weights;
};

// The query is the last of n positions. Keys have the length sqrt(d), values the length 1.
struct RetrievalTrial {
  Tensor query_direction, k, v;  // [1, d], [n, d], [n, d_v]
  std::int64_t planted;
};

// What the weights of one trial give, or several trials together.
struct Retrieval {
  double share = 0;  // of the planted key in the sum of all weights by size; the median
  double error = 0;  // |out - planted value|; the median
  double right = 0;  // how often no value is nearer to the direction of the output
};

// The retrievals of every kind, by the place of the kind, at one setting.
struct RetrievalSetting {
  std::int64_t n = 0;
  double beta = 0;
  std::vector<Retrieval> of_kind = {};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  // What is not a number is no answer, and counts as the worst.
  std::nth_element(values.begin(), middle, values.end(),
                   [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); });
  return *middle;
}

class RetrievalStudy final : public Study {
 public:
  std::int64_t d = 64, d_v = 32;
  std::vector<std::int64_t> n_keys = {64, 256, 1024, 4096, 16384};
  std::vector<double> betas = {2, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256};
  std::int64_t compared_n_keys = 4096;
  double compared_beta = 12;
  double cosine = 0.9;
  std::int64_t n_trials = 15;
  std::int64_t n_features = 256, window = 64, stride = 64, topk = 32, n_landmarks = 48;
  double r_far = 0.2, ridge = 1e-3;

  std::string name() const override { return "e6b_retrieval"; }
  std::string question() const override {
    return "Which kind of attention finds one matching key among n random ones, and gives its "
           "value back?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  using Settings = std::vector<RetrievalSetting>;

  std::vector<RetrievalKind> kinds(std::uint64_t seed) const;
  void add_conformal(std::vector<RetrievalKind>& kinds, std::uint64_t seed) const;
  RetrievalTrial trial(std::int64_t n, std::int64_t index, std::uint64_t seed) const;
  Retrieval retrieve(const RetrievalKind& kind, const RetrievalTrial& trial, double beta) const;
  RetrievalSetting measure(const std::vector<RetrievalKind>& kinds, std::int64_t n, double beta,
                           std::uint64_t seed) const;

  void show(const std::vector<RetrievalKind>& kinds, const Settings& by_beta, const Settings& by_n,
            StudyResult& result) const;
  void judge_sharpness(const std::vector<RetrievalKind>& kinds, const Settings& settings,
                       StudyResult& result) const;
  void judge_keys(const std::vector<RetrievalKind>& kinds, const Settings& by_n,
                  StudyResult& result) const;
  void judge_analytic(const std::vector<RetrievalKind>& kinds, const Settings& settings,
                      StudyResult& result) const;
  void judge_equals(const std::vector<RetrievalKind>& kinds, const Settings& settings,
                    StudyResult& result) const;
};

void RetrievalStudy::describe(Schema& schema) {
  schema.field("d", d, "dimension of a head").at_least(3).at_most(1024);
  schema.field("d_v", d_v, "dimension of a value").at_least(2).at_most(1024);
  schema.field("n_keys", n_keys, "keys, where their number varies").at_least(2).at_most(1e6);
  schema.field("betas", betas, "inverse temperatures, where they vary").positive().at_most(1e6);
  schema.field("compared_n_keys", compared_n_keys, "keys, where beta varies")
      .at_least(2)
      .at_most(1e6);
  schema.field("compared_beta", compared_beta, "where the number of keys varies")
      .positive()
      .at_most(1e6);
  schema.field("cosine", cosine, "of the angle between the query and the planted key")
      .above(-1)
      .at_most(1);
  schema.field("n_trials", n_trials, "draws of keys, values and query").positive().at_most(1e5);
  schema.field("n_features", n_features, "of performer").positive().at_most(1e5);
  schema.field("window", window, "of sparse and hierarchical attention").positive().at_most(1e6);
  schema.field("stride", stride, "of strided sparse attention").positive().at_most(1e6);
  schema.field("topk", topk, "keys of topk sparse attention").positive().at_most(1e6);
  schema.field("n_landmarks", n_landmarks, "of hierarchical attention with landmarks")
      .positive()
      .at_most(1e4);
  schema.field("r_far", r_far, "largest radius of a query beyond the window, with landmarks")
      .positive()
      .below(1);
  schema.field("ridge", ridge, "on the landmarks' Gram matrix").positive();
  require_some(schema, "n_keys", n_keys);
  require_some(schema, "betas", betas);
}

// The inverse temperature of every kind is |q|: softmax divides the product of |q| and |k| =
// sqrt(d) by sqrt(d), and alpha = sqrt(d) makes that of conformal attention alpha |q| / sqrt(d).
void RetrievalStudy::add_conformal(std::vector<RetrievalKind>& kinds, std::uint64_t seed) const {
  const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, d);
  const Variable per_length(Tensor::full({1, 1, 1}, std::sqrt(static_cast<double>(d))));
  for (const auto& [name, divisor] : {std::pair{"none", ConformalNormalize::none},
                                      {"analytic", ConformalNormalize::analytic},
                                      {"empirical", ConformalNormalize::empirical}}) {
    kinds.push_back({fmt::format("conformal, {}", name), [=](const HeadInputs& in) {
                       return attention_weights(conformal_call(in, per_length, newton, divisor));
                     }});
  }
  const auto add = [&](const std::string& label, std::shared_ptr<const FarField> far) {
    kinds.push_back({label, [=, this](const HeadInputs& in) {
                       const BallPoints points = embed_in_ball(in.q, in.k, per_length, newton.s);
                       return attention_weights(hierarchical_call(
                           in, points, *far, newton, ConformalNormalize::analytic, window));
                     }});
  };
  const RngKey key{seed, stream_id("landmarks")};
  const Variable landmarks(random_normal({1, 1, n_landmarks, d}, 0, 1, key));
  add("hierarchical, degree 1", std::make_shared<DegreeBasis>(newton, 1));
  add("hierarchical, landmarks", std::make_shared<LandmarkBasis>(landmarks, newton, r_far, ridge));
}

std::vector<RetrievalKind> RetrievalStudy::kinds(std::uint64_t seed) const {
  std::vector<RetrievalKind> kinds = {
      {"softmax", [](const HeadInputs& in) { return attention_weights(softmax_call(in)); }},
      {"softmax_naive", [](const HeadInputs& in) { return softmax_naive_weights(in); }}};
  add_conformal(kinds, seed);
  kinds.push_back(
      {"linear", [](const HeadInputs& in) { return attention_weights(linear_call(in)); }});
  const RngKey key{seed, stream_id("performer")};
  kinds.push_back({"performer", [omega = orthogonal_gaussian(n_features, d, key, DType::f32)](
                                    const HeadInputs& in) {
                     return attention_weights(performer_call(in, omega));
                   }});
  for (const auto& [name, pattern] : {std::pair{"local", SparsePattern::local},
                                      {"strided", SparsePattern::strided},
                                      {"topk", SparsePattern::topk}}) {
    const SparseSelection selection{
        .pattern = pattern, .window = window, .stride = stride, .topk = topk};
    kinds.push_back({fmt::format("sparse, {}", name), [=](const HeadInputs& in) {
                       return attention_weights(sparse_call(in, selection));
                     }});
  }
  // Gaussians of equal covariance, sigma = softplus(0) + 1e-4 in every dimension.
  const auto with_covariance = [](HeadInputs in) {
    in.q = concat({in.q, Variable(in.q.data().zeros_like())}, -1);
    in.k = concat({in.k, Variable(in.k.data().zeros_like())}, -1);
    return in;
  };
  const Variable tau(Tensor::full({1, 1, 1}, 2 * std::sqrt(static_cast<double>(d))));
  kinds.push_back({"w2", [=](const HeadInputs& in) {
                     return attention_weights(w2_call(with_covariance(in), tau));
                   }});
  kinds.push_back({"w2_overlap", [=](const HeadInputs& in) {
                     return attention_weights(w2_overlap_call(with_covariance(in)));
                   }});
  return kinds;
}

// The planted key is cosine * query + sine * (its own direction without the query's).
RetrievalTrial RetrievalStudy::trial(std::int64_t n, std::int64_t index, std::uint64_t seed) const {
  const auto stream = [&](const char* purpose) {
    return RngKey{
        seed, stream_id(purpose, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(index))};
  };
  const Tensor query = polar(random_normal({1, d}, 0, 1, stream("query"))).direction;
  const Tensor keys = polar(random_normal({n, d}, 0, 1, stream("keys"))).direction;
  const auto planted =
      static_cast<std::int64_t>(Rng(stream("position")).below(static_cast<std::uint64_t>(n)));
  Tensor own = keys.slice(0, planted, planted + 1);  // a view
  const double along = sum(mul(own, query)).item();
  const Tensor across = polar(sub(own, scale(query, along))).direction;
  const double sine = std::sqrt((1 - cosine) * (1 + cosine));
  own.copy_from(add(scale(query, cosine), scale(across, sine)));
  return {query, scale(keys, std::sqrt(static_cast<double>(d))),
          polar(random_normal({n, d_v}, 0, 1, stream("values"))).direction, planted};
}

Retrieval RetrievalStudy::retrieve(const RetrievalKind& kind, const RetrievalTrial& trial,
                                   double beta) const {
  const NoGradGuard no_grad;
  const std::int64_t n = trial.k.size(0);
  const auto as_head = [](const Tensor& x) {
    return Variable(x.reshape({1, 1, x.size(0), x.size(1)}));
  };
  const Tensor weights = kind.weights({.q = as_head(scale(trial.query_direction, beta)),
                                       .k = as_head(trial.k),
                                       .v = as_head(trial.v),
                                       .mask = {.causal = true}})
                             .data()
                             .reshape({1, n})
                             .to(DType::f64);
  const Tensor values = trial.v.to(DType::f64);
  const Tensor out = matmul(weights, values);
  const std::vector<double> w = weights.to_vector<double>(),
                            match = matmul(values, out.transpose(0, 1)).to_vector<double>();
  double sizes = 0;
  for (const double weight : w) sizes += std::abs(weight);
  const auto planted = static_cast<std::size_t>(trial.planted);
  const Tensor wanted = values.slice(0, trial.planted, trial.planted + 1).contiguous();
  const bool is_best = std::all_of(match.begin(), match.end(),
                                   [&](double other) { return other <= match[planted]; });
  return {.share = sizes == 0 ? 0 : std::abs(w[planted]) / sizes,
          .error = std::sqrt(sum_of_squares(sub(out, wanted))),
          .right = sizes > 0 && is_best ? 1.0 : 0.0};
}

RetrievalSetting RetrievalStudy::measure(const std::vector<RetrievalKind>& kinds, std::int64_t n,
                                         double beta, std::uint64_t seed) const {
  std::vector<std::vector<double>> shares(kinds.size()), errors(kinds.size());
  RetrievalSetting setting{n, beta, std::vector<Retrieval>(kinds.size())};
  for (std::int64_t i = 0; i < n_trials; ++i) {
    const RetrievalTrial planted = trial(n, i, seed);
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Retrieval found = retrieve(kinds[k], planted, beta);
      shares[k].push_back(found.share);
      errors[k].push_back(found.error);
      setting.of_kind[k].right += found.right;
    }
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    setting.of_kind[k].right /= static_cast<double>(n_trials);
    setting.of_kind[k].share = median(shares[k]);
    setting.of_kind[k].error = median(errors[k]);
  }
  return setting;
}

// ---- what it shows

struct Measure {
  const char* name;
  const char* text;
  double Retrieval::*member;
};
constexpr Measure measures[] = {
    {"share", "share of the planted key in the weights, median", &Retrieval::share},
    {"error", "|output - planted value|, median", &Retrieval::error},
    {"right", "share of trials whose nearest value is the planted one", &Retrieval::right}};

template <class X>
Figure retrieval_figure(const std::vector<RetrievalKind>& kinds, const Measure& measure,
                        const std::vector<RetrievalSetting>& settings, const X& x) {
  Figure figure{.name = measure.name,
                .title = "",
                .x_label = "",
                .y_label = measure.text,
                .x_axis = Axis::logarithmic};
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    Series series{kinds[k].label, {}, {}};
    for (const RetrievalSetting& setting : settings) {
      series.x.push_back(x(setting));
      series.y.push_back(setting.of_kind[k].*measure.member);
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

StudyTable retrieval_table(const Figure& figure, const std::string& x_name) {
  StudyTable table{.title = figure.title + ": " + figure.y_label, .columns = {"attention"}};
  for (const double x : figure.series.front().x)
    table.columns.push_back(fmt::format("{} = {}", x_name, short_number(x)));
  for (const Series& series : figure.series) {
    std::vector<Cell> row{series.name};
    row.insert(row.end(), series.y.begin(), series.y.end());
    table.rows.push_back(std::move(row));
  }
  return table;
}

void RetrievalStudy::show(const std::vector<RetrievalKind>& kinds, const Settings& by_beta,
                          const Settings& by_n, StudyResult& result) const {
  for (const Measure& measure : measures) {
    const auto add = [&](Figure figure, const std::string& x_name, const std::string& x_label,
                         const std::string& where) {
      figure.name += "-" + x_name;
      figure.title = fmt::format("A planted key of cosine {}, {}", short_number(cosine), where);
      figure.x_label = x_label;
      if (measure.member == &Retrieval::error) figure.y_axis = Axis::logarithmic;
      result.tables.push_back(retrieval_table(figure, x_name));
      result.figures.push_back(std::move(figure));
    };
    add(retrieval_figure(kinds, measure, by_beta, [](const auto& s) { return s.beta; }), "beta",
        "inverse temperature beta", fmt::format("n = {}", compared_n_keys));
    add(retrieval_figure(kinds, measure, by_n,
                         [](const auto& s) { return static_cast<double>(s.n); }),
        "n", "keys n", fmt::format("beta = {}", short_number(compared_beta)));
  }
}

const Retrieval& retrieval_of(const char* label, const std::vector<RetrievalKind>& kinds,
                              const RetrievalSetting& setting) {
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].label == label) return setting.of_kind[k];
  throw Error("e6b_retrieval: no kind '{}'", label);
}

void RetrievalStudy::judge_keys(const std::vector<RetrievalKind>& kinds, const Settings& by_n,
                                StudyResult& result) const {
  const RetrievalSetting& most = by_n.back();
  std::string finding, others;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const Retrieval& found = most.of_kind[k];
    std::string& list = found.right == 1 ? finding : others;
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", kinds[k].label,
                        short_number(found.right == 1 ? found.share : found.right));
  }
  result.findings.push_back(fmt::format(
      "Among {} keys at beta = {}, these kinds find the planted key in all {} trials (in brackets "
      "its share in the weights): {}.",
      most.n, short_number(most.beta), n_trials, finding.empty() ? "none" : finding));
  result.findings.push_back(
      fmt::format("These do not (in brackets the share of trials in which they do): {}.",
                  others.empty() ? "none" : others));
  const Retrieval &local = retrieval_of("sparse, local", kinds, most),
                  &degrees = retrieval_of("hierarchical, degree 1", kinds, most),
                  &landmarks = retrieval_of("hierarchical, landmarks", kinds, most);
  result.claims.push_back(
      {fmt::format("The far field of hierarchical attention finds a key beyond the window of {}, "
                   "among {} keys at beta = {}",
                   window, most.n, short_number(most.beta)),
       fmt::format("found in {} of trials by degree 1 and in {} by landmarks; by a sliding window "
                   "alone in {}",
                   short_number(degrees.right), short_number(landmarks.right),
                   short_number(local.right)),
       std::min(degrees.right, landmarks.right) > std::max(local.right, 0.5)});
}

void RetrievalStudy::judge_sharpness(const std::vector<RetrievalKind>& kinds,
                                     const Settings& settings, StudyResult& result) const {
  std::int64_t n_as_good = 0;
  std::string shares;
  for (const RetrievalSetting& setting : settings) {
    const double conformal = retrieval_of("conformal, empirical", kinds, setting).share,
                 softmax = retrieval_of("softmax", kinds, setting).share;
    constexpr double rounding = 1e-5;
    n_as_good += conformal >= softmax - rounding ? 1 : 0;
    if (softmax > 0.01 && softmax < 0.999)
      shares +=
          fmt::format("{}{} and {} (beta = {})", shares.empty() ? "" : ", ",
                      short_number(conformal), short_number(softmax), short_number(setting.beta));
  }
  result.claims.push_back(
      {fmt::format("At equal inverse temperatures, the planted key has at least the share in "
                   "conformal attention that it has in softmax (n = {})",
                   compared_n_keys),
       fmt::format("at {} of {} inverse temperatures; the shares in conformal attention and in "
                   "softmax: {}",
                   n_as_good, settings.size(), shares.empty() ? "all near 0 or 1" : shares),
       n_as_good == std::ssize(settings)});
  for (const RetrievalSetting& setting : settings) {
    if (std::isfinite(retrieval_of("softmax_naive", kinds, setting).error)) continue;
    result.findings.push_back(fmt::format(
        "softmax_naive overflows in f32 from beta = {} on, and its output is no number.",
        short_number(setting.beta)));
    break;
  }
}

// Up to the resolution limit the sum over keys is near its mean. A planted key carries the sum past
// it.
void RetrievalStudy::judge_analytic(const std::vector<RetrievalKind>& kinds,
                                    const Settings& settings, StudyResult& result) const {
  const double s = conformal_kernel(ConformalWeight::newton, d).s;
  const double limit =
      radius_to_beta(resolution_limit(/*delta=*/1, static_cast<double>(compared_n_keys), s), s);
  std::string errors;
  bool is_as_close = true;
  for (const RetrievalSetting& setting : settings) {
    const Retrieval &analytic = retrieval_of("conformal, analytic", kinds, setting),
                    &empirical = retrieval_of("conformal, empirical", kinds, setting);
    errors += fmt::format("{}{} and {} (beta = {})", errors.empty() ? "" : ", ",
                          short_number(analytic.error), short_number(empirical.error),
                          short_number(setting.beta));
    constexpr double tolerance = 0.1;
    is_as_close = is_as_close && analytic.error <= empirical.error + tolerance;
  }
  result.claims.push_back(
      {fmt::format("The analytic constant may stand for the sum when a key is planted (n = {})",
                   compared_n_keys),
       "errors of the output with the analytic constant and with the sum: " + errors, is_as_close});
  result.findings.push_back(
      fmt::format("The resolution limit of {} keys is at beta = {}. Beyond it the analytic output "
                  "points at the planted value, but is too long, because one key alone exceeds the "
                  "mean of all: only its direction retrieves.",
                  compared_n_keys, short_number(limit)));
}

// Keys of equal length and equal covariances leave nothing but the product in the distance.
void RetrievalStudy::judge_equals(const std::vector<RetrievalKind>& kinds, const Settings& settings,
                                  StudyResult& result) const {
  double largest = 0;
  for (const RetrievalSetting& setting : settings)
    largest = std::max(largest, std::abs(retrieval_of("w2", kinds, setting).share -
                                         retrieval_of("softmax", kinds, setting).share));
  result.claims.push_back({"With keys of equal length and equal covariances, w2 is softmax",
                           fmt::format("the shares differ by at most {}", short_number(largest)),
                           largest < 1e-4});
  const RetrievalSetting& first = settings.front();
  result.findings.push_back(fmt::format(
      "w2_overlap does not divide its products by sqrt(d) and is sharper by sqrt(d) / sigma: at "
      "beta = {} the planted key has a share of {} in it, and of {} in softmax.",
      short_number(first.beta), short_number(retrieval_of("w2_overlap", kinds, first).share),
      short_number(retrieval_of("softmax", kinds, first).share)));
}

StudyResult RetrievalStudy::run(const StudyContext& context) const {
  const std::vector<RetrievalKind> kinds = this->kinds(context.seed);
  const std::int64_t total = std::ssize(betas) + std::ssize(n_keys);
  Settings by_beta, by_n;
  StudyResult result;
  for (const double beta : betas) {
    context.progress(fmt::format("beta = {}", short_number(beta)), std::ssize(by_beta), total);
    by_beta.push_back(measure(kinds, compared_n_keys, beta, context.seed));
  }
  for (const std::int64_t n : n_keys) {
    context.progress(fmt::format("n = {}", n), std::ssize(by_beta) + std::ssize(by_n), total);
    by_n.push_back(measure(kinds, n, compared_beta, context.seed));
  }
  judge_keys(kinds, by_n, result);
  judge_sharpness(kinds, by_beta, result);
  judge_analytic(kinds, by_beta, result);
  judge_equals(kinds, by_beta, result);
  show(kinds, by_beta, by_n, result);
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e6b_retrieval() { return std::make_unique<RetrievalStudy>(); }

}  // namespace mobius
