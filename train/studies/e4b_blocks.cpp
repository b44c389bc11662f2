// Accuracy of the moments in the tree's nodes, by the number of keys that a node stands for, and
// what the size of a leaf costs.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/ops.h"
#include "nn/attention/conformal/conformal.h"
#include "train/studies/builtin.h"
#include "train/studies/decoding.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

// Keys and values, in f64.
struct KeySample {
  std::string name;
  Tensor zeta, v;   // [1, 1, n, d], [1, 1, n, d_v]
  bool is_shifted;  // whether the mean of the values is 1 and not 0
};

struct LeafRow {
  double block = 0;
  double next_microseconds = 0, any_microseconds = 0;
  double bytes = 0;          // without history
  double nodes_per_key = 0;  // numbers of the nodes for each key, with all history
};

class BlocksStudy final : public Study {
 public:
  std::string name() const override { return "e4b_blocks"; }
  std::string question() const override {
    return "How exact are the moments of a node of the tree, by its number of keys, and how large "
           "should a leaf be?";
  }
  void describe(Schema& schema) override {
    schema.field("log2_keys", log2_keys_, "log2 of the number of keys").at_least(10).at_most(20);
    schema.field("n_queries", n_queries_, "queries that the errors are averaged over").positive();
    schema.field("radii", radii_, "of the queries").above(0).at_most(0.5);
    schema.field("n_clusters", n_clusters_, "clusters of the clustered keys").positive();
    schema.field("spread", spread_, "|noise| / |centre| of a clustered key").positive();
    schema.field("head_dim", sizes_.head_dim, "width of keys and values").at_least(3);
    schema.field("degree", sizes_.degree, "of the features of keys").at_least(0).at_most(2);
    schema.field("window", sizes_.window, "newest keys, which are in no node").positive();
    schema.field("leaves", leaves_, "keys of a leaf, each of which is tried")
        .positive()
        .at_most(1024);
    require_some(schema, "radii", radii_);
    require_some(schema, "leaves", leaves_);
  }
  StudyResult run(const StudyContext& context) const override;

 private:
  std::int64_t log2_keys_ = 14, n_queries_ = 128;
  std::vector<double> radii_{0.01, 0.03, 0.1};
  std::int64_t n_clusters_ = 32;
  double spread_ = 0.5;
  DecodingSizes sizes_{};
  std::vector<std::int64_t> leaves_{8, 16, 32, 64, 128, 256, 512};

  std::int64_t n_keys() const { return std::int64_t{1} << log2_keys_; }
  std::vector<KeySample> samples(std::uint64_t seed) const;
  Series error_by_node(const KeySample& keys, double radius, std::uint64_t seed) const;
  Series rounding(const KeySample& keys, std::int64_t block, std::string name) const;
  LeafRow leaf_row(std::int64_t block, std::uint64_t seed) const;
};

std::vector<KeySample> BlocksStudy::samples(std::uint64_t seed) const {
  const std::int64_t n = n_keys(), d = sizes_.head_dim;
  const auto drawn = [&](const Shape& shape, double mean, const char* what) {
    return random_normal(shape, mean, 1, {seed, stream_id(what)}, DType::f64);
  };
  const Tensor noise = drawn({1, 1, n, d}, 0, "keys");
  const Tensor centres = polar(drawn({n_clusters_, d}, 0, "centres")).direction;
  Rng rng({seed, stream_id("clusters")});
  std::vector<std::int64_t> cluster(static_cast<std::size_t>(n));
  for (std::int64_t& c : cluster)
    c = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n_clusters_)));
  const Tensor of_key = gather_rows(centres, Tensor::from(cluster, {1, 1, n}));
  const Tensor random = polar(noise).direction;
  const Tensor clustered = polar(add(of_key, scale(random, spread_))).direction;
  const Tensor centred = drawn({1, 1, n, d}, 0, "values"), shifted = affine(centred, 1, 1);
  return {{"random keys, values of mean 0", random, centred, false},
          {"random keys, values of mean 1", random, shifted, true},
          {"clustered keys, values of mean 0", clustered, centred, false}};
}

