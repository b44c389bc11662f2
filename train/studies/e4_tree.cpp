// Nodes touched by the tree of moments and the time it takes, up to 2^20 keys.
#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "core/ops.h"
#include "train/studies/builtin.h"
#include "train/studies/decoding.h"

namespace mobius {

namespace {

// What was measured of one operation of a tree of n keys.
struct Touched {
  double mean_nodes = 0, most_nodes = 0, microseconds = 0;
};

// A tree of n keys.
struct TreeRow {
  double n = 0, bound = 0;
  Touched append = {};  // of a key, and reading the moments of its position
  Touched query = {};   // the moments of any earlier position
  double bytes = 0;
};

class TreeStudy final : public Study {
 public:
  std::string name() const override { return "e4_tree"; }
  std::string question() const override {
    return "How many nodes of the tree of moments does a token touch, and how long does it take, "
           "up to 2^20 keys?";
  }
  void describe(Schema& schema) override {
    schema.field("log2_longest", log2_longest_, "log2 of the number of keys")
        .at_least(10)
        .at_most(24);
    schema.field("head_dim", sizes_.head_dim, "width of keys and values").at_least(3);
    schema.field("degree", sizes_.degree, "of the features of keys").at_least(0).at_most(2);
    schema.field("window", sizes_.window, "newest keys, which are in no node")
        .positive()
        .at_most(512);
    schema.field("block", sizes_.block, "keys of a leaf").positive().at_most(128);
    schema
        .field("rounds", rounds_,
               "blocks of keys appended, and of positions queried, at each length")
        .positive()
        .at_most(8);
  }
  StudyResult run(const StudyContext& context) const override;

 private:
  std::int64_t log2_longest_ = 20;
  DecodingSizes sizes_{.head_dim = 32};
  std::int64_t rounds_ = 8;

  ConformalKVTree empty_tree() const;
  void grow(ConformalKVTree& tree, std::int64_t n, std::uint64_t seed) const;
  Touched append_keys(ConformalKVTree& tree, std::uint64_t seed) const;
  Touched query_positions(ConformalKVTree& tree, Rng& rng) const;
  std::vector<TreeRow> measure(const StudyContext& context) const;
};

ConformalKVTree TreeStudy::empty_tree() const {
  const std::shared_ptr<const FarField> far_field = far_field_of(sizes_);
  return {key_features_of(far_field), {.window = sizes_.window, .block = sizes_.block}};
}

// Appends random keys up to n of them.
void TreeStudy::grow(ConformalKVTree& tree, std::int64_t n, std::uint64_t seed) const {
  for_random_keys(sizes_, n - tree.length(), stream_id("grow", seed, static_cast<std::uint64_t>(n)),
                  [&](const Tensor& k, const Tensor& v) { tree.append(polar(k).direction, v); });
}

// Calls it for each of n_calls, several rounds; a call returns the nodes that it touched. The time
// of a call is that of the fastest round: among the appends of a round is one that closes a block.
Touched touched_by(std::int64_t rounds, std::int64_t n_calls,
                   const std::function<std::int64_t()>& call) {
  Touched touched;
  const std::vector<double> times = times_of(
      [&] {
        for (std::int64_t i = 0; i < n_calls; ++i) {
          const auto nodes = static_cast<double>(call());
          touched.mean_nodes += nodes / static_cast<double>(rounds * n_calls);
          touched.most_nodes = std::max(touched.most_nodes, nodes);
        }
      },
      /*seconds=*/0, static_cast<std::size_t>(rounds));
  touched.microseconds = times.front() / static_cast<double>(n_calls);
  return touched;
}

Touched TreeStudy::append_keys(ConformalKVTree& tree, std::uint64_t seed) const {
  Tensor zeta, v;
  for_random_keys(sizes_, rounds_ * sizes_.block, stream_id("append", seed),
                  [&](const Tensor& keys, const Tensor& values) {
                    zeta = polar(keys).direction;
                    v = values;
                  });
  std::int64_t i = 0;
  return touched_by(rounds_, sizes_.block, [&] {
    tree.append(zeta.slice(2, i, i + 1), v.slice(2, i, i + 1));
    ++i;
    tree.moments(tree.length() - 1);
    return tree.nodes_appended() + tree.nodes_read();
  });
}

Touched TreeStudy::query_positions(ConformalKVTree& tree, Rng& rng) const {
  return touched_by(rounds_, sizes_.block, [&] {
    tree.moments(static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(tree.length()))));
    return tree.nodes_read();
  });
}

std::vector<TreeRow> TreeStudy::measure(const StudyContext& context) const {
  constexpr std::int64_t log2_shortest = 10;
  ConformalKVTree tree = empty_tree();
  Rng rng({context.seed, stream_id("positions")});
  std::vector<TreeRow> rows;
  for (std::int64_t log2_n = log2_shortest; log2_n <= log2_longest_; ++log2_n) {
    const std::int64_t n = std::int64_t{1} << log2_n;
    context.progress(fmt::format("2^{} keys", log2_n), log2_n - log2_shortest,
                     log2_longest_ - log2_shortest + 1);
    const std::int64_t n_single = rounds_ * sizes_.block;
    if (tree.length() < n - n_single) grow(tree, n - n_single, context.seed);
    TreeRow row{.n = static_cast<double>(n)};
    row.bound = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(n / sizes_.block)));
    row.append = append_keys(tree, context.seed + static_cast<std::uint64_t>(log2_n));
    row.query = query_positions(tree, rng);
    row.bytes = static_cast<double>(tree.bytes());
    rows.push_back(row);
  }
  return rows;
}

