// Certified pruning: how much of the keys a certificate has to look at.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "core/ops.h"
#include "core/parallel.h"
#include "nn/attention/conformal/certified.h"
#include "nn/attention/softmax.h"
#include "train/results/numbers.h"
#include "train/studies/builtin.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

enum class KeyCloud { uniform, clustered, low_rank };

constexpr std::array<std::pair<const char*, KeyCloud>, 3> key_clouds = {
    {{"uniform", KeyCloud::uniform},
     {"clustered", KeyCloud::clustered},
     {"low rank", KeyCloud::low_rank}}};
constexpr std::array<const char*, 2> kernel_names = {"conformal", "softmax"};

// Means and counts over the queries of one setting.
struct Cost {
  double nodes = 0, work = 0;  // work: distances per key, 1 for looking at every key
  std::int64_t n_converged = 0, n_within_bound = 0;
};

// Which part of the study a setting belongs to.
enum class Sweep { sharpness, keys, centred_values };

std::string label(std::int64_t cloud, std::int64_t kernel) {
  return fmt::format("{}, {}", kernel_names[static_cast<std::size_t>(kernel)],
                     key_clouds[static_cast<std::size_t>(cloud)].first);
}

void require_among(const char* key, const std::vector<double>& numbers, double number) {
  if (std::find(numbers.begin(), numbers.end(), number) == numbers.end())
    throw ConfigError("{} is not among the {}", number, key);
}

class PruningStudy final : public Study {
 public:
  std::int64_t d = 64, d_v = 8;
  std::vector<std::int64_t> n_keys = {1024, 4096, 16384, 32768};
  std::int64_t compared_n_keys = 4096;
  std::vector<double> betas = {4, 16, 64, 256, 1024};
  std::vector<double> epsilons = {0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-6};
  double compared_beta = 64, compared_epsilon = 0.01;
  std::int64_t n_queries = 8, n_clusters = 32, rank = 4, leaf_size = 8;
  double cluster_width = 0.3, query_noise = 0.5, value_mean = 1;

  std::string name() const override { return "e6_pruning"; }
  std::string question() const override {
    return "How many keys does a certified evaluation look at, and where does the tree pay?";
  }
  void describe(Schema& schema) override;
  StudyResult run(const StudyContext& context) const override;

 private:
  struct Setting {
    Sweep sweep = Sweep::sharpness;
    std::int64_t cloud = 0, kernel = 0;  // places in key_clouds and kernel_names
    std::int64_t n = 0;
    double beta = 0, epsilon = 0, value_mean = 0;
    Cost cost = {};
  };
  struct Cloud;
  struct Times {
    std::string label;
    double search, all_keys;  // of one query, in milliseconds
  };
  using IsOf = std::function<bool(const Setting&)>;
  using Number = std::function<double(const Setting&)>;

  std::vector<Setting> settings() const;
  Cloud cloud_of(const Setting& setting, std::uint64_t seed) const;
  CertifiedWeight weight(const Setting& setting) const;
  CertifiedOutput evaluate(const Cloud& cloud, std::int64_t query, const Setting& setting,
                           double epsilon) const;
  const std::vector<CertifiedOutput>& exact_outputs(Cloud& cloud, const Setting& setting) const;
  void measure(Setting& setting, Cloud& cloud) const;

  std::vector<Series> series_of(const std::vector<Setting>& all, const IsOf& is_of, const Number& x,
                                const Number& y) const;
  bool is_sharpness(const Setting& setting) const;
  std::vector<Series> nodes_by_keys(const std::vector<Setting>& all) const;
  void show(const std::vector<Setting>& all, StudyResult& result) const;
  StudyTable work_by_sharpness(const std::vector<Setting>& all, std::string title,
                               Sweep sweep) const;
  StudyTable growth(const std::vector<Setting>& all, std::string title) const;
  void judge_certificate(const std::vector<Setting>& all, StudyResult& result) const;
  void judge_work(const std::vector<Setting>& all, StudyResult& result) const;
  void judge_growth(const std::vector<Setting>& all, StudyResult& result) const;
  void judge_epsilon(const std::vector<Setting>& all, StudyResult& result) const;
  Times times(const Setting& setting, const Cloud& cloud) const;
  void judge_times(const std::vector<Times>& all, std::int64_t n, StudyResult& result) const;
};

