// The range of numbers that sharp attention needs, where it leaves that of a type, and what
// rounding does to outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/ops.h"
#include "core/rng.h"
#include "nn/attention/softmax.h"
#include "nn/attention/softmax_naive.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace e2_stability {
namespace {

// Types that hold operands. The layer computes bf16 operands in f32, as training does.
struct Precision {
  const char* name;
  DType operands, computed;
};
constexpr Precision in_f64{"f64", DType::f64, DType::f64};
constexpr Precision in_f32{"f32", DType::f32, DType::f32};
constexpr Precision in_bf16{"bf16 operands", DType::bf16, DType::f32};

Variable rounded(const Tensor& x, const Precision& precision) {
  return Variable(x.to(precision.operands).to(precision.computed));
}

enum class Kind { softmax, softmax_naive, conformal_none, conformal_analytic, conformal_empirical };

AttentionCall call_of(Kind kind, const HeadInputs& in) {
  if (kind == Kind::softmax) return softmax_call(in);
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, in.q.size(-1));
  const auto normalize = kind == Kind::conformal_none       ? ConformalNormalize::none
                         : kind == Kind::conformal_analytic ? ConformalNormalize::analytic
                                                            : ConformalNormalize::empirical;
  return conformal_call(in, Variable(Tensor::ones({1}, in.q.dtype())), kernel, normalize);
}

std::vector<double> weights_of(Kind kind, const HeadInputs& in) {
  const Variable weights = kind == Kind::softmax_naive ? softmax_naive_weights(in)
                                                       : attention_weights(call_of(kind, in));
  return weights.data().to_vector<double>();
}

// The weights of one query along the first axis with this inverse temperature, for keys at these
// cosines.
std::vector<double> weights_at(Kind kind, double beta, const std::vector<double>& cosines,
                               std::int64_t d, const Precision& precision) {
  return weights_of(kind, {.q = rounded(query_of(beta, d), precision),
                           .k = rounded(keys_at(cosines, d), precision),
                           .v = {}});
}

bool are_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

// Queries, keys and values; queries have inverse temperature 1.
struct Data {
  const char* name;
  const char* description;
  Tensor q, k, v;
};