// The error of sum_j <query_features, key_features_j> v_j over the keys of a node, relative to the
// exact sum, in the root mean square of all queries and nodes of one size.
Series BlocksStudy::error_by_node(const KeySample& keys, double radius, std::uint64_t seed) const {
  const std::int64_t n = n_keys(), d = sizes_.head_dim;
  const Shape per_query{1, 1, n_queries_, 1};
  const BallPoints points{
      .radius = {.r = Variable(Tensor::full(per_query, radius, DType::f64)),
                 .one_minus_r = Variable(Tensor::full(per_query, 1 - radius, DType::f64))},
      .qhat = Variable(polar(random_normal({1, 1, n_queries_, d}, 0, 1,
                                           {seed, stream_id("queries")}, DType::f64))
                           .direction),
      .zeta = Variable(keys.zeta)};
  // With a count of 1 the analytic weights are the kernel of unit mean, which features approach.
  const AttentionCall call =
      conformal_call({}, points, Tensor::ones({1}, DType::f64),
                     conformal_kernel(ConformalWeight::newton, d), ConformalNormalize::analytic);
  const Tensor exact = attention_weights(call).data();  // [1, 1, n_q, n]
  const auto far_field = far_field_of(sizes_);
  const Tensor approached = matmul(far_field->query_features(points).data(),
                                   far_field->key_features(points.zeta).data().transpose(-1, -2));
  const Tensor missed = sub(approached, exact);

  Series series{.name = fmt::format("{}, r = {}", keys.name, radius), .x = {}, .y = {}};
  for (std::int64_t size = 64; size <= n; size *= 2) {
    const auto sums = [&](const Tensor& weights) {  // of every node of this size
      const Tensor by_node =
          weights.reshape({n_queries_, n / size, size}).transpose(0, 1);  // [nodes, n_q, size]
      return std::sqrt(sum_of_squares(matmul(by_node, keys.v.reshape({n / size, size, d}))));
    };
    series.x.push_back(static_cast<double>(size));
    series.y.push_back(sums(missed) / sums(exact));
  }
  return series;
}

// The rounding error of moments that are summed in f32 while keys are read one by one.
Series BlocksStudy::rounding(const KeySample& keys, std::int64_t block, std::string name) const {
  const auto far_field = far_field_of(sizes_);
  const Tensor features = far_field->key_features(Variable(keys.zeta)).data().to(DType::f32);
  const Tensor v = keys.v.to(DType::f32);
  // The tree is given features for keys, so that nothing but its sums is rounded.
  ConformalKVTree tree({features.size(3), [](const Variable& x) { return x; }},
                       {.window = sizes_.window, .block = block, .history = 0});
  Series series{.name = std::move(name), .x = {}, .y = {}};
  std::int64_t next = 256;
  for (std::int64_t i = 0; i < n_keys(); ++i) {
    tree.append(features.slice(2, i, i + 1), v.slice(2, i, i + 1));
    const Tensor moments = tree.moments(i).to(DType::f64);
    if (i + 1 != next) continue;
    next *= 2;
    const std::int64_t n_far = std::max<std::int64_t>(i + 1 - sizes_.window, 0);
    const auto first = [&](const Tensor& x) { return x.slice(2, 0, n_far).to(DType::f64); };
    const Tensor exact = matmul(first(features).transpose(-1, -2), first(v));
    series.x.push_back(static_cast<double>(i + 1));
    series.y.push_back(std::sqrt(sum_of_squares(sub(moments, exact)) / sum_of_squares(exact)));
  }
  return series;
}

// What a leaf of `block` keys costs in f32.
LeafRow BlocksStudy::leaf_row(std::int64_t block, std::uint64_t seed) const {
  const auto far_field = far_field_of(sizes_);
  const auto tree_with = [&](std::int64_t history) {
    return ConformalKVTree(key_features_of(far_field),
                           {.window = sizes_.window, .block = block, .history = history});
  };
  ConformalKVTree newest = tree_with(0), all = tree_with(KVTreeOptions::unlimited);
  Tensor zeta, v;
  for_random_keys(sizes_, n_keys(), seed, [&](const Tensor& keys, const Tensor& values) {
    zeta = polar(keys).direction;
    v = values;
    newest.append(zeta, v);
    all.append(zeta, v);
  });
  LeafRow row{.block = static_cast<double>(block)};
  const auto read_block = [&] {
    for (std::int64_t i = 0; i < block; ++i) {
      newest.append(zeta.slice(2, i, i + 1), v.slice(2, i, i + 1));
      newest.moments(newest.length() - 1);
    }
  };
  times_of(read_block, /*seconds=*/0.05, 2);
  row.next_microseconds = times_of(read_block, 0.2, 5).front() / row.block;
  row.bytes = static_cast<double>(newest.bytes());
  Rng rng({seed, stream_id("positions")});
  row.any_microseconds = median_of(times_of(
      [&] {
        all.moments(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n_keys()))));
      },
      0.2, 50));
  row.nodes_per_key =
      static_cast<double>(all.n_nodes() * far_field->n_features() * sizes_.head_dim) /
      static_cast<double>(n_keys());
  return row;
}

StudyTable leaf_table(const std::vector<LeafRow>& rows) {
  StudyTable table{
      .title = "The size of a leaf",
      .columns = {"keys of a leaf", "next token, us", "any position, us",
                  "state without history, KiB", "numbers in nodes for each key, all history"}};
  for (const LeafRow& row : rows)
    table.rows.push_back({row.block, row.next_microseconds, row.any_microseconds, row.bytes / 1024,
                          row.nodes_per_key});
  return table;
}

// The error of the largest nodes over that of the smallest, the least and the largest of all.
std::pair<double, double> error_changes(const std::vector<Series>& all) {
  std::pair<double, double> range{std::numeric_limits<double>::infinity(), 0};
  for (const Series& series : all) {
    const double change = series.y.back() / series.y.front();
    range = {std::min(range.first, change), std::max(range.second, change)};
  }
  return range;
}