void PruningStudy::describe(Schema& schema) {
  schema.field("d", d, "dimension of a head").at_least(3).at_most(1024);
  schema.field("d_v", d_v, "dimension of a value").positive().at_most(1024);
  schema.field("n_keys", n_keys, "keys, where their number varies").at_least(2).at_most(1e6);
  schema.field("compared_n_keys", compared_n_keys, "keys, where something else varies")
      .at_least(2)
      .at_most(1e6);
  schema.field("betas", betas, "inverse temperatures").positive().at_most(1e6);
  schema.field("epsilons", epsilons, "relative errors to be certified").positive().below(1);
  schema.field("compared_beta", compared_beta, "where something else varies").positive();
  schema.field("compared_epsilon", compared_epsilon, "where something else varies")
      .positive()
      .below(1);
  schema.field("n_queries", n_queries, "queries of a setting").positive().at_most(100000);
  schema.field("n_clusters", n_clusters, "of clustered keys").positive().at_most(1e6);
  schema.field("cluster_width", cluster_width, "length of a key's offset from its cluster's centre")
      .positive();
  schema.field("rank", rank, "dimension of the subspace of low-rank keys").positive();
  schema.field("query_noise", query_noise, "length of a query's offset from one of the keys")
      .non_negative();
  schema.field("value_mean", value_mean, "mean of each element of the values; its deviation is 1")
      .at_most(1e6);
  schema.field("leaf_size", leaf_size, "keys of a leaf").positive().at_most(1e6);
  schema.check("n_keys", [this] {
    if (n_keys.size() < 2) throw ConfigError("expected at least 2 numbers, got {}", n_keys.size());
  });
  schema.check("compared_beta", [this] { require_among("betas", betas, compared_beta); });
  schema.check("compared_epsilon",
               [this] { require_among("epsilons", epsilons, compared_epsilon); });
  schema.check("rank", [this] {
    if (rank > d) throw ConfigError("{} is more than d, {}", rank, d);
  });
  require_some(schema, "n_keys", n_keys);
  require_some(schema, "betas", betas);
  require_some(schema, "epsilons", epsilons);
}

struct PruningStudy::Cloud {
  Tensor keys, values, queries;  // [n, d], [n, d_v], [n_queries, d]
  CertifiedAttention attention;
  std::map<std::pair<std::int64_t, double>, std::vector<CertifiedOutput>> exact = {};
};

// Queries lie near keys, as those do that look for something.
PruningStudy::Cloud PruningStudy::cloud_of(const Setting& setting, std::uint64_t seed) const {
  const std::int64_t n = setting.n;
  const auto stream = [&](const char* purpose) {
    return RngKey{seed, stream_id(purpose, static_cast<std::uint64_t>(setting.cloud),
                                  static_cast<std::uint64_t>(n))};
  };
  const auto offsets = [&](const char* purpose, std::int64_t rows, double length) {
    const double each = length / std::sqrt(static_cast<double>(d));
    return random_normal({rows, d}, 0, each, stream(purpose), DType::f64);
  };
  const KeyCloud cloud = key_clouds[static_cast<std::size_t>(setting.cloud)].second;
  Tensor keys = offsets("keys", n, 1);
  if (cloud == KeyCloud::clustered) {
    const Tensor centres = polar(offsets("centres", n_clusters, 1)).direction;
    std::vector<Tensor> rounds;
    for (std::int64_t first = 0; first < n; first += n_clusters)
      rounds.push_back(centres.slice(0, 0, std::min(n_clusters, n - first)));
    keys = add(concat(rounds, 0), offsets("keys", n, cluster_width));
  } else if (cloud == KeyCloud::low_rank) {
    keys = concat({keys.slice(1, 0, rank), Tensor::zeros({n, d - rank}, DType::f64)}, 1);
  }
  keys = polar(keys).direction;
  const std::int64_t stride = std::max<std::int64_t>(1, n / n_queries);
  std::vector<Tensor> sought;
  for (std::int64_t i = 0; i < n_queries; ++i)
    sought.push_back(keys.slice(0, i * stride % n, i * stride % n + 1));
  const Tensor queries = add(concat(sought, 0), offsets("queries", n_queries, query_noise));
  const Tensor values =
      random_normal({n, d_v}, setting.value_mean, 1, stream("values"), DType::f64);
  return {.keys = keys,
          .values = values,
          .queries = polar(queries).direction,
          .attention = CertifiedAttention(keys, values, leaf_size)};
}

