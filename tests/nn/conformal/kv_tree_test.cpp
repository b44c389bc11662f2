// Reading a stream of keys token by token against forms that see all of them at once.
#include "nn/attention/conformal/kv_tree.h"

#include <gtest/gtest.h>

#include <bit>

#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "tests/error_of.h"
#include "tests/nn/nn_testing.h"

namespace mobius::kv_tree_test {
namespace {

using testing::distance;
using testing::normal;

constexpr std::int64_t d = 6, d_v = 3, m = 5, window = 7, block = 4;

KeyFeatures some_features(DType dtype = DType::f64) {
  const Variable landmarks(normal({m, d}, 1).to(dtype));
  return {m, [landmarks](const Variable& zeta) {
            return exp(matmul(zeta, transpose(landmarks, 0, 1)));
          }};
}

struct Stream {
  Tensor zeta, v;  // [B, G, n, d], [B, G, n, d_v]
};

Stream some_stream(std::int64_t n, std::uint64_t which, std::int64_t batch = 1,
                   std::int64_t groups = 1, DType dtype = DType::f64) {
  return {polar(normal({batch, groups, n, d}, 10 + which, 1, dtype)).direction,
          normal({batch, groups, n, d_v}, 20 + which, 1, dtype)};
}

// Replaces what follows the first `length` rows by `other`.
Stream spliced(const Stream& stream, std::int64_t length, const Stream& other) {
  return {concat({stream.zeta.slice(2, 0, length), other.zeta}, 2),
          concat({stream.v.slice(2, 0, length), other.v}, 2)};
}

void append(ConformalKVTree& tree, const Stream& stream, std::int64_t begin, std::int64_t end) {
  tree.append(stream.zeta.slice(2, begin, end), stream.v.slice(2, begin, end));
}

// The moments at all positions: those of the first n keys at entry n of [n + 1, B, G, m, d_v].
class PlainMoments {
 public:
  PlainMoments(const Stream& stream, const KeyFeatures& features) {
    const Tensor f = features.of(Variable(stream.zeta)).data();
    const Tensor products =
        mul(f.unsqueeze(4), stream.v.unsqueeze(3)).permute({2, 0, 1, 3, 4}).contiguous();
    sums_ = cumsum(products, 0);
  }
  Tensor of_first(std::int64_t n) const {
    return n > 0 ? sums_.slice(0, n - 1, n).squeeze(0)
                 : sums_.slice(0, 0, 1).squeeze(0).zeros_like();
  }
  Tensor at(std::int64_t position) const {
    return of_first(std::max<std::int64_t>(position + 1 - window, 0));
  }

 private:
  Tensor sums_;
};

void expect_moments(ConformalKVTree& tree, const PlainMoments& expected, std::int64_t position,
                    double tolerance = 1e-10) {
  ASSERT_LT(distance(tree.moments(position), expected.at(position)), tolerance) << position;
}

void expect_window(const ConformalKVTree& tree, const Stream& stream, std::int64_t position) {
  const std::int64_t begin = std::max<std::int64_t>(position + 1 - window, 0);
  const auto [zeta, v] = tree.near(position);
  ASSERT_EQ(zeta.to_vector<double>(),
            stream.zeta.slice(2, begin, position + 1).to_vector<double>());
  ASSERT_EQ(v.to_vector<double>(), stream.v.slice(2, begin, position + 1).to_vector<double>());
}

// Floor of log2(n / block), for the bounds on nodes touched; -1 without a full block.
std::int64_t levels(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n / block))) - 1;
}

ConformalKVTree small_tree(std::int64_t history = KVTreeOptions::unlimited,
                           DType dtype = DType::f64) {
  return {some_features(dtype), {.window = window, .block = block, .history = history}};
}

std::int64_t drawn(Rng& rng, std::int64_t begin, std::int64_t end) {
  return begin + static_cast<std::int64_t>(rng.uniform() * static_cast<double>(end - begin));
}

TEST(ConformalKVTree, ReadsAStreamTokenByToken) {
  constexpr std::int64_t n = 5000;
  const Stream stream = some_stream(n, 1);
  const PlainMoments expected(stream, some_features());
  for (const std::int64_t history : {KVTreeOptions::unlimited, std::int64_t{0}}) {
    ConformalKVTree tree = small_tree(history);
    for (std::int64_t i = 0; i < n; ++i) {
      append(tree, stream, i, i + 1);
      expect_moments(tree, expected, i);
      expect_window(tree, stream, i);
      ASSERT_LE(tree.nodes_appended(), levels(i + 1) + 1);
      ASSERT_LE(tree.nodes_read(), levels(i + 1) + 1);
    }
  }
}