std::string error_change(const std::vector<Series>& centred, const std::vector<Series>& shifted) {
  const auto [least, most] = error_changes(centred);
  const auto [least_shifted, most_shifted] = error_changes(shifted);
  const double smallest = centred[0].x.front(), largest = centred[0].x.back();
  return fmt::format(
      "Relative to the exact sum, nodes of {:.0f} keys have an error of {:.2f} to {:.2f} times "
      "that of nodes of {:.0f} if the values have mean 0: larger nodes are no worse, because all "
      "share one basis. If they have mean 1, it is {:.3f} to {:.3f} times as large (the root of "
      "{:.0f} / {:.0f} is {:.3f}): features hold the mean of the values, and what they miss "
      "averages out.",
      largest, least, most, smallest, least_shifted, most_shifted, smallest, largest,
      std::sqrt(smallest / largest));
}

// The error of the largest nodes.
std::string error_sizes(const std::vector<Series>& all) {
  std::string errors;
  for (const Series& series : all)
    errors +=
        fmt::format("{}{:.2g} for {}", errors.empty() ? "" : "; ", series.y.back(), series.name);
  return fmt::format("In nodes of {:.0f} keys the error is {}.", all.front().x.back(), errors);
}

std::string leaf_finding(const std::vector<LeafRow>& rows, const DecodingSizes& sizes) {
  const auto numbers = static_cast<double>(2 * sizes.head_dim);
  const LeafRow &smallest = rows.front(), &largest = rows.back();
  const LeafRow& leanest =
      *std::min_element(rows.begin(), rows.end(),
                        [](const LeafRow& a, const LeafRow& b) { return a.bytes < b.bytes; });
  return fmt::format(
      "A leaf of {:.0f} keys takes {:.1f} numbers of nodes for each key, beside the {:.0f} of the "
      "key and its value, and one of {:.0f} keys takes {:.1f}; the next token takes {:.2f} times "
      "as long with the small leaf as with the large one, and any other position {:.2f} times. "
      "Without history the state is smallest with leaves of {:.0f} keys, {:.0f} KiB.",
      smallest.block, smallest.nodes_per_key, numbers, largest.block, largest.nodes_per_key,
      smallest.next_microseconds / largest.next_microseconds,
      smallest.any_microseconds / largest.any_microseconds, leanest.block, leanest.bytes / 1024);
}

StudyResult BlocksStudy::run(const StudyContext& context) const {
  const std::vector<KeySample> keys = samples(context.seed);
  const auto n_parts = static_cast<std::int64_t>(keys.size() * radii_.size() + 2 + leaves_.size());
  std::int64_t part = 0;
  StudyResult result;
  Figure errors{.name = "errors",
                .title = "Error of the moments of a node",
                .x_label = "keys of the node",
                .y_label = "error relative to the exact sum",
                .x_axis = Axis::logarithmic,
                .y_axis = Axis::logarithmic};
  std::vector<Series> centred, shifted;
  for (const KeySample& sample : keys)
    for (const double radius : radii_) {
      context.progress(sample.name, part++, n_parts);
      errors.series.push_back(error_by_node(sample, radius, context.seed));
      (sample.is_shifted ? shifted : centred).push_back(errors.series.back());
    }
  result.findings = {error_change(centred, shifted), error_sizes(errors.series)};

  Figure rounded{.name = "rounding",
                 .title = "Rounding of moments summed in f32",
                 .x_label = "keys",
                 .y_label = "error relative to f64",
                 .x_axis = Axis::logarithmic,
                 .y_axis = Axis::logarithmic};
  for (const bool is_tree : {true, false}) {
    const char* name = is_tree ? "tree" : "running sum";
    context.progress(fmt::format("rounding of the {}", name), part++, n_parts);
    rounded.series.push_back(rounding(keys[1], is_tree ? sizes_.block : 2 * n_keys(), name));
  }
  const Series &tree = rounded.series[0], &running = rounded.series[1];
  result.findings.push_back(fmt::format(
      "After {:.0f} keys read one by one in f32, the tree's moments have a rounding error of "
      "{:.2g}, and a running sum one of {:.2g}: {:.1f} times as much.",
      tree.x.back(), tree.y.back(), running.y.back(), running.y.back() / tree.y.back()));

  std::vector<LeafRow> rows;
  for (const std::int64_t block : leaves_) {
    context.progress(fmt::format("leaves of {} keys", block), part++, n_parts);
    rows.push_back(leaf_row(block, context.seed));
  }
  result.findings.push_back(leaf_finding(rows, sizes_));
  result.tables = {leaf_table(rows)};
  result.figures = {std::move(errors), std::move(rounded)};
  return result;
}

}  // namespace

std::unique_ptr<Study> make_e4b_blocks() { return std::make_unique<BlocksStudy>(); }

}  // namespace mobius