CertifiedWeight PruningStudy::weight(const Setting& setting) const {
  if (setting.kernel == 1) return certified_softmax(setting.beta);
  const ConformalKernel newton = conformal_kernel(ConformalWeight::newton, d);
  return certified_conformal(radius_of(setting.beta, newton.s).r, newton,
                             ConformalNormalize::analytic);
}

double distance_between(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (std::size_t c = 0; c < a.size(); ++c) squares += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(squares);
}

CertifiedOutput PruningStudy::evaluate(const Cloud& cloud, std::int64_t query,
                                       const Setting& setting, double epsilon) const {
  return cloud.attention.evaluate(
      {.direction = cloud.queries.slice(0, query, query + 1).reshape({d}),
       .weight = weight(setting),
       .epsilon = epsilon});
}

// The exact outputs are those of a search that stops nowhere; every epsilon is held to them.
const std::vector<CertifiedOutput>& PruningStudy::exact_outputs(Cloud& cloud,
                                                                const Setting& setting) const {
  std::vector<CertifiedOutput>& exact = cloud.exact[{setting.kernel, setting.beta}];
  if (!exact.empty()) return exact;
  exact.resize(static_cast<std::size_t>(n_queries));
  parallel_for_each(n_queries, 1, [&](std::int64_t i) {
    exact[static_cast<std::size_t>(i)] = evaluate(cloud, i, setting, /*epsilon=*/0);
  });
  return exact;
}

void PruningStudy::measure(Setting& setting, Cloud& cloud) const {
  const std::vector<CertifiedOutput>& exact_of = exact_outputs(cloud, setting);
  std::vector<CertifiedOutput> found_for(exact_of.size());
  parallel_for_each(n_queries, 1, [&](std::int64_t i) {
    found_for[static_cast<std::size_t>(i)] = evaluate(cloud, i, setting, setting.epsilon);
  });
  Cost& cost = setting.cost;
  for (std::size_t i = 0; i < exact_of.size(); ++i) {
    const CertifiedOutput &found = found_for[i], &exact = exact_of[i];
    cost.nodes += static_cast<double>(found.nodes_visited);
    cost.work += static_cast<double>(found.nodes_visited + found.keys_evaluated);
    cost.n_converged += found.end == CertifiedEnd::converged ? 1 : 0;
    const bool is_within = found.log_scale == exact.log_scale &&
                           distance_between(found.out, exact.out) <= found.bound + exact.bound;
    cost.n_within_bound += is_within ? 1 : 0;
  }
  cost.nodes /= static_cast<double>(n_queries);
  cost.work /= static_cast<double>(n_queries * setting.n);
}

// Every inverse temperature with every epsilon, then every number of keys, then values of mean 0.
std::vector<PruningStudy::Setting> PruningStudy::settings() const {
  std::vector<Setting> all;
  const auto add_both_kernels = [&](Setting setting) {
    for (setting.kernel = 0; setting.kernel < 2; ++setting.kernel) all.push_back(setting);
  };
  for (std::int64_t cloud = 0; cloud < std::ssize(key_clouds); ++cloud) {
    const Setting usual{.cloud = cloud,
                        .n = compared_n_keys,
                        .beta = compared_beta,
                        .epsilon = compared_epsilon,
                        .value_mean = value_mean};
    for (const double beta : betas) {
      for (const double epsilon : epsilons) {
        Setting setting = usual;
        setting.beta = beta;
        setting.epsilon = epsilon;
        add_both_kernels(setting);
      }
    }
    for (const double beta : betas) {
      Setting setting = usual;
      setting.sweep = Sweep::centred_values;
      setting.beta = beta;
      setting.value_mean = 0;
      add_both_kernels(setting);
    }
    for (const std::int64_t n : n_keys) {
      Setting setting = usual;
      setting.sweep = Sweep::keys;
      setting.n = n;
      add_both_kernels(setting);
    }
  }
  return all;
}

