// The cost of one more token against the length of the context: the tree of moments, a cache of all
// keys and values, and linear attention's sums.
#include <fmt/core.h>

#include <iterator>
#include <map>
#include <utility>

#include "train/studies/builtin.h"
#include "train/studies/decoding.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

// Of each kind, its cost after each context.
using DecodingCosts = std::map<DecodingKind, std::vector<DecodingCost>>;

class DecodingStudy final : public Study {
 public:
  std::string name() const override { return "e8_decoding"; }
  std::string question() const override {
    return "What does decoding one token cost after a context of n tokens, in time and memory, by "
           "the tree, by a cache of all keys and values, and by recurrent linear attention?";
  }
  void describe(Schema& schema) override {
    schema.field("contexts", contexts_, "numbers of tokens before").positive().at_most(1 << 24);
    schema.field("n_heads", sizes_.n_heads, "heads").positive();
    schema.field("head_dim", sizes_.head_dim, "width of keys and values").at_least(3);
    schema.field("degree", sizes_.degree, "of the features of keys in the tree")
        .at_least(0)
        .at_most(2);
    schema.field("window", sizes_.window, "newest keys, which the tree reads exactly").positive();
    schema.field("block", sizes_.block, "keys of a leaf of the tree").positive();
    schema.field("seconds", seconds_, "of each measurement").positive().at_most(60);
    require_some(schema, "contexts", contexts_);
  }
  StudyResult run(const StudyContext& context) const override;

 private:
  std::vector<std::int64_t> contexts_{1 << 10, 1 << 14, 1 << 18, 1 << 20};
  DecodingSizes sizes_{};
  double seconds_ = 0.5;

  DecodingCosts measure(const StudyContext& context) const;
  StudyTable table_of(const DecodingCosts& costs) const;
  Figure figure_of(const DecodingCosts& costs, std::string file, std::string title,
                   std::string unit, double (*value)(const DecodingCost&)) const;
  std::vector<std::string> findings_of(const DecodingCosts& costs) const;
};

// The kernel that is fused for many queries copies the keys first, and takes longer for one.
constexpr DecodingKind decoding_kinds[] = {DecodingKind::tree, DecodingKind::conformal,
                                           DecodingKind::softmax, DecodingKind::recurrent};

const char* decoding_label(DecodingKind kind) {
  switch (kind) {
    case DecodingKind::tree:
      return "tree of moments";
    case DecodingKind::conformal:
      return "cache, exact conformal";
    case DecodingKind::softmax:
      return "cache, softmax";
    default:
      return "recurrent linear";
  }
}

double decoding_mebibytes(const DecodingCost& cost) {
  return static_cast<double>(cost.bytes) / (1 << 20);
}
// Of the fastest period, which other programs have disturbed least.
double decoding_microseconds(const DecodingCost& cost) { return cost.least_microseconds; }

DecodingCosts DecodingStudy::measure(const StudyContext& context) const {
  DecodingCosts costs;
  const auto n_parts = static_cast<std::int64_t>(contexts_.size() * std::size(decoding_kinds));
  std::int64_t part = 0;
  for (const std::int64_t n : contexts_)
    for (const DecodingKind kind : decoding_kinds) {
      context.progress(fmt::format("{}, {} tokens", decoding_label(kind), n), part++, n_parts);
      costs[kind].push_back(cost_of(kind, sizes_, n, context.seed, seconds_));
    }
  return costs;
}

StudyTable DecodingStudy::table_of(const DecodingCosts& costs) const {
  StudyTable table{.title = "One token after n tokens",
                   .columns = {"kind", "n", "us", "times the tree's", "state, MiB"}};
  for (const DecodingKind kind : decoding_kinds)
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      const DecodingCost &cost = costs.at(kind)[i], &tree = costs.at(DecodingKind::tree)[i];
      table.rows.push_back(
          {decoding_label(kind), static_cast<double>(contexts_[i]), decoding_microseconds(cost),
           decoding_microseconds(cost) / decoding_microseconds(tree), decoding_mebibytes(cost)});
    }
  return table;
}

Figure DecodingStudy::figure_of(const DecodingCosts& costs, std::string file, std::string title,
                                std::string unit, double (*value)(const DecodingCost&)) const {
  Figure figure{.name = std::move(file),
                .title = std::move(title),
                .x_label = "tokens before",
                .y_label = std::move(unit),
                .x_axis = Axis::logarithmic,
                .y_axis = Axis::logarithmic};
  for (const DecodingKind kind : decoding_kinds) {
    Series series{.name = decoding_label(kind), .x = {}, .y = {}};
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      series.x.push_back(static_cast<double>(contexts_[i]));
      series.y.push_back(value(costs.at(kind)[i]));
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

std::vector<std::string> DecodingStudy::findings_of(const DecodingCosts& costs) const {
  const auto last = [&](DecodingKind kind) { return costs.at(kind).back(); };
  const auto growth = [&](DecodingKind kind) {
    return decoding_microseconds(last(kind)) / decoding_microseconds(costs.at(kind).front());
  };
  const auto ratio = [&](DecodingKind kind) {
    return decoding_microseconds(last(kind)) / decoding_microseconds(last(DecodingKind::tree));
  };
  const std::int64_t shortest = contexts_.front(), longest = contexts_.back();
  return {
      fmt::format("After {} tokens, one more takes exact conformal attention over a cache {:.0f} "
                  "times as long as the tree, and softmax {:.0f} times; recurrent linear attention "
                  "takes {:.2f} of the tree's time.",
                  longest, ratio(DecodingKind::conformal), ratio(DecodingKind::softmax),
                  ratio(DecodingKind::recurrent)),
      fmt::format("From {} to {} tokens the tree's time became {:.2f} times what it was, that of "
                  "exact conformal attention {:.0f} times, that of softmax {:.0f} times, and that "
                  "of recurrent linear attention {:.2f} times.",
                  shortest, longest, growth(DecodingKind::tree), growth(DecodingKind::conformal),
                  growth(DecodingKind::softmax), growth(DecodingKind::recurrent)),
      fmt::format("After {} tokens the tree holds {:.2f} MiB with its window and its far field, "
                  "the caches {:.0f} MiB, and the sums of linear attention {:.2f} MiB.",
                  longest, decoding_mebibytes(last(DecodingKind::tree)),
                  decoding_mebibytes(last(DecodingKind::softmax)),
                  decoding_mebibytes(last(DecodingKind::recurrent))),
  };
}

StudyResult DecodingStudy::run(const StudyContext& context) const {
  const DecodingCosts costs = measure(context);
  const double ratio = decoding_microseconds(costs.at(DecodingKind::conformal).back()) /
                       decoding_microseconds(costs.at(DecodingKind::tree).back());
  return {
      .findings = findings_of(costs),
      .claims =
          {{.statement = fmt::format(
                "After {} tokens the tree is at least 50 times cheaper than a cache of all keys",
                contexts_.back()),
            .measured = fmt::format("{:.0f} times cheaper than exact conformal attention", ratio),
            .holds = ratio >= 50}},
      .tables = {table_of(costs)},
      .figures = {
          figure_of(costs, "time", "Time of one more token", "microseconds", decoding_microseconds),
          figure_of(costs, "memory", "Memory of the state", "MiB", decoding_mebibytes)}};
}

}  // namespace

std::unique_ptr<Study> make_e8_decoding() { return std::make_unique<DecodingStudy>(); }

}  // namespace mobius