TEST(ConformalKVTree, TakesBackTokensAndReadsAnyEarlierPosition) {
  Rng rng({.seed = 3, .stream = 1});
  Stream stream = some_stream(5000, 2);
  PlainMoments expected(stream, some_features());
  ConformalKVTree tree = small_tree();
  for (std::uint64_t round = 0; round < 60; ++round) {
    const std::int64_t length = stream.zeta.size(2);
    while (tree.length() < length) {
      append(tree, stream, tree.length(), std::min(tree.length() + drawn(rng, 1, 60), length));
      const std::int64_t last = tree.length() - 1;
      for (const std::int64_t position : {last, drawn(rng, 0, last + 1)}) {
        expect_moments(tree, expected, position);
        expect_window(tree, stream, position);
        ASSERT_LE(tree.nodes_read(), levels(tree.length()) + 1);
      }
    }
    const std::int64_t kept = round % 2 == 0 ? length - drawn(rng, 0, 30) : drawn(rng, 0, length);
    tree.rollback(kept);
    EXPECT_EQ(tree.length(), kept);
    if (kept > 0) expect_moments(tree, expected, kept - 1);
    stream = spliced(stream, kept, some_stream(drawn(rng, 1, 200), 100 + round));
    expected = PlainMoments(stream, some_features());
  }
}

// Reads some positions and not others, so that what is at hand from one reading to the next belongs
// to tokens that were taken back meanwhile; also with blocks longer than the window.
TEST(ConformalKVTree, ForgetsWhatItComputedOfTokensTakenBack) {
  const KeyFeatures features = some_features();
  for (const KVTreeOptions& options : {KVTreeOptions{.window = 2, .block = 16},
                                       {.window = 5, .block = 8},
                                       {.window = 7, .block = 4}}) {
    ConformalKVTree tree(features, options);
    Stream stream = some_stream(40, 30);
    append(tree, stream, 0, 40);
    Rng rng({.seed = 3, .stream = 4});
    for (std::uint64_t round = 0; round < 400; ++round) {
      const std::int64_t kept =
          tree.length() - drawn(rng, 0, std::min<std::int64_t>(tree.length(), 14));
      tree.rollback(kept);
      stream = spliced(stream, kept, some_stream(drawn(rng, 1, 16), 1000 + round));
      while (tree.length() < stream.zeta.size(2)) {
        append(tree, stream, tree.length(), tree.length() + 1);
        if (drawn(rng, 0, 2) > 0) continue;
        const std::int64_t n = tree.length() - options.window;
        if (n < 1) continue;
        const Tensor f = features.of(Variable(stream.zeta.slice(2, 0, n))).data();
        const Tensor expected = matmul(f.transpose(-1, -2), stream.v.slice(2, 0, n));
        ASSERT_LT(distance(tree.moments(tree.length() - 1), expected), 1e-10)
            << "round " << round << ", " << n << " far keys, blocks of " << options.block;
      }
    }
  }
}

TEST(ConformalKVTree, NodesOfAnyQueryFollowFromTheBitsOfItsBlocks) {
  const Stream stream = some_stream(600, 3);
  ConformalKVTree tree = small_tree();
  append(tree, stream, 0, 600);
  for (const std::int64_t position : {599, 5, 262, 10, 300}) {  // never within one block
    tree.moments(position);
    const auto blocks =
        static_cast<std::uint64_t>(std::max<std::int64_t>(position + 1 - window, 0) / block);
    EXPECT_EQ(tree.nodes_read(), std::popcount(blocks)) << position;
  }
  tree.moments(301);
  EXPECT_EQ(tree.nodes_read(), 0) << "the moments of the position before are at hand";
}

TEST(ConformalKVTree, ABoundedHistoryGivesTheSameToTheBit) {
  constexpr std::int64_t n = 900, history = 40;
  const Stream stream = some_stream(n, 4);
  ConformalKVTree all = small_tree(), bounded = small_tree(history);
  Rng rng({.seed = 3, .stream = 2});
  while (all.length() < n) {
    const std::int64_t end = std::min(all.length() + drawn(rng, 1, 25), n);
    append(all, stream, all.length(), end);
    append(bounded, stream, bounded.length(), end);
    EXPECT_EQ(bounded.least_length(), std::max(bounded.least_length(), end - history));
    for (std::int64_t position = std::max<std::int64_t>(bounded.least_length() - 1, 0);
         position < end; position += 3) {
      ASSERT_EQ(bounded.moments(position).to_vector<double>(),
                all.moments(position).to_vector<double>());
      expect_window(bounded, stream, position);
    }
    const std::int64_t back = drawn(rng, bounded.least_length(), end + 1);
    all.rollback(back);
    bounded.rollback(back);
    if (drawn(rng, 0, 4) > 0) {
      append(all, stream, back, end);
      append(bounded, stream, back, end);
    }
  }
}