std::string whole(double n) { return fmt::format("{:.0f}", n); }

StudyTable tree_table(const std::vector<TreeRow>& rows) {
  StudyTable table{
      .title = "The tree by its length",
      .columns = {"keys", "log2(n / block) + 1", "nodes, append and read (mean)", "(most)", "us",
                  "nodes, any position (mean)", "(most)", "us", "MiB, with room to grow"}};
  for (const TreeRow& row : rows) {
    table.rows.push_back({row.n, row.bound, row.append.mean_nodes, row.append.most_nodes,
                          row.append.microseconds, row.query.mean_nodes, row.query.most_nodes,
                          row.query.microseconds, row.bytes / (1 << 20)});
  }
  return table;
}

// One curve over the number of keys.
Series tree_curve(const std::string& name, const std::vector<TreeRow>& rows,
                  const std::function<double(const TreeRow&)>& value) {
  Series series{.name = name, .x = {}, .y = {}};
  for (const TreeRow& row : rows) {
    series.x.push_back(row.n);
    series.y.push_back(value(row));
  }
  return series;
}

std::vector<Figure> tree_figures(const std::vector<TreeRow>& rows) {
  return {{.name = "nodes",
           .title = "Nodes touched by one token",
           .x_label = "keys",
           .y_label = "nodes",
           .x_axis = Axis::logarithmic,
           .series = {tree_curve("bound", rows, [](const TreeRow& row) { return row.bound; }),
                      tree_curve("any position, most", rows,
                                 [](const TreeRow& row) { return row.query.most_nodes; }),
                      tree_curve("any position, mean", rows,
                                 [](const TreeRow& row) { return row.query.mean_nodes; }),
                      tree_curve("next token, mean", rows,
                                 [](const TreeRow& row) { return row.append.mean_nodes; })}},
          {.name = "time",
           .title = "Time of one token in the tree, without the window",
           .x_label = "keys",
           .y_label = "microseconds",
           .x_axis = Axis::logarithmic,
           .series = {tree_curve("any position", rows,
                                 [](const TreeRow& row) { return row.query.microseconds; }),
                      tree_curve("next token", rows,
                                 [](const TreeRow& row) { return row.append.microseconds; })}}};
}

std::vector<std::string> tree_findings(const std::vector<TreeRow>& rows) {
  const TreeRow &first = rows.front(), &last = rows.back();
  return {
      fmt::format("While the keys grew from {} to {}, {}-fold, the time of the next token became "
                  "{:.2f} times what it was, and that of a query at any position {:.2f} times.",
                  whole(first.n), whole(last.n), whole(last.n / first.n),
                  last.append.microseconds / first.append.microseconds,
                  last.query.microseconds / first.query.microseconds),
      fmt::format("With {} keys, a query at any position read {:.1f} nodes on average and {} at "
                  "most, of at most log2(n / block) + 1 = {}.",
                  whole(last.n), last.query.mean_nodes, whole(last.query.most_nodes),
                  whole(last.bound)),
      fmt::format("The next token touches {:.2f} nodes on average and {} at most: only one token "
                  "in a block closes one and sums nodes anew, the others add a key to the moments "
                  "at hand. A query at any position also waits for its nodes and keys, which come "
                  "from main memory once the tree has outgrown the caches ({:.0f} MiB at the end).",
                  last.append.mean_nodes, whole(last.append.most_nodes), last.bytes / (1 << 20)),
  };
}

Claim bound_holds(const std::vector<TreeRow>& rows) {
  bool holds = true;
  for (const TreeRow& row : rows) {
    holds = holds && row.query.most_nodes <= row.bound;
    holds = holds && row.append.most_nodes <= 2 * row.bound;  // written and read
  }
  const TreeRow& last = rows.back();
  return {.statement = "Appending a key touches O(log n) nodes, and a query as many.",
          .measured = fmt::format("At most {} nodes to append a key and read its position, and {} "
                                  "for any position, of {} keys; the bound is {} for each.",
                                  whole(last.append.most_nodes), whole(last.query.most_nodes),
                                  whole(last.n), whole(last.bound)),
          .holds = holds};
}

StudyResult TreeStudy::run(const StudyContext& context) const {
  const std::vector<TreeRow> rows = measure(context);
  return {.findings = tree_findings(rows),
          .claims = {bound_holds(rows)},
          .tables = {tree_table(rows)},
          .figures = tree_figures(rows)};
}

}  // namespace

std::unique_ptr<Study> make_e4_tree() { return std::make_unique<TreeStudy>(); }

}  // namespace mobius