// One series for each cloud and kernel, of the settings that `is_of` takes.
std::vector<Series> PruningStudy::series_of(const std::vector<Setting>& all, const IsOf& is_of,
                                            const Number& x, const Number& y) const {
  std::vector<Series> every;
  for (std::int64_t cloud = 0; cloud < std::ssize(key_clouds); ++cloud) {
    for (std::int64_t kernel = 0; kernel < std::ssize(kernel_names); ++kernel) {
      Series series{label(cloud, kernel), {}, {}};
      for (const Setting& setting : all) {
        if (setting.cloud != cloud || setting.kernel != kernel || !is_of(setting)) continue;
        series.x.push_back(x(setting));
        series.y.push_back(y(setting));
      }
      every.push_back(std::move(series));
    }
  }
  return every;
}

bool PruningStudy::is_sharpness(const Setting& setting) const {
  return setting.sweep == Sweep::sharpness && setting.epsilon == compared_epsilon;
}

void PruningStudy::show(const std::vector<Setting>& all, StudyResult& result) const {
  const std::string at_n = fmt::format("n = {}", compared_n_keys);
  const std::string at_beta = fmt::format("beta = {}", short_number(compared_beta));
  const std::string at_epsilon = fmt::format("epsilon = {}", short_number(compared_epsilon));
  const auto figure = [&](std::string name, std::string title, std::string x_label,
                          std::string y_label, std::vector<Series> series) {
    result.figures.push_back({.name = std::move(name),
                              .title = std::move(title),
                              .x_label = std::move(x_label),
                              .y_label = std::move(y_label),
                              .x_axis = Axis::logarithmic,
                              .y_axis = Axis::logarithmic,
                              .series = std::move(series)});
  };
  const auto work = [](const Setting& s) { return s.cost.work; };
  const auto is_keys = [](const Setting& s) { return s.sweep == Sweep::keys; };
  figure("epsilon", fmt::format("Work for a certificate, {}, {}", at_n, at_beta),
         "certified relative error epsilon", "distances per key",
         series_of(
             all,
             [this](const Setting& s) {
               return s.sweep == Sweep::sharpness && s.beta == compared_beta;
             },
             [](const Setting& s) { return s.epsilon; }, work));
  figure("sharpness", fmt::format("Work for a certificate, {}, {}", at_n, at_epsilon),
         "inverse temperature beta", "distances per key",
         series_of(
             all, [this](const Setting& s) { return is_sharpness(s); },
             [](const Setting& s) { return s.beta; }, work));
  figure("keys", fmt::format("Nodes visited for a certificate, {}, {}", at_beta, at_epsilon),
         "keys n", "nodes visited",
         series_of(
             all, is_keys, [](const Setting& s) { return static_cast<double>(s.n); },
             [](const Setting& s) { return s.cost.nodes; }));
  result.tables.push_back(work_by_sharpness(
      all, fmt::format("Distances per key, {}, {}", at_n, at_epsilon), Sweep::sharpness));
  result.tables.push_back(work_by_sharpness(
      all, fmt::format("Distances per key where the values have mean 0, {}, {}", at_n, at_epsilon),
      Sweep::centred_values));
  result.tables.push_back(growth(all, fmt::format("Nodes visited, {}, {}", at_beta, at_epsilon)));
}

