// The spectrum of attention matrices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/ops.h"
#include "nn/attention/softmax.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/spectra/matrices.h"
#include "train/studies/spectra/spectrum.h"

namespace mobius {

namespace {

// One matrix, and how to find it again.
struct Measurement {
  std::string tokens;
  bool is_causal;
  std::string variant;
  std::optional<double> entropy;  // mean of the rows, in nats
  Spectrum spectrum;
};

// A kernel on one kind of tokens, as its sharpness varies.
struct EntropyCurve {
  std::string tokens;
  Series series;  // effective rank over entropy
};

// Effective rank at an entropy, between the points of a curve; NaN outside.
double at_entropy(const Series& curve, double entropy) {
  for (std::size_t i = 1; i < curve.x.size(); ++i) {
    const double a = curve.x[i - 1], b = curve.x[i];
    if ((a - entropy) * (b - entropy) > 0 || a == b) continue;
    return curve.y[i - 1] + (curve.y[i] - curve.y[i - 1]) * (entropy - a) / (b - a);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

HeadInputs times(HeadInputs in, double factor) {
  in.q = scale(in.q, factor);
  return in;
}

// The mean entropy of the rows; none if a weight is negative.
std::optional<double> entropy_of(const Tensor& weights) {
  const std::vector<double> values = weights.to_vector<double>();
  if (std::any_of(values.begin(), values.end(), [](double w) { return w < 0; })) return {};
  MeanEntropy entropy(1);
  entropy.add(weights);
  return entropy.value().front();
}

class SpectrumStudy final : public Study {
 public:
  SpectrumSettings settings;

  std::string name() const override { return "e9_spectrum"; }
  std::string question() const override {
    return "How many dimensions does the attention matrix of each variant use, on the same queries "
           "and keys?";
  }
  void describe(Schema& schema) override { settings.describe(schema); }
  StudyResult run(const StudyContext& context) const override;

 private:
  std::vector<Measurement> measure(const Tokens& tokens, bool is_causal, std::uint64_t seed) const;
  std::vector<EntropyCurve> curves(const Tokens& tokens) const;
  void show(const std::vector<Measurement>& measured, const std::string& description,
            StudyResult& result) const;
  void conclude(const std::vector<Measurement>& measured, const std::vector<EntropyCurve>& curves,
                StudyResult& result) const;
};

std::vector<Measurement> SpectrumStudy::measure(const Tokens& tokens, bool is_causal,
                                                std::uint64_t seed) const {
  std::vector<Measurement> measured;
  const HeadInputs in = inputs_of(tokens, is_causal);
  for (const NamedWeights& variant : variants_of(settings, seed)) {
    if (variant.is_causal_only && !is_causal) continue;
    const Tensor weights = with_rows_of_sum_one(variant.weights(in));
    measured.push_back(
        {tokens.name, is_causal, variant.name, entropy_of(weights), spectrum_of(weights)});
  }
  return measured;
}

// A table and a figure of one kind of tokens under one mask.
void SpectrumStudy::show(const std::vector<Measurement>& measured, const std::string& description,
                         StudyResult& result) const {
  const std::string mask = measured.front().is_causal ? "causal" : "full";
  const std::string& kind = measured.front().tokens;
  StudyTable table{.title = fmt::format("Weights, {} mask: {}", mask, description),
                   .columns = {"variant", "mean entropy (nats)", "effective rank", "stable rank",
                               "values above 1e-3", "values above 1e-10",
                               fmt::format("error of the best rank {}", settings.n_landmarks)}};
  Figure figure{.name = fmt::format("values-{}-{}", kind, mask),
                .title = fmt::format("Singular values, {} tokens, {} mask", kind, mask),
                .x_label = "index",
                .y_label = "singular value / largest",
                .y_axis = Axis::logarithmic};
  for (const auto& [tokens, is_causal, variant, entropy, spectrum] : measured) {
    table.rows.push_back(
        {variant, entropy ? Cell(*entropy) : Cell("negative weights"), spectrum.effective_rank(),
         spectrum.stable_rank(), static_cast<double>(spectrum.rank(1e-3)),
         static_cast<double>(spectrum.rank(1e-10)), spectrum.rest(settings.n_landmarks)});
    Series series{variant};
    for (std::size_t i = 0; i < spectrum.values.size(); ++i) {
      series.x.push_back(static_cast<double>(i + 1));
      // Zeros have a place on the axis.
      series.y.push_back(std::max(spectrum.values[i] / spectrum.values.front(), 1e-17));
    }
    figure.series.push_back(std::move(series));
  }
  result.tables.push_back(std::move(table));
  result.figures.push_back(std::move(figure));
}

// Effective rank over entropy, as the sharpness of each kernel varies. Softmax of cosines tells
// what comes of the lengths of keys, which conformal attention does not see.
std::vector<EntropyCurve> SpectrumStudy::curves(const Tokens& tokens) const {
  const HeadInputs in = inputs_of(tokens, false);
  HeadInputs on_sphere = in;
  on_sphere.k = scale(polar(in.k).direction, std::sqrt(static_cast<double>(settings.d)));
  const auto softmax = [](const HeadInputs& inputs) {
    return [&inputs](double factor) {
      return attention_weights(softmax_call(times(inputs, factor))).data();
    };
  };
  std::vector<EntropyCurve> curves;
  const auto add = [&](const std::string& name, const auto& weights_at) {
    Series series{name};
    for (double sharpness = 0.25; sharpness <= 512; sharpness *= 2) {
      const Tensor weights = with_rows_of_sum_one(weights_at(sharpness));
      series.x.push_back(entropy_of(weights).value_or(0));
      series.y.push_back(spectrum_of(weights).effective_rank());
    }
    curves.push_back({tokens.name, std::move(series)});
  };
  add("softmax", softmax(in));
  add("softmax, keys of equal length", softmax(on_sphere));
  add("conformal", [&](double alpha) {
    return conformal_variant(settings.d, ConformalWeight::newton, alpha).weights(in);
  });
  return curves;
}

void show_curves(const std::vector<EntropyCurve>& curves, StudyResult& result) {
  const std::string& kind = curves.front().tokens;
  Figure figure{.name = fmt::format("entropy-{}", kind),
                .title = fmt::format("Effective rank over entropy, {} tokens, full mask", kind),
                .x_label = "mean entropy of a query's weights (nats)",
                .y_label = "effective rank"};
  for (const EntropyCurve& curve : curves) figure.series.push_back(curve.series);
  result.figures.push_back(std::move(figure));
}

const Spectrum& find(const std::vector<Measurement>& measured, std::string_view tokens,
                     bool is_causal, std::string_view variant) {
  return std::find_if(measured.begin(), measured.end(),
                      [&](const Measurement& m) {
                        return m.tokens == tokens && m.is_causal == is_causal &&
                               m.variant.starts_with(variant);
                      })
      ->spectrum;
}

// Sentences about ranks: which are bounded, what a mask changes, what a low rank reaches.
void SpectrumStudy::conclude(const std::vector<Measurement>& measured,
                             const std::vector<EntropyCurve>& curves, StudyResult& result) const {
  const Spectrum& linear = find(measured, "independent", false, "linear");
  const Spectrum& causal = find(measured, "independent", true, "linear");
  result.claims.push_back(
      {fmt::format("The weights of linear attention have a rank of at most d = {}", settings.d),
       fmt::format("{} of {} singular values above 1e-10 without a mask, {} with the causal one",
                   linear.rank(1e-10), settings.n, causal.rank(1e-10)),
       linear.rank(1e-10) <= settings.d && causal.rank(1e-10) <= settings.d});
  result.findings.push_back(fmt::format(
      "Without a mask, linear attention on independent tokens has {} singular values above 1e-10 "
      "of the largest and an effective rank of {:.1f}; softmax has {:.1f}. The causal mask itself "
      "has full rank: under it linear attention has {} such values and an effective rank of "
      "{:.1f}. So a rank bound on features says little about causal attention.",
      linear.rank(1e-10), linear.effective_rank(),
      find(measured, "independent", false, "softmax").effective_rank(), causal.rank(1e-10),
      causal.effective_rank()));
  std::string by_alpha;
  for (const double alpha : settings.alphas) {
    const std::string variant = fmt::format("conformal, alpha {}", short_number(alpha));
    const Spectrum& spectrum = find(measured, "independent", false, variant);
    by_alpha += fmt::format("{}{:.3f} at alpha {} (effective rank {:.0f})",
                            by_alpha.empty() ? "" : ", ", spectrum.rest(settings.n_landmarks),
                            short_number(alpha), spectrum.effective_rank());
  }
  result.findings.push_back(
      fmt::format("The best approximation of rank {} to conformal weights on independent tokens in "
                  "{} dimensions misses {} of their Frobenius norm. No {} features of queries and "
                  "keys, learned or not, do better on these tokens: sharp queries need exact keys.",
                  settings.n_landmarks, settings.d, by_alpha, settings.n_landmarks));
  constexpr double entropy = 2;
  for (std::size_t i = 0; i < curves.size(); i += 3)
    result.findings.push_back(fmt::format(
        "At an entropy of {} nats, the effective rank on {} tokens is {:.0f} for softmax, {:.0f} "
        "for softmax with keys of equal length, and {:.0f} for conformal attention.",
        entropy, curves[i].tokens, at_entropy(curves[i].series, entropy),
        at_entropy(curves[i + 1].series, entropy), at_entropy(curves[i + 2].series, entropy)));
}

StudyResult SpectrumStudy::run(const StudyContext& context) const {
  StudyResult result;
  const std::vector<Tokens> all = tokens_of(settings, context.seed);
  const auto n_parts = static_cast<std::int64_t>(3 * all.size());
  std::int64_t part = 0;
  std::vector<Measurement> measured;
  std::vector<EntropyCurve> all_curves;
  for (const Tokens& kind : all) {
    for (const bool is_causal : {false, true}) {
      context.progress(kind.name + " tokens", part++, n_parts);
      const std::vector<Measurement> more = measure(kind, is_causal, context.seed);
      show(more, kind.description, result);
      measured.insert(measured.end(), more.begin(), more.end());
    }
    context.progress(kind.name + " tokens, equal entropy", part++, n_parts);
    const std::vector<EntropyCurve> more = curves(kind);
    show_curves(more, result);
    all_curves.insert(all_curves.end(), more.begin(), more.end());
  }
  conclude(measured, all_curves, result);
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e9_spectrum() { return std::make_unique<SpectrumStudy>(); }

}  // namespace mobius