TEST(ConformalKVTree, MemoryStaysThatOfWindowHistoryAndLogarithmicallyManyNodes) {
  constexpr std::int64_t n = 20000, history = 30;
  const Stream stream = some_stream(n, 5);
  ConformalKVTree tree = small_tree(history);
  for (std::int64_t begin = 0; begin < n; begin += 10) {
    append(tree, stream, begin, begin + 10);
    tree.moments(tree.length() - 1);
    const std::int64_t n_nodes = levels(begin + 10) + 1 + history / block + 1;
    ASSERT_LE(tree.n_nodes(), std::max<std::int64_t>(n_nodes, 1)) << begin;
    const std::int64_t numbers =
        2 * (window + history + block + 10) * (d + d_v) + (n_nodes + 1) * m * d_v + 4 * block * m;
    ASSERT_LE(tree.bytes(), static_cast<std::size_t>(numbers) * sizeof(double)) << begin;
  }
}

TEST(ConformalKVTree, OneLongAppendEqualsManyShortOnes) {
  constexpr std::int64_t n = 10000;
  const Stream stream = some_stream(n, 6);
  const PlainMoments expected(stream, some_features());
  for (const std::int64_t history : {KVTreeOptions::unlimited, std::int64_t{0}}) {
    ConformalKVTree tree = small_tree(history);
    append(tree, stream, 0, n);
    expect_moments(tree, expected, n - 1);
    expect_window(tree, stream, n - 1);
  }
}

TEST(ConformalKVTree, HeadsAndSequencesStandBesideEachOther) {
  constexpr std::int64_t n = 150, batch = 2, groups = 3;
  const Stream stream = some_stream(n, 7, batch, groups);
  const PlainMoments expected(stream, some_features());
  ConformalKVTree tree = small_tree();
  for (std::int64_t i = 0; i < n; ++i) {
    append(tree, stream, i, i + 1);
    expect_moments(tree, expected, i);
    expect_window(tree, stream, i);
  }
  for (std::int64_t i = n - 1; i >= 0; i -= 13) expect_moments(tree, expected, i);
}

// With blocks longer than the stream, every key is added to one sum.
TEST(ConformalKVTree, SinglePrecisionRoundsLessThanARunningSum) {
  constexpr std::int64_t n = 20000;
  const Stream wide = some_stream(n, 8);
  const Stream stream{wide.zeta.to(DType::f32), wide.v.to(DType::f32)};
  const PlainMoments expected({stream.zeta.to(DType::f64), stream.v.to(DType::f64)},
                              some_features());
  const auto error_with = [&](std::int64_t keys_of_leaf) {
    ConformalKVTree tree(some_features(DType::f32),
                         {.window = window, .block = keys_of_leaf, .history = 0});
    for (std::int64_t i = 0; i < n; ++i) {
      append(tree, stream, i, i + 1);
      tree.moments(i);
    }
    return distance(tree.moments(n - 1).to(DType::f64), expected.at(n - 1));
  };
  const double error = error_with(block);
  EXPECT_LT(error, 1e-6);
  EXPECT_LT(2 * error, error_with(n + 1));
}

TEST(ConformalKVTree, MomentsInHandDoNotChange) {
  const Stream stream = some_stream(50, 9);
  ConformalKVTree tree = small_tree();
  append(tree, stream, 0, 30);
  const Tensor held = tree.moments(29);
  const std::vector<double> before = held.to_vector<double>();
  append(tree, stream, 30, 31);
  EXPECT_NE(tree.moments(30).to_vector<double>(), before);
  EXPECT_EQ(held.to_vector<double>(), before);
}

TEST(ConformalKVTree, RefusesMoreThanItHoldsAndKeepsWhatItHas) {
  const Stream stream = some_stream(40, 10);
  const PlainMoments expected(stream, some_features());
  ConformalKVTree tree(some_features(), {.window = window, .block = block, .max_len = 30});
  append(tree, stream, 0, 28);
  EXPECT_EQ(error_of([&] { append(tree, stream, 28, 31); }),
            "key/value tree: expected at most 30 keys, got 3 after 28");
  EXPECT_EQ(tree.length(), 28);
  expect_moments(tree, expected, 27);
  append(tree, stream, 28, 30);
  expect_moments(tree, expected, 29);
  expect_window(tree, stream, 29);
  EXPECT_EQ(error_of([&] { append(tree, stream, 30, 31); }),
            "key/value tree: expected at most 30 keys, got 1 after 30");
  tree.rollback(20);
  append(tree, stream, 20, 30);
  expect_moments(tree, expected, 29);
}

