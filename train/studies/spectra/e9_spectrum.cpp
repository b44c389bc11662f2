// The spectrum of attention matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/ops.h"
#include "nn/attention/conformal_hierarchical.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/spectra/spectrum.h"

namespace mobius {

namespace {

// Queries and keys, [1, 1, n, d], and what they are.
struct Tokens {
  std::string name, description;
  Tensor q, k;
};

// A variant's weights of some tokens, [1, 1, n, n].
struct NamedWeights {
  std::string name;
  std::function<Tensor(const HeadInputs&)> weights;
  bool is_causal_only = false;
};

// The mean entropy of the rows, in nats; none if a weight is negative.
std::optional<double> entropy_of(const Tensor& weights) {
  const std::vector<double> values = weights.to_vector<double>();
  if (std::any_of(values.begin(), values.end(), [](double w) { return w < 0; })) return {};
  MeanEntropy entropy(1);
  entropy.add(weights);
  return entropy.value().front();
}

class SpectrumStudy final : public Study {
 public:
  std::int64_t n = 256;
  std::int64_t d = 64;
  std::vector<double> alphas = {1, 4, 16, 64};
  std::int64_t window = 32;
  std::int64_t topk = 16;
  std::int64_t n_features = 64;
  std::int64_t n_landmarks = 48;
  double correlation = 0.95;
  std::int64_t subspace = 8;