StudyTable PruningStudy::work_by_sharpness(const std::vector<Setting>& all, std::string title,
                                           Sweep sweep) const {
  StudyTable table{.title = std::move(title), .columns = {"kernel, keys"}};
  for (const double beta : betas)
    table.columns.push_back(fmt::format("beta = {}", short_number(beta)));
  const auto is_of = [&](const Setting& s) {
    return s.sweep == sweep && s.epsilon == compared_epsilon;
  };
  for (const Series& series : series_of(
           all, is_of, [](const Setting& s) { return s.beta; },
           [](const Setting& s) { return s.cost.work; })) {
    std::vector<Cell> row{series.name};
    row.insert(row.end(), series.y.begin(), series.y.end());
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The exponent of n from the smallest to the largest number of keys.
double growth_exponent(const Series& series) {
  return std::log(series.y.back() / series.y.front()) /
         std::log(series.x.back() / series.x.front());
}

StudyTable PruningStudy::growth(const std::vector<Setting>& all, std::string title) const {
  StudyTable table{.title = std::move(title), .columns = {"kernel, keys"}};
  for (const std::int64_t n : n_keys) table.columns.push_back(fmt::format("n = {}", n));
  table.columns.emplace_back("exponent of n");
  for (const Series& series : nodes_by_keys(all)) {
    std::vector<Cell> row{series.name};
    row.insert(row.end(), series.y.begin(), series.y.end());
    row.emplace_back(growth_exponent(series));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<Series> PruningStudy::nodes_by_keys(const std::vector<Setting>& all) const {
  return series_of(
      all, [](const Setting& s) { return s.sweep == Sweep::keys; },
      [](const Setting& s) { return static_cast<double>(s.n); },
      [](const Setting& s) { return s.cost.nodes; });
}

// ---- what it says

void PruningStudy::judge_certificate(const std::vector<Setting>& all, StudyResult& result) const {
  std::int64_t n_searches = 0, n_within = 0, n_converged = 0;
  for (const Setting& setting : all) {
    n_searches += n_queries;
    n_within += setting.cost.n_within_bound;
    n_converged += setting.cost.n_converged;
  }
  result.claims.push_back(
      {"The certified bound holds for every query",
       fmt::format("{} of {} outputs are within their bound of the output over all keys", n_within,
                   n_searches),
       n_within == n_searches});
  result.claims.push_back({"Without a budget the search reaches every epsilon of this study",
                           fmt::format("{} of {} searches did", n_converged, n_searches),
                           n_converged == n_searches});
}

// Pruning pays where fewer distances are computed than there are keys.
void PruningStudy::judge_work(const std::vector<Setting>& all, StudyResult& result) const {
  const auto is_of = [this](const Setting& s) { return is_sharpness(s); };
  for (const Series& series : series_of(
           all, is_of, [](const Setting& s) { return s.beta; },
           [](const Setting& s) { return s.cost.work; })) {
    const auto at = [&](auto place) {
      const auto i = static_cast<std::size_t>(place - series.y.begin());
      return fmt::format("{} (beta = {})", short_number(series.y[i]), short_number(series.x[i]));
    };
    const auto [least, most] = std::minmax_element(series.y.begin(), series.y.end());
    const auto n_paying =
        std::count_if(series.y.begin(), series.y.end(), [](double work) { return work < 0.5; });
    result.findings.push_back(fmt::format(
        "{} keys: a certificate of {} over {} keys takes from {} to {} distances per key, and less "
        "than half a distance per key at {} of {} inverse temperatures.",
        series.name, short_number(compared_epsilon), compared_n_keys, at(least), at(most), n_paying,
        series.y.size()));
  }
}

void PruningStudy::judge_epsilon(const std::vector<Setting>& all, StudyResult& result) const {
  const auto [least, most] = std::minmax_element(epsilons.begin(), epsilons.end());
  std::string costs;
  for (const Series& series : series_of(
           all,
           [this](const Setting& s) {
             return s.sweep == Sweep::sharpness && s.beta == compared_beta;
           },
           [](const Setting& s) { return s.epsilon; },
           [](const Setting& s) { return s.cost.work; })) {
    const auto work_at = [&](double epsilon) {
      const auto place = std::find(series.x.begin(), series.x.end(), epsilon) - series.x.begin();
      return series.y[static_cast<std::size_t>(place)];
    };
    costs += fmt::format("{}{} to {} ({})", costs.empty() ? "" : ", ", short_number(work_at(*most)),
                         short_number(work_at(*least)), series.name);
  }
  if (costs.empty()) return;
  result.findings.push_back(
      fmt::format("From epsilon = {} to {} the distances per key grow from {} (beta = {}, n = {}).",
                  short_number(*most), short_number(*least), costs, short_number(compared_beta),
                  compared_n_keys));
}

// Fewer distances are not always less time: attention over all keys is a matrix product. Both take
// one query at a time.
PruningStudy::Times PruningStudy::times(const Setting& setting, const Cloud& cloud) const {
  const auto milliseconds_of = [&](const auto& one_query) {
    one_query(0);  // the first one also pays for memory
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < n_queries; ++i) one_query(i);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return took.count() / static_cast<double>(n_queries);
  };
  const NoGradGuard no_grad;
  const Variable k(cloud.keys.reshape({1, 1, setting.n, d})),
      v(cloud.values.reshape({1, 1, setting.n, d_v}));
  return {label(setting.cloud, setting.kernel),
          milliseconds_of([&](std::int64_t i) { evaluate(cloud, i, setting, setting.epsilon); }),
          milliseconds_of([&](std::int64_t i) {
            const Variable q(cloud.queries.slice(0, i, i + 1).reshape({1, 1, 1, d}));
            attention(softmax_call({.q = q, .k = k, .v = v}, setting.beta));
          })};
}

void PruningStudy::judge_times(const std::vector<Times>& all, std::int64_t n,
                               StudyResult& result) const {
  StudyTable table{
      .title = fmt::format("Time of one query among {} keys, beta = {}, epsilon = {}", n,
                           short_number(compared_beta), short_number(compared_epsilon)),
      .columns = {"kernel, keys", "search (ms)", "fused softmax over all keys (ms)"}};
  const auto by_search = [](const Times& a, const Times& b) { return a.search < b.search; };
  const auto [fastest, slowest] = std::minmax_element(all.begin(), all.end(), by_search);
  const auto by_all_keys = [](const Times& a, const Times& b) { return a.all_keys < b.all_keys; };
  // The same work for each, so that the least time is the least disturbed.
  const double all_keys = std::min_element(all.begin(), all.end(), by_all_keys)->all_keys;
  std::int64_t n_faster = 0;
  for (const Times& one : all) {
    table.rows.push_back({one.label, one.search, one.all_keys});
    n_faster += one.search < all_keys ? 1 : 0;
  }
  result.findings.push_back(fmt::format(
      "In time, one search of {} keys in f64 took from {} ms ({}) to {} ms ({}), and fused softmax "
      "attention over all of them {} ms at best (beta = {}, epsilon = {}): the search was "
      "faster for {} of {} kernels and kinds of keys.",
      n, short_number(fastest->search), fastest->label, short_number(slowest->search),
      slowest->label, short_number(all_keys), short_number(compared_beta),
      short_number(compared_epsilon), n_faster, all.size()));
  result.tables.push_back(std::move(table));
}

void PruningStudy::judge_growth(const std::vector<Setting>& all, StudyResult& result) const {
  double largest = 0;
  std::string slowest;
  for (const Series& series : nodes_by_keys(all)) {
    const double exponent = growth_exponent(series);
    slowest +=
        fmt::format("{}{} ({})", slowest.empty() ? "" : ", ", short_number(exponent), series.name);
    largest = std::max(largest, exponent);
  }
  result.claims.push_back(
      {fmt::format("Nodes visited grow more slowly than the number of keys, from {} to {} keys "
                   "(beta = {}, epsilon = {})",
                   n_keys.front(), n_keys.back(), short_number(compared_beta),
                   short_number(compared_epsilon)),
       "exponents of n: " + slowest, largest < 0.9});
}

StudyResult PruningStudy::run(const StudyContext& context) const {
  std::vector<Setting> all = settings();
  StudyResult result;
  std::optional<Cloud> cloud;
  std::vector<Times> measured_times;
  const auto total = std::ssize(all);
  const std::int64_t most_keys = *std::max_element(n_keys.begin(), n_keys.end());
  for (std::int64_t i = 0; i < total; ++i) {
    Setting& setting = all[static_cast<std::size_t>(i)];
    const Setting* const last = i == 0 ? nullptr : &all[static_cast<std::size_t>(i - 1)];
    context.progress(
        fmt::format("{} keys, n = {}", key_clouds[static_cast<std::size_t>(setting.cloud)].first,
                    setting.n),
        i, total);
    const bool is_same = last != nullptr && last->cloud == setting.cloud && last->n == setting.n &&
                         last->value_mean == setting.value_mean;
    if (!is_same) cloud.emplace(cloud_of(setting, context.seed));
    measure(setting, *cloud);
    if (setting.sweep == Sweep::keys && setting.n == most_keys)
      measured_times.push_back(times(setting, *cloud));
  }
  judge_certificate(all, result);
  judge_growth(all, result);
  judge_work(all, result);
  judge_epsilon(all, result);
  judge_times(measured_times, most_keys, result);
  show(all, result);
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e6_pruning() { return std::make_unique<PruningStudy>(); }

}  // namespace mobius