TEST(ConformalKVTree, RefusesPositionsOutOfReach) {
  const Stream stream = some_stream(50, 11);
  ConformalKVTree tree = small_tree(/*history=*/10);
  EXPECT_EQ(error_of([&] { tree.moments(0); }),
            "key/value tree: expected a position from 0 to -1, got 0");
  append(tree, stream, 0, 50);
  EXPECT_EQ(error_of([&] { tree.moments(38); }),
            "key/value tree: expected a position from 39 to 49, got 38");
  EXPECT_EQ(error_of([&] { tree.near(50); }),
            "key/value tree: expected a position from 39 to 49, got 50");
  EXPECT_EQ(error_of([&] { tree.rollback(51); }),
            "key/value tree: expected a length from 40 to 50 to return to, got 51");
  EXPECT_EQ(error_of([&] { tree.rollback(39); }),
            "key/value tree: expected a length from 40 to 50 to return to, got 39");
  tree.rollback(40);
  append(tree, stream, 40, 45);  // the history does not grow back
  EXPECT_EQ(error_of([&] { tree.rollback(39); }),
            "key/value tree: expected a length from 40 to 45 to return to, got 39");
}

TEST(ConformalKVTree, RefusesKeysAndValuesThatDoNotFit) {
  const Stream stream = some_stream(5, 12);
  ConformalKVTree tree = small_tree();
  append(tree, stream, 0, 5);
  const auto refusal = [&](const Tensor& zeta, const Tensor& v) {
    return error_of<ShapeError>([&] { tree.append(zeta, v); });
  };
  const std::string expected =
      "key/value tree: expected keys [B, G, n, d] and values [B, G, n, d_v] that differ from "
      "earlier ones in n alone, got ";
  EXPECT_EQ(refusal(stream.zeta.slice(2, 0, 4), stream.v),
            expected + "f64 [1, 1, 4, 6] and f64 [1, 1, 5, 3]");
  EXPECT_EQ(refusal(stream.v, stream.v), expected + "f64 [1, 1, 5, 3] and f64 [1, 1, 5, 3]");
  EXPECT_EQ(refusal(stream.zeta.to(DType::f32), stream.v),
            expected + "f32 [1, 1, 5, 6] and f64 [1, 1, 5, 3]");
  const Stream two = some_stream(5, 13, /*batch=*/2);
  EXPECT_EQ(refusal(two.zeta, two.v), expected + "f64 [2, 1, 5, 6] and f64 [2, 1, 5, 3]");
  EXPECT_EQ(tree.length(), 5);
}

TEST(ConformalKVTree, RefusesOptionsOutOfRange) {
  const auto refusal = [](const KVTreeOptions& options) {
    return error_of([&] { ConformalKVTree(some_features(), options); });
  };
  EXPECT_EQ(refusal({.window = 0}), "key/value tree: expected a window of at least 1, got 0");
  EXPECT_EQ(refusal({.block = 0}), "key/value tree: expected a block of at least 1, got 0");
  EXPECT_EQ(refusal({.history = -1}), "key/value tree: expected a history of at least 0, got -1");
  EXPECT_EQ(refusal({.max_len = 0}), "key/value tree: expected max_len of at least 1, got 0");
}

// ---- ConformalTreeCache, against the form that training takes

constexpr std::int64_t n_heads = 2, n_groups = 1, width = 4;  // of a head

ConformalKernel some_kernel() { return conformal_kernel(ConformalWeight::poisson, width); }

std::shared_ptr<const FarField> some_far_field() {
  return std::make_shared<LandmarkBasis>(Variable(normal({1, n_groups, 6, width}, 40)),
                                         some_kernel(), /*r_far=*/0.4, /*ridge=*/1e-3);
}

// What a layer gives to its kernel: points, and values.
struct LayerInputs {
  BallPoints points;
  Variable v;

  LayerInputs slice(std::int64_t begin, std::int64_t end) const {
    const auto part = [&](const Variable& x) { return mobius::slice(x, 2, begin, end); };
    return {{.radius = {part(points.radius.r), part(points.radius.one_minus_r)},
             .qhat = part(points.qhat),
             .zeta = part(points.zeta)},
            part(v)};
  }
};