double relative_error(const std::vector<double>& values, const std::vector<double>& exact) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (values[i] - exact[i]) * (values[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(error / norm);
}

class StabilityStudy final : public Study {
 public:
  std::int64_t d = 64;
  std::int64_t n = 256;
  double largest_beta = 1e5;
  std::int64_t n_betas = 26;
  double planted_cosine = 0.9;

  std::string name() const override { return "e2_stability"; }
  std::string question() const override {
    return "How wide a range of numbers do sharp conformal and softmax attention need, where do "
           "they leave that of f32 and bf16, and what does rounding do to their outputs?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  double s() const { return conformal_kernel(ConformalWeight::newton, d).s; }
  double range_of(double beta) const { return -log_weight(radius_of(beta, s()), -1, s()); }
  std::vector<double> betas() const { return geometric(1, largest_beta, n_betas); }

  void show_ranges(StudyResult& result) const;
  void find_limits(StudyResult& result) const;
  void count_bad_outputs(const Data& data, StudyResult& result) const;
  Data random_data(std::uint64_t seed) const;
  Data planted_data(std::uint64_t seed) const;
  void measure_errors(const Data& data, const StudyContext& context, std::int64_t part,
                      StudyResult& result) const;
};

void StabilityStudy::describe(Schema& schema) {
  schema.field("d", d, "dimension of a head").at_least(4).at_most(1024);
  schema.field("n", n, "queries and keys whose outputs are compared").at_least(2).at_most(4096);
  schema.field("largest_beta", largest_beta, "largest inverse temperature of the curves")
      .at_least(1e4)
      .at_most(1e6);
  schema.field("n_betas", n_betas, "inverse temperatures of a curve").at_least(2).at_most(1000);
  schema.check("largest_beta", [this] { require_below_cap(largest_beta, s()); });
  schema.field("planted_cosine", planted_cosine, "between a query and the key planted for it")
      .above(0)
      .below(1);
}

// Between a key at u = 1 and one at u = -1.
void StabilityStudy::show_ranges(StudyResult& result) const {
  const std::vector<double> range = betas();
  const auto conformal = each(range, [this](double beta) { return range_of(beta); });
  const auto softmax = each(range, [](double beta) { return 2 * beta; });
  double largest_error = 0;  // of the layer, where its weights are numbers of f64
  for (const double beta : range) {
    const std::vector<double> w = weights_at(Kind::conformal_none, beta, {1, -1}, d, in_f64);
    if (w[1] > std::numeric_limits<double>::min())
      largest_error = std::max(largest_error, std::abs(std::log(w[0] / w[1]) / range_of(beta) - 1));
  }
  result.figures.push_back(
      {.name = "range",
       .title = fmt::format("Range of the log of weights, d = {}", d),
       .x_label = "inverse temperature beta",
       .y_label = "largest - smallest log weight",
       .x_axis = Axis::logarithmic,
       .y_axis = Axis::logarithmic,
       .series = {{"conformal", range, conformal}, {"softmax", range, softmax}}});
  const double before = range_of(largest_beta / 10) - range_of(largest_beta / 100);
  const double last = range_of(largest_beta) - range_of(largest_beta / 10);
  const double expected = 2 * s() * std::numbers::ln10;
  result.claims.push_back(
      {"The range of conformal log weights grows with the logarithm of beta, by 2 s ln 10 each "
       "decade, that of softmax in proportion to beta",
       fmt::format("the last two decades to beta = {} add {:.1f} and {:.1f} (2 s ln 10 = {:.1f}), "
                   "where softmax's range grows tenfold in each",
                   short_number(largest_beta), before, last, expected),
       std::abs(last / expected - 1) < 0.01 && std::abs(before / expected - 1) < 0.02});
  result.findings.push_back(
      fmt::format("At beta = {}, the weights of keys at u = 1 and u = -1 differ by a factor of "
                  "e^{:.0f} in conformal attention and of e^{} in softmax. The layer's own weights "
                  "in f64 have the range of the formula within {} of it.",
                  short_number(largest_beta), range_of(largest_beta),
                  short_number(2 * largest_beta), short_number(largest_error)));
}

// The inverse temperatures at which weights overflow or vanish, found by halving.
void StabilityStudy::find_limits(StudyResult& result) const {
  constexpr double high = 1e7;
  const auto beta_where = [&](Kind kind, const std::vector<double>& cosines,
                              const Precision& precision, const auto& is_bad) -> Cell {
    const double beta = first_where(0.01, high, [&](double candidate) {
      return is_bad(weights_at(kind, candidate, cosines, d, precision));
    });
    return beta < high ? Cell(beta) : Cell("never");
  };
  const auto is_lost = [](const std::vector<double>& w) { return !are_finite(w); };
  const auto vanishes = [](const std::vector<double>& w) { return w.back() == 0; };
  const auto is_capped = [](const std::vector<double>& w) { return w.front() > std::exp(79.999); };
  StudyTable table{.title = fmt::format("Inverse temperature from which on, d = {}", d),
                   .columns = {"what happens", in_f64.name, in_f32.name, in_bf16.name}};
  const auto add = [&](const std::string& what, Kind kind, const std::vector<double>& cosines,
                       const auto& is_bad) {
    table.rows.push_back({what, beta_where(kind, cosines, in_f64, is_bad),
                          beta_where(kind, cosines, in_f32, is_bad),
                          beta_where(kind, cosines, in_bf16, is_bad)});
  };
  add("naive softmax of keys at u = 1 and 0 overflows", Kind::softmax_naive, {1, 0}, is_lost);
  add("softmax of these keys is not finite", Kind::softmax, {1, 0}, is_lost);
  add("conformal weights of these keys are not finite", Kind::conformal_none, {1, 0}, is_lost);
  add("softmax: the weight at u = 0 is 0", Kind::softmax, {1, 0}, vanishes);
  add("softmax: the weight at u = -1 is 0", Kind::softmax, {1, -1}, vanishes);
  add("conformal: the weight at u = 0 is 0", Kind::conformal_none, {1, 0}, vanishes);
  add("conformal: the weight at u = -1 is 0", Kind::conformal_none, {1, -1}, vanishes);
  add("conformal analytic: the weight at u = 1 meets its cap e^80", Kind::conformal_analytic,
      {1, 0}, is_capped);
  const double overflow = std::get<double>(table.rows[0][2]);
  const double exact = std::log(static_cast<double>(std::numeric_limits<float>::max()));
  result.claims.push_back(
      {"Naive softmax overflows in f32 at a score of ln(largest f32) = 88.72",
       fmt::format("the first row without finite weights has beta = {:.2f}", overflow),
       std::abs(overflow - exact) < 0.01});
  result.findings.push_back(fmt::format(
      "Naive softmax loses its rows at a score of {:.1f} in f32, and at the same score with bf16 "
      "operands, since bf16 has the exponents of f32; f64 reaches {}. In f16, which is no type of "
      "tensors here, the largest number 65504 puts this limit at {:.2f}.",
      overflow, cell_text(table.rows[0][1]), std::log(65504.0)));
  result.findings.push_back(fmt::format(
      "In f32, the weight of a key at right angles to the query becomes 0 from beta = {} on in "
      "softmax and from {} on in conformal attention. The cap of analytic weights acts from beta "
      "= {} on, for a key in the query's very direction among two.",
      cell_text(table.rows[3][2]), cell_text(table.rows[5][2]), cell_text(table.rows[7][2])));
  result.tables.push_back(std::move(table));
}

Data StabilityStudy::random_data(std::uint64_t seed) const {
  const auto normal = [&](std::uint64_t which) {
    return random_normal({1, 1, n, d}, 0, 1, {seed, stream_id("e2 data", which)}, DType::f64);
  };
  // Length sqrt(d), so that alpha = 1 gives beta = 1; keys of length 1.
  return {"random", "random keys",
          scale(polar(normal(0)).direction, std::sqrt(static_cast<double>(d))),
          polar(normal(1)).direction, normal(2)};
}

// Key i lies at the planted cosine from query i.
Data StabilityStudy::planted_data(std::uint64_t seed) const {
  Data data = random_data(seed);
  const std::vector<double> q = polar(data.q).direction.to_vector<double>();
  std::vector<double> k = data.k.to_vector<double>();
  const double sine = std::sqrt(1 - planted_cosine * planted_cosine);
  const auto width = static_cast<std::size_t>(d);
  for (std::size_t i = 0; i < k.size(); i += width) {
    double product = 0, square = 0;
    for (std::size_t j = i; j < i + width; ++j) product += q[j] * k[j];
    for (std::size_t j = i; j < i + width; ++j) {
      k[j] -= product * q[j];
      square += k[j] * k[j];
    }
    for (std::size_t j = i; j < i + width; ++j)
      k[j] = planted_cosine * q[j] + sine * k[j] / std::sqrt(square);
  }
  data.k = Tensor::from(k, {1, 1, n, d});
  data.name = "planted";
  data.description = "a key planted for each query";
  return data;
}

// No output may be lost, at any inverse temperature.
void StabilityStudy::count_bad_outputs(const Data& data, StudyResult& result) const {
  std::int64_t calls = 0, bad = 0;
  for (const double beta : geometric(1e-6, 1e9, 31)) {
    for (const Precision& precision : {in_f64, in_f32, in_bf16}) {
      for (const Kind kind :
           {Kind::conformal_none, Kind::conformal_analytic, Kind::conformal_empirical}) {
        const HeadInputs in{.q = rounded(scale(data.q, beta), precision),
                            .k = rounded(data.k, precision),
                            .v = rounded(data.v, precision)};
        const Tensor out = attention(call_of(kind, in)).data();
        ++calls;
        bad += are_finite(out.to_vector<double>()) ? 0 : 1;
      }
    }
  }
  result.claims.push_back(
      {"Conformal attention needs no running maximum: no output is ever infinite or NaN",
       fmt::format("{} of {} calls, with beta from 1e-6 to 1e9, every normaliser and type, gave an "
                   "output that is not finite",
                   bad, calls),
       bad == 0});
}

void StabilityStudy::measure_errors(const Data& data, const StudyContext& context,
                                    std::int64_t part, StudyResult& result) const {
  struct Curve {
    const char* name;
    Kind kind;
    Precision precision;
  };
  const std::vector<Curve> curves = {
      {"softmax, f32", Kind::softmax, in_f32},
      {"softmax, bf16 operands", Kind::softmax, in_bf16},
      {"conformal analytic, f32", Kind::conformal_analytic, in_f32},
      {"conformal analytic, bf16 operands", Kind::conformal_analytic, in_bf16},
      {"conformal empirical, f32", Kind::conformal_empirical, in_f32},
      {"conformal empirical, bf16 operands", Kind::conformal_empirical, in_bf16}};
  Figure figure{.name = fmt::format("error-{}", data.name),
                .title = fmt::format("Error of outputs against f64: {}, n = {}, d = {}",
                                     data.description, n, d),
                .x_label = "inverse temperature beta",
                .y_label = "relative error",
                .x_axis = Axis::logarithmic,
                .y_axis = Axis::logarithmic};
  for (const Curve& curve : curves) figure.series.push_back({curve.name, betas(), {}});
  const std::vector<double> range = betas();
  for (std::size_t i = 0; i < range.size(); ++i) {
    context.progress(fmt::format("{}, beta = {}", data.description, short_number(range[i])),
                     part + static_cast<std::int64_t>(i), 3 + 2 * n_betas);
    const auto outputs = [&](Kind kind, const Precision& precision) {
      const HeadInputs in{.q = rounded(scale(data.q, range[i]), precision),
                          .k = rounded(data.k, precision),
                          .v = rounded(data.v, precision)};
      return attention(call_of(kind, in)).data().to_vector<double>();
    };
    for (std::size_t c = 0; c < curves.size(); ++c)
      figure.series[c].y.push_back(relative_error(outputs(curves[c].kind, curves[c].precision),
                                                  outputs(curves[c].kind, in_f64)));
  }
  const auto most = [&](std::size_t curve) {
    return short_number(*std::ranges::max_element(figure.series[curve].y));
  };
  result.findings.push_back(fmt::format(
      "With {}, the largest relative error of the outputs over beta from 1 to {} is {} for softmax "
      "in f32 and {} with bf16 operands; for conformal attention {} and {} (analytic), {} and {} "
      "(empirical).",
      data.description, short_number(range.back()), most(0), most(1), most(2), most(3), most(4),
      most(5)));
  result.figures.push_back(std::move(figure));
}

StudyResult StabilityStudy::run(const StudyContext& context) const {
  const std::int64_t total = 3 + 2 * n_betas;
  StudyResult result;
  context.progress("ranges", 0, total);
  show_ranges(result);
  context.progress("limits", 1, total);
  find_limits(result);
  context.progress("outputs that are not finite", 2, total);
  const Data random = random_data(context.seed);
  count_bad_outputs(random, result);
  measure_errors(random, context, 3, result);
  measure_errors(planted_data(context.seed), context, 3 + n_betas, result);
  result.findings.push_back(fmt::format(
      "The reason is the slope of the log weight over u: it is beta everywhere in softmax, and at "
      "most s / (1 - u) in conformal attention, {} at u = 0, however sharp the query. Where the "
      "sum of the weights divides out the error of one dominant key, softmax and the empirical "
      "form keep only the rounding of v; the analytic form keeps that of the weight itself.",
      short_number(s())));
  return result;
}

}  // namespace
}  // namespace e2_stability

std::unique_ptr<Study> make_e2_stability() {
  return std::make_unique<e2_stability::StabilityStudy>();
}

}  // namespace mobius
