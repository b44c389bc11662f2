#include "data/mqar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <ostream>
#include <set>
#include <thread>

#include "core/error.h"
#include "tests/data/batch_rows.h"
#include "tests/error_of.h"

namespace mobius::mqar_test {
namespace {

MqarOptions options_of(std::int64_t seq_len, std::int64_t n_pairs,
                       MqarFiller filler = MqarFiller::random) {
  MqarOptions options;
  options.seq_len = seq_len;
  options.n_pairs = n_pairs;
  options.filler = filler;
  return options;
}

std::vector<Sequence> train_rows(const MqarOptions& options, std::int64_t count,
                                 std::uint64_t seed = 1) {
  return rows_of(options.build(seed)->sequences(Split::train, 0, 0, count));
}

// Returns the keys of a sequence in the order of their pairs.
std::vector<std::int32_t> keys_of(const Sequence& row, std::int64_t n_pairs) {
  std::vector<std::int32_t> keys;
  for (std::int64_t p = 0; p < n_pairs; ++p) keys.push_back(row.inputs[2 * p]);
  return keys;
}

bool contains(const std::vector<std::int32_t>& keys, std::int32_t token) {
  return std::find(keys.begin(), keys.end(), token) != keys.end();
}

bool is_filler(const Sequence& row, std::int64_t n_pairs, std::size_t t) {
  return t >= static_cast<std::size_t>(2 * n_pairs) && row.labels[t] == ignored_label;
}

// ---- every sequence obeys the rules, for every filler and several sizes

struct Rules {
  std::int32_t vocab;
  std::int64_t seq_len, n_pairs;
  MqarFiller filler;
};

void PrintTo(const Rules& rules, std::ostream* out) {
  const char* const fillers[] = {"zero", "random", "random_unused"};
  *out << "vocab " << rules.vocab << " seq_len " << rules.seq_len << " n_pairs " << rules.n_pairs
       << " filler " << fillers[static_cast<int>(rules.filler)];
}

class MqarRules : public ::testing::TestWithParam<Rules> {
 protected:
  std::vector<Sequence> rows() const {
    MqarOptions options = options_of(GetParam().seq_len, GetParam().n_pairs, GetParam().filler);
    options.vocab = GetParam().vocab;
    return train_rows(options, 200);
  }
};

TEST_P(MqarRules, StartsWithPairsOfDistinctKeysAndDistinctValues) {
  const auto& [vocab, seq_len, n_pairs, filler] = GetParam();
  for (const Sequence& row : rows()) {
    ASSERT_EQ(row.inputs.size(), static_cast<std::size_t>(seq_len));
    std::set<std::int32_t> keys, values;
    for (std::int64_t p = 0; p < n_pairs; ++p) {
      keys.insert(row.inputs[2 * p]);
      values.insert(row.inputs[2 * p + 1]);
      EXPECT_EQ(row.labels[2 * p], ignored_label);
      EXPECT_EQ(row.labels[2 * p + 1], ignored_label);
    }
    EXPECT_EQ(keys.size(), static_cast<std::size_t>(n_pairs));
    EXPECT_EQ(values.size(), static_cast<std::size_t>(n_pairs));
    EXPECT_GE(*keys.begin(), 1);
    EXPECT_LT(*keys.rbegin(), vocab / 2);
    EXPECT_GE(*values.begin(), vocab / 2);
    EXPECT_LT(*values.rbegin(), vocab);
  }
}

TEST_P(MqarRules, AsksForEveryKeyOnceAndLabelsItsValue) {
  const auto& [vocab, seq_len, n_pairs, filler] = GetParam();
  for (const Sequence& row : rows()) {
    std::multiset<std::int32_t> asked;
    for (std::size_t t = 0; t < row.inputs.size(); ++t) {
      if (row.labels[t] == ignored_label) continue;
      EXPECT_GE(t, static_cast<std::size_t>(2 * n_pairs));
      EXPECT_EQ(t % 2, 0u);
      asked.insert(row.inputs[t]);
      const std::vector<std::int32_t> keys = keys_of(row, n_pairs);
      ASSERT_EQ(std::count(keys.begin(), keys.end(), row.inputs[t]), 1);
      const auto pair = std::find(keys.begin(), keys.end(), row.inputs[t]) - keys.begin();
      EXPECT_EQ(row.labels[t], row.inputs[2 * pair + 1]);
    }
    const std::vector<std::int32_t> keys = keys_of(row, n_pairs);
    EXPECT_EQ(asked, std::multiset<std::int32_t>(keys.begin(), keys.end()));
  }
}

TEST_P(MqarRules, FillsTheRestByItsRule) {
  const auto& [vocab, seq_len, n_pairs, filler] = GetParam();
  std::set<std::int32_t> seen;
  for (const Sequence& row : rows()) {
    const std::vector<std::int32_t> keys = keys_of(row, n_pairs);
    for (std::size_t t = 0; t < row.inputs.size(); ++t) {
      if (!is_filler(row, n_pairs, t)) continue;
      seen.insert(row.inputs[t]);
      if (filler == MqarFiller::random_unused) {
        EXPECT_FALSE(contains(keys, row.inputs[t]));
      }
    }
  }
  if (filler == MqarFiller::zero) {
    EXPECT_EQ(seen, std::set<std::int32_t>{0});
  } else {
    EXPECT_GE(*seen.begin(), 0);
    EXPECT_LT(*seen.rbegin(), vocab);
    EXPECT_GT(seen.size(), std::min<std::size_t>(vocab, 200) / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, MqarRules,
    ::testing::Values(Rules{8192, 64, 8, MqarFiller::zero}, Rules{8192, 64, 8, MqarFiller::random},
                      Rules{8192, 64, 8, MqarFiller::random_unused},
                      Rules{257, 256, 64, MqarFiller::random_unused},  // every gap taken, odd vocab
                      Rules{67, 66, 16, MqarFiller::random}, Rules{5, 4, 1, MqarFiller::zero},
                      Rules{512, 510, 1, MqarFiller::random_unused}));

// ---- distributions

// Returns the share of sequences in which some filler equals a key.
double share_with_a_key_as_filler(std::int64_t seq_len, std::int64_t n_pairs, MqarFiller filler) {
  const std::vector<Sequence> rows = train_rows(options_of(seq_len, n_pairs, filler), 4000);
  double hits = 0;
  for (const Sequence& row : rows) {
    const std::vector<std::int32_t> keys = keys_of(row, n_pairs);
    bool hit = false;
    for (std::size_t t = 0; t < row.inputs.size() && !hit; ++t)
      hit = is_filler(row, n_pairs, t) && contains(keys, row.inputs[t]);
    hits += hit;
  }
  return hits / static_cast<double>(rows.size());
}

// The probability is 1 - (1 - P/V)^(n - 3P), here 3.83 %, 14.5 % and 91.8 %; the bounds are five
// standard deviations.
TEST(Mqar, RandomFillerEqualsAKeyAsOftenAsThePublishedDataDoes) {
  EXPECT_NEAR(share_with_a_key_as_filler(64, 8, MqarFiller::random), 0.0383, 0.0152);
  EXPECT_NEAR(share_with_a_key_as_filler(128, 16, MqarFiller::random), 0.145, 0.0278);
  EXPECT_NEAR(share_with_a_key_as_filler(512, 64, MqarFiller::random), 0.918, 0.0217);
}

TEST(Mqar, UnusedFillerNeverEqualsAKey) {
  EXPECT_EQ(share_with_a_key_as_filler(512, 64, MqarFiller::random_unused), 0);
}

// The gap of the first key is drawn first, so its probabilities are proportional to the weights.
TEST(Mqar, FirstGapFollowsThePowerLaw) {
  for (const double power_a : {0.01, 1.0}) {
    MqarOptions options = options_of(64, 8, MqarFiller::zero);
    options.power_a = power_a;
    constexpr int kSlots = 24, kRows = 20000;
    std::vector<double> counts(kSlots), weights(kSlots);
    for (const Sequence& row : train_rows(options, kRows)) {
      const auto query = std::find(row.inputs.begin() + 16, row.inputs.end(), row.inputs[0]);
      ++counts.at((query - row.inputs.begin() - 16) / 2);
    }
    double total = 0;
    for (int g = 0; g < kSlots; ++g) total += weights[g] = std::pow(g + 1, power_a - 1);
    for (int g = 0; g < kSlots; ++g) {
      const double p = weights[g] / total;
      EXPECT_NEAR(counts[g] / kRows, p, 5 * std::sqrt(p * (1 - p) / kRows)) << "gap " << g;
    }
  }
}

TEST(Mqar, KeysAndValuesAreUniform) {
  MqarOptions options = options_of(16, 4, MqarFiller::zero);
  options.vocab = 20;  // keys 1..9, values 10..19
  constexpr int kRows = 9000;
  std::vector<int> counts(20);
  for (const Sequence& row : train_rows(options, kRows))
    for (int t = 0; t < 8; ++t) ++counts[row.inputs[t]];
  EXPECT_EQ(counts[0], 0);
  for (int token = 1; token < 20; ++token) {
    const double p = token < 10 ? 4.0 / 9 : 4.0 / 10;
    EXPECT_NEAR(counts[token], kRows * p, 5 * std::sqrt(kRows * p * (1 - p))) << token;
  }
}

// ---- reproducibility

TEST(Mqar, SequencesDependOnSeedSplitAndIndexAlone) {
  const MqarOptions options = options_of(64, 8);
  const auto task = options.build(3);
  const std::vector<Sequence> whole = rows_of(task->batch(Split::train, 5, 8));
  task->batch(Split::test, 0, 100);
  task->batch(Split::train, 11, 3);
  EXPECT_EQ(rows_of(task->batch(Split::train, 5, 8)), whole);
  EXPECT_EQ(rows_of(options.build(3)->batch(Split::train, 5, 8)), whole);
  EXPECT_NE(rows_of(options.build(4)->batch(Split::train, 5, 8)), whole);

  std::vector<Sequence> from_thread;
  std::thread([&] { from_thread = rows_of(task->batch(Split::train, 5, 8)); }).join();
  EXPECT_EQ(from_thread, whole);
}

TEST(Mqar, PartsOfABatchTogetherAreTheBatch) {
  for (const MqarFiller filler :
       {MqarFiller::zero, MqarFiller::random, MqarFiller::random_unused}) {
    MqarOptions options = options_of(64, 8, filler);
    options.vocab = 66;
    const auto task = options.build(3);
    const std::vector<Sequence> whole = rows_of(task->batch(Split::train, 5, 8));
    std::vector<Sequence> parts;
    for (int rank = 0; rank < 4; ++rank)
      for (const Sequence& row : rows_of(task->sequences(Split::train, 0, 5 * 8 + rank * 2, 2)))
        parts.push_back(row);
    EXPECT_EQ(parts, whole);
  }
}

TEST(Mqar, ManyThreadsMayAskAtOnce) {
  const auto task = options_of(64, 8, MqarFiller::random_unused).build(3);
  std::vector<std::vector<Sequence>> made(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < made.size(); ++i)
    threads.emplace_back([&, i] { made[i] = rows_of(task->batch(Split::train, i, 200)); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < made.size(); ++i)
    EXPECT_EQ(made[i], rows_of(task->batch(Split::train, i, 200)));
}

// With 4 of 4095 keys, the probability that any two of 12000 sequences agree by chance is 1e-18.
TEST(Mqar, NoSequenceComesTwiceInTrainAndTestTogether) {
  MqarOptions options = options_of(16, 4, MqarFiller::zero);
  options.n_test = 2000;
  const auto task = options.build(9);
  std::set<Sequence> distinct;
  for (std::uint64_t step = 0; step < 100; ++step)
    for (Sequence& row : rows_of(task->batch(Split::train, step, 100)))
      distinct.insert(std::move(row));
  for (std::uint64_t step = 0; step < task->test_batches(300); ++step)
    for (Sequence& row : rows_of(task->batch(Split::test, step, 300)))
      distinct.insert(std::move(row));
  EXPECT_EQ(distinct.size(), 100u * 100 + 2000);
}

TEST(Mqar, FillerRuleLeavesPairsAndQueriesAlone) {
  const std::vector<Sequence> zero = train_rows(options_of(64, 8, MqarFiller::zero), 50);
  const std::vector<Sequence> random = train_rows(options_of(64, 8, MqarFiller::random), 50);
  for (std::size_t row = 0; row < zero.size(); ++row) {
    EXPECT_EQ(zero[row].labels, random[row].labels);
    for (std::size_t t = 0; t < 64; ++t) {
      if (zero[row].inputs[t] != 0) {
        EXPECT_EQ(zero[row].inputs[t], random[row].inputs[t]);
      }
    }
  }
}

// ---- labels are aligned with inputs: the answer must be given at the query itself

TEST(Mqar, AccuracyNeedsTheAnswerAtTheQuery) {
  const Batch batch = options_of(64, 8, MqarFiller::zero).build(1)->batch(Split::test, 0, 50);
  const auto recall_at = [](int offset) {
    return [offset](const Sequence& row, std::size_t t) {
      const std::int64_t query = static_cast<std::int64_t>(t) + offset;
      if (query >= static_cast<std::int64_t>(row.inputs.size())) return -1;
      const std::vector<std::int32_t> keys = keys_of(row, 8);
      const auto pair = std::find(keys.begin(), keys.end(), row.inputs[query]) - keys.begin();
      return pair == 8 ? -1 : row.inputs[2 * pair + 1];
    };
  };
  EXPECT_EQ(accuracy(batch, recall_at(0)), 1);
  EXPECT_EQ(accuracy(batch, recall_at(-1)), 0);
  EXPECT_EQ(accuracy(batch, recall_at(1)), 0);
}

// ---- mixtures

MqarOptions mixture_of(std::vector<MqarSize> sizes) {
  MqarOptions options;
  options.mixture = std::move(sizes);
  options.n_test = 10;
  return options;
}

TEST(MqarMixture, StepsShareTheWeightsAndEachHasOneSize) {
  const auto task = mixture_of({{64, 4, 1}, {64, 8, 1}, {128, 16, 2}}).build(5);
  EXPECT_EQ(task->max_seq_len(), 128);
  std::vector<int> steps(3);
  for (std::uint64_t step = 0; step < 1000; ++step) ++steps.at(task->group_at(step));
  EXPECT_NEAR(steps[0], 250, 10);
  EXPECT_NEAR(steps[1], 250, 10);
  EXPECT_NEAR(steps[2], 500, 10);

  for (std::uint64_t step = 0; step < 20; ++step) {
    const Batch batch = task->batch(Split::train, step, 3);
    EXPECT_EQ(batch.group, task->group_at(step));
    EXPECT_EQ(batch.inputs.size(1), batch.group == 2 ? 128 : 64);
    const std::int64_t pairs = std::vector{4, 8, 16}[batch.group];
    for (const Sequence& row : rows_of(batch))
      EXPECT_EQ(std::count(row.labels.begin(), row.labels.end(), ignored_label),
                batch.inputs.size(1) - pairs);
  }
}

TEST(MqarMixture, TestPassVisitsEverySequenceOfEverySize) {
  const auto task = mixture_of({{64, 4, 1}, {128, 16, 5}}).build(5);
  ASSERT_EQ(task->test_batches(4), 6u);  // 4 + 4 + 2, twice
  std::vector<std::vector<Sequence>> seen(2);
  for (std::uint64_t step = 0; step < 6; ++step) {
    const Batch batch = task->batch(Split::test, step, 4);
    for (const Sequence& row : rows_of(batch)) seen[batch.group].push_back(row);
  }
  for (int group = 0; group < 2; ++group)
    EXPECT_EQ(seen[group], rows_of(task->sequences(Split::test, group, 0, 10)));
  EXPECT_THROW(task->batch(Split::test, 6, 4), Error);
}

TEST(MqarMixture, ASizeHasTheSameTestSetAloneAndMixed) {
  const auto alone = options_of(64, 8).build(5);
  const auto mixed = mixture_of({{128, 16, 1}, {64, 8, 1}}).build(5);
  EXPECT_EQ(rows_of(alone->sequences(Split::test, 0, 0, 10)),
            rows_of(mixed->sequences(Split::test, 1, 0, 10)));
}

TEST(MqarMixture, GroupsAreNamedByWhatTellsThemApart) {
  EXPECT_EQ(options_of(64, 8).build(1)->groups(), std::vector<std::string>{"n_pairs=8"});
  EXPECT_EQ(
      mixture_of({{64, 4, 1}, {64, 8, 1}, {128, 8, 1}}).build(1)->groups(),
      (std::vector<std::string>{"n_pairs=4", "seq_len=64,n_pairs=8", "seq_len=128,n_pairs=8"}));
}

// ---- the data of a seed never change unnoticed

// If this fails, the data have changed, and results are not comparable with earlier versions.
TEST(Mqar, KnownSequence) {
  MqarOptions options = options_of(16, 2);
  options.vocab = 64;
  const std::vector<Sequence> rows = rows_of(options.build(123)->sequences(Split::test, 0, 7, 1));
  EXPECT_THAT(rows[0].inputs,
              ::testing::ElementsAre(5, 57, 15, 34, 57, 54, 60, 32, 1, 11, 15, 0, 22, 62, 5, 22));
  std::vector<std::int32_t> labels(16, ignored_label);
  labels[10] = 34;
  labels[14] = 57;
  EXPECT_EQ(rows[0].labels, labels);
}

TEST(Mqar, ABatchTakesMilliseconds) {
  const auto task = MqarOptions().build(1);
  double best = 1e9;
  for (std::uint64_t step = 0; step < 10; ++step) {
    const auto start = std::chrono::steady_clock::now();
    task->batch(Split::train, step, 64);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  EXPECT_LT(best, 0.05);
  RecordProperty("milliseconds", std::to_string(best * 1e3));
}

// ---- settings that do not fit

// Returns the message of the ConfigError that build() must throw.
template <typename Change>
std::string refusal(Change change) {
  MqarOptions options;
  change(options);
  return error_of<ConfigError>([&] { options.build(1); });
}

TEST(MqarOptions, RefusesWhatDoesNotFit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal([](MqarOptions& o) { o.seq_len = 255; }),
            "mqar: seq_len: expected an even number, got 255");
  EXPECT_EQ(refusal([](MqarOptions& o) { o.n_pairs = 65; }),
            "mqar: n_pairs: n_pairs = 65 is more than a quarter of seq_len = 256");
  EXPECT_EQ(refusal([](MqarOptions& o) { o.seq_len = 62; }),
            "mqar: seq_len: n_pairs = 16 is more than a quarter of seq_len = 62");
  EXPECT_EQ(refusal([](MqarOptions& o) { o.vocab = 256; }),
            "mqar: vocab: vocab = 256 is not above seq_len = 256");
  EXPECT_EQ(refusal([](MqarOptions& o) { o.seq_len = 8192; }),
            "mqar: seq_len: vocab = 8192 is not above seq_len = 8192");
  EXPECT_EQ(refusal([](MqarOptions& o) {
              o.mixture = {{8192, 8, 1}};
            }),
            "mqar: mixture: vocab = 8192 is not above seq_len = 8192");
  EXPECT_EQ(refusal([](MqarOptions& o) { o.n_pairs = 0; }), "mqar: n_pairs: must be >= 1, got 0");
  EXPECT_THAT(refusal([](MqarOptions& o) { o.power_a = 0; }), ::testing::HasSubstr("power_a"));
  EXPECT_THAT(refusal([&](MqarOptions& o) { o.power_a = nan; }), ::testing::HasSubstr("power_a"));
  EXPECT_THAT(refusal([](MqarOptions& o) { o.n_test = 0; }), ::testing::HasSubstr("n_test"));
  EXPECT_EQ(refusal([](MqarOptions& o) {
              o.mixture = {{64, 8, 1}, {64, 8, 2}};
            }),
            "mqar: mixture: seq_len = 64, n_pairs = 8 is listed twice");
  EXPECT_EQ(refusal([](MqarOptions& o) {
              o.mixture = {{64, 8, 1}, {63, 4, 1}};
            }),
            "mqar: mixture[1]: seq_len: expected an even number, got 63");
  EXPECT_THAT(refusal([](MqarOptions& o) {
                o.mixture = {{64, 8, 0}};
              }),
              ::testing::HasSubstr("mixture[0]: weight"));
  EXPECT_EQ(refusal([](MqarOptions& o) {
              o.seq_len = 128;
              o.mixture = {{64, 8, 1}};
            }),
            "mqar: seq_len: has no effect unless mixture: []");
  EXPECT_EQ(refusal([](MqarOptions& o) {
              o.n_pairs = 4;
              o.mixture = {{64, 8, 1}};
            }),
            "mqar: n_pairs: has no effect unless mixture: []");
}

TEST(MqarOptions, TakesTheTightestSizes) {
  MqarOptions options = options_of(256, 64);
  options.vocab = 257;
  EXPECT_NO_THROW(options.build(1));
}

TEST(Mqar, RefusesRequestsOutOfRange) {
  const auto task = options_of(64, 8).build(1);
  EXPECT_THROW(task->sequences(Split::train, 1, 0, 1), Error);
  EXPECT_THROW(task->sequences(Split::train, -1, 0, 1), Error);
  EXPECT_THROW(task->sequences(Split::train, 0, 0, 0), Error);
  EXPECT_THROW(task->batch(Split::train, 0, 0), Error);
}

}  // namespace
}  // namespace mobius::mqar_test