LayerInputs some_inputs(std::int64_t n, std::uint64_t which, std::int64_t batch = 1) {
  const auto drawn = [&](std::int64_t heads, std::uint64_t stream) {
    return Variable(normal({batch, heads, n, width}, 1000 * which + stream));
  };
  const Variable alpha(placed::full({n_heads, 1, 1}, 2.0, DType::f64));
  return {embed_in_ball(drawn(n_heads, 1), drawn(n_groups, 2), alpha, some_kernel().s),
          drawn(n_groups, 3)};
}

Tensor trained_form(const LayerInputs& in, ConformalNormalize normalize) {
  const HeadInputs heads{
      .q = in.points.qhat, .k = in.points.zeta, .v = in.v, .mask = {.causal = true}};
  return attention(hierarchical_call(heads, in.points, *some_far_field(), some_kernel(), normalize,
                                     window))
      .data();
}

ConformalTreeCache some_cache(std::int64_t history) {
  return {some_far_field(), {.window = window, .block = block, .history = history}};
}

Tensor read_on(ConformalTreeCache& cache, const LayerInputs& in, ConformalNormalize normalize) {
  return mobius::read_on(cache, in.points, in.v, some_kernel(), normalize).data();
}

// Every now and then reads a draft of other tokens and takes it back, and asks for the output of
// some earlier position.
void expect_stream_as_trained(std::int64_t n, ConformalNormalize normalize) {
  constexpr std::int64_t longest_draft = 30;
  const LayerInputs in = some_inputs(n, 1);
  const LayerInputs draft = some_inputs(longest_draft, 2);
  const Tensor expected = trained_form(in, normalize);
  ConformalTreeCache cache = some_cache(KVTreeOptions::unlimited);
  Rng rng({.seed = 5, .stream = 1});
  for (std::int64_t i = 0; i < n; ++i) {
    if (drawn(rng, 0, 16) == 0) {
      for (std::int64_t t = 0, end = drawn(rng, 1, longest_draft); t < end; ++t)
        read_on(cache, draft.slice(t, t + 1), normalize);
      cache.rollback(i);
    }
    ASSERT_LT(distance(read_on(cache, in.slice(i, i + 1), normalize), expected.slice(2, i, i + 1)),
              1e-10)
        << i;
    if (drawn(rng, 0, 4) > 0) continue;
    const std::int64_t earlier = drawn(rng, 0, i + 1);
    const Variable again =
        attend_at(cache, earlier, in.slice(earlier, earlier + 1).points, some_kernel(), normalize);
    ASSERT_LT(distance(again.data(), expected.slice(2, earlier, earlier + 1)), 1e-10) << earlier;
  }
}

TEST(ConformalTreeCache, StreamsWhatTheTrainedFormGives) {
  expect_stream_as_trained(5000, ConformalNormalize::analytic);
}

TEST(ConformalTreeCache, StreamsWithoutNormalisation) {
  expect_stream_as_trained(500, ConformalNormalize::none);
}

TEST(ConformalTreeCache, TakesBackLongStretches) {
  constexpr std::int64_t n = 300;
  const LayerInputs in = some_inputs(n, 3, /*batch=*/2);
  const Tensor expected = trained_form(in, ConformalNormalize::analytic);
  ConformalTreeCache cache = some_cache(KVTreeOptions::unlimited);
  Rng rng({.seed = 5, .stream = 2});
  for (int round = 0; round < 8; ++round) {
    for (std::int64_t i = cache.length(); i < n; ++i) {
      const Tensor out = read_on(cache, in.slice(i, i + 1), ConformalNormalize::analytic);
      ASSERT_LT(distance(out, expected.slice(2, i, i + 1)), 1e-10) << round << ", " << i;
    }
    cache.rollback(drawn(rng, 0, n));
  }
}

TEST(ConformalTreeCache, ReadsSeveralPositionsAtATime) {
  constexpr std::int64_t n = 120;
  const LayerInputs in = some_inputs(n, 4, /*batch=*/2);
  const Tensor expected = trained_form(in, ConformalNormalize::analytic);
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{120}, {1, 120}, {50, 51, 70, 120}, {3, 7, 8, 9, 60, 61, 120}}) {
    ConformalTreeCache cache = some_cache(/*history=*/0);
    std::vector<Tensor> outs;
    for (const std::int64_t end : ends)
      outs.push_back(read_on(cache, in.slice(cache.length(), end), ConformalNormalize::analytic));
    EXPECT_LT(distance(concat(outs, 2), expected), 1e-10) << ends.size() << " pieces";
  }
}

}  // namespace
}  // namespace mobius::kv_tree_test