  std::string name() const override { return "e9_spectrum"; }
  std::string question() const override {
    return "How many dimensions does the attention matrix of each variant use, on the same queries "
           "and keys?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  std::vector<Tokens> tokens(std::uint64_t seed) const;
  std::vector<NamedWeights> variants(std::uint64_t seed) const;
  NamedWeights conformal(const std::string& name, ConformalWeight weight, double alpha) const;
  NamedWeights hierarchical(std::uint64_t seed, double alpha) const;
  void measure(const Tokens& tokens, bool is_causal, std::uint64_t seed, StudyResult& result) const;
  void compare_at_equal_entropy(const Tokens& tokens, StudyResult& result) const;
};

void SpectrumStudy::describe(Schema& schema) {
  schema.field("n", n, "queries, and keys").at_least(16).at_most(2048);
  schema.field("d", d, "dimension of a head").at_least(4).at_most(1024);
  schema.field("alphas", alphas, "factors on the inverse temperatures of conformal attention")
      .above(0)
      .at_most(1e6);
  schema.field("window", window, "newest keys of local and hierarchical attention").positive();
  schema.field("topk", topk, "largest scores of sparse topk").positive();
  schema.field("n_features", n_features, "of performer").positive().at_most(100000);
  schema
      .field("n_landmarks", n_landmarks,
             "of hierarchical attention, and the rank of the best approximation")
      .positive()
      .at_most(100000);
  schema.field("correlation", correlation, "of neighbouring tokens, where tokens are correlated")
      .at_least(0)
      .below(1);
  schema.field("subspace", subspace, "dimension of the tokens that do not fill the head")
      .positive();
  const auto at_most = [&schema](const char* key, const std::int64_t& value,
                                 const std::int64_t& limit, const char* name) {
    schema.check(key, [&value, &limit, name] {
      if (value > limit) throw ConfigError("expected at most {} = {}, got {}", name, limit, value);
    });
  };
  at_most("window", window, n, "n");
  at_most("topk", topk, n, "n");
  at_most("subspace", subspace, d, "d");
}

Tensor normal(const Shape& shape, std::uint64_t seed, std::string_view purpose) {
  return random_normal(shape, 0, 1, {seed, stream_id(purpose)}, DType::f64);
}

// x_t = c x_(t-1) + sqrt(1 - c^2) e_t for rows e_t of variance 1, which keeps the variance.
Tensor slow_walk(const Tensor& noise, double c) {
  std::vector<double> rows = noise.to_vector<double>();
  const auto d = static_cast<std::size_t>(noise.size(-1));
  for (std::size_t i = d; i < rows.size(); ++i)
    rows[i] = c * rows[i - d] + std::sqrt(1 - c * c) * rows[i];
  return Tensor::from(rows, noise.shape());
}

// All queries and keys have elements of variance 1, so that they are equally long on average.
std::vector<Tokens> SpectrumStudy::tokens(std::uint64_t seed) const {
  const Shape shape = {1, 1, n, d};
  const Tensor own_q = normal(shape, seed, "e9 q"), own_k = normal(shape, seed, "e9 k");
  const Tensor walk = slow_walk(normal(shape, seed, "e9 walk"), correlation);
  const auto half = [&](const Tensor& own) { return scale(add(walk, own), std::sqrt(0.5)); };
  const Tensor axes = scale(normal({1, 1, subspace, d}, seed, "e9 axes"),
                            1 / std::sqrt(static_cast<double>(subspace)));
  const auto projected = [&](const Tensor& own) {
    return matmul(own.slice(-1, 0, subspace).contiguous(), axes);
  };
  return {{"independent", "independent Gaussian queries and keys", own_q, own_k},
          {"correlated",
           fmt::format("queries and keys that share half of their variance with a slow walk, whose "
                       "neighbours have correlation {}",
                       correlation),
           half(own_q), half(own_k)},
          {"low_rank", fmt::format("Gaussian queries and keys in {} of {} dimensions", subspace, d),
           projected(own_q), projected(own_k)}};
}

Variable scalar(double x) { return Variable(Tensor::full({1}, x, DType::f64)); }

NamedWeights SpectrumStudy::conformal(const std::string& name, ConformalWeight weight,
                                      double alpha) const {
  const ConformalKernel kernel = conformal_kernel(weight, d);
  return {fmt::format("{}, alpha {}", name, short_number(alpha)),
          [kernel, alpha](const HeadInputs& in) {
            return attention_weights(
                       conformal_call(in, scalar(alpha), kernel, ConformalNormalize::none))
                .data();
          }};
}

NamedWeights SpectrumStudy::hierarchical(std::uint64_t seed, double alpha) const {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, d);
  const FarFieldOptions far{.n_landmarks = n_landmarks};
  const Variable landmarks(normal({1, 1, n_landmarks, d}, seed, "e9 landmarks"));
  return {
      fmt::format("conformal_hierarchical, alpha {}", short_number(alpha)),
      [=, w = window](const HeadInputs& in) {
        const BallPoints points = embed_in_ball(in.q, in.k, scalar(alpha), kernel.s);
        const LandmarkBasis basis(landmarks, kernel, far.landmark_radius(kernel, alpha), far.ridge);
        return attention_weights(
                   hierarchical_call(in, points, basis, kernel, ConformalNormalize::analytic, w))
            .data();
      },
      /*is_causal_only=*/true};
}

// A variant by the call that it makes of q and k.
template <class Call>
NamedWeights by_call(std::string name, const Call& call) {
  return {std::move(name),
          [call](const HeadInputs& in) { return attention_weights(call(in)).data(); }};
}

HeadInputs times(HeadInputs in, double factor) {
  in.q = scale(in.q, factor);
  return in;
}

// Queries and keys as means of Gaussians with equal deviations.
HeadInputs as_gaussians(HeadInputs in) {
  const auto widened = [](const Variable& mu) {
    return concat({mu, Variable(Tensor::zeros(mu.shape(), DType::f64))}, -1);
  };
  in.q = widened(in.q);
  in.k = widened(in.k);
  return in;
}

std::vector<NamedWeights> SpectrumStudy::variants(std::uint64_t seed) const {
  std::vector<NamedWeights> all;
  all.push_back(by_call("softmax", [](const HeadInputs& in) { return softmax_call(in); }));
  for (const double alpha : alphas)
    all.push_back(conformal("conformal", ConformalWeight::newton, alpha));
  all.push_back(conformal("conformal poisson", ConformalWeight::poisson, alphas.back()));
  all.push_back(conformal("conformal jacobian", ConformalWeight::jacobian, alphas.back()));
  all.push_back(hierarchical(seed, alphas.front()));
  all.push_back(by_call("linear", [](const HeadInputs& in) { return linear_call(in); }));
  const Tensor omega =
      orthogonal_gaussian(n_features, d, {seed, stream_id("e9 omega")}, DType::f64);
  all.push_back(by_call(fmt::format("performer, {} features", n_features),
                        [omega](const HeadInputs& in) { return performer_call(in, omega); }));
  all.push_back(by_call("w2", [tau = 2 * std::sqrt(static_cast<double>(d))](const HeadInputs& in) {
    return w2_call(as_gaussians(in), Variable(Tensor::full({1, 1, 1}, tau, DType::f64)));
  }));
  const auto sparse = [&](const std::string& name, const SparseSelection& selection) {
    all.push_back(
        by_call(name, [selection](const HeadInputs& in) { return sparse_call(in, selection); }));
  };
  sparse(fmt::format("sparse local, window {}", window),
         {.pattern = SparsePattern::local, .window = window});
  sparse(fmt::format("sparse topk, {} keys", topk), {.pattern = SparsePattern::topk, .topk = topk});
  return all;
}

HeadInputs inputs_of(const Tokens& tokens, bool is_causal) {
  const Variable k(tokens.k);
  return {.q = Variable(tokens.q), .k = k, .v = k, .mask = {.causal = is_causal}};
}

// A table and a figure of one kind of tokens, under one mask.
void SpectrumStudy::measure(const Tokens& tokens, bool is_causal, std::uint64_t seed,
                            StudyResult& result) const {
  const std::string mask = is_causal ? "causal" : "full";
  StudyTable table{
      .title = fmt::format("Weights, {}: {}", mask, tokens.description),
      .columns = {"variant", "mean entropy (nats)", "effective rank", "stable rank", "rank at 1e-3",
                  "rank at 1e-10", fmt::format("error of the best rank {}", n_landmarks)}};
  Figure figure{.name = fmt::format("values-{}-{}", tokens.name, mask),
                .title = fmt::format("Singular values, {} tokens, {} mask", tokens.name, mask),
                .x_label = "index",
                .y_label = "singular value / largest",
                .y_axis = Axis::logarithmic};
  const HeadInputs in = inputs_of(tokens, is_causal);
  for (const NamedWeights& variant : variants(seed)) {
    if (variant.is_causal_only && !is_causal) continue;
    const Tensor weights = with_rows_of_sum_one(variant.weights(in));
    const Spectrum spectrum = spectrum_of(weights);
    const std::optional<double> entropy = entropy_of(weights);
    table.rows.push_back({variant.name, entropy ? Cell(*entropy) : Cell("negative weights"),
                          spectrum.effective_rank(), spectrum.stable_rank(),
                          static_cast<double>(spectrum.rank(1e-3)),
                          static_cast<double>(spectrum.rank(1e-10)), spectrum.rest(n_landmarks)});
    Series series{variant.name, {}, {}};
    for (std::size_t i = 0; i < spectrum.values.size(); ++i) {
      const double value = spectrum.values[i] / spectrum.values.front();
      series.x.push_back(static_cast<double>(i + 1));
      series.y.push_back(std::max(value, 1e-17));  // zeros have a place on the axis
    }
    figure.series.push_back(std::move(series));
  }
  result.tables.push_back(std::move(table));
  result.figures.push_back(std::move(figure));
}

// Effective rank against entropy, as the sharpness of each kernel varies.
void SpectrumStudy::compare_at_equal_entropy(const Tokens& tokens, StudyResult& result) const {
  Figure figure{.name = fmt::format("entropy-{}", tokens.name),
                .title = fmt::format("Effective rank at equal entropy, {} tokens", tokens.name),
                .x_label = "mean entropy of a query's weights (nats)",
                .y_label = "effective rank",
                .y_axis = Axis::logarithmic};
  const HeadInputs in = inputs_of(tokens, false);
  const auto add = [&](const std::string& name, const auto& weights_at) {
    Series series{name, {}, {}};
    for (double sharpness = 0.25; sharpness <= 512; sharpness *= std::sqrt(2)) {
      const Tensor weights = with_rows_of_sum_one(weights_at(sharpness));
      series.x.push_back(entropy_of(weights).value_or(0));
      series.y.push_back(spectrum_of(weights).effective_rank());
    }
    figure.series.push_back(std::move(series));
  };
  add("softmax",
      [&](double factor) { return attention_weights(softmax_call(times(in, factor))).data(); });
  for (const auto& [label, weight] : {std::pair{"conformal newton", ConformalWeight::newton},
                                      {"conformal poisson", ConformalWeight::poisson},
                                      {"conformal jacobian", ConformalWeight::jacobian}})
    add(label, [&, w = weight](double alpha) { return conformal("", w, alpha).weights(in); });
  result.figures.push_back(std::move(figure));
}

StudyResult SpectrumStudy::run(const StudyContext& context) const {
  StudyResult result;
  const std::vector<Tokens> all = tokens(context.seed);
  const auto n_parts = static_cast<std::int64_t>(3 * all.size());
  std::int64_t part = 0;
  for (const Tokens& kind : all) {
    for (const bool is_causal : {false, true}) {
      context.progress(kind.name + " tokens", part++, n_parts);
      measure(kind, is_causal, context.seed, result);
    }
    context.progress(kind.name + " tokens, equal entropy", part++, n_parts);
    compare_at_equal_entropy(kind, result);
  }
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e9_spectrum() { return std::make_unique<SpectrumStudy>(); }

}  // namespace mobius
