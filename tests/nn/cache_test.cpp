// Reading on from a cache against reading everything at once.
#include "nn/attention/cache.h"

#include <gtest/gtest.h>

#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/sparse.h"
#include "nn/language_model.h"
#include "tests/nn/nn_testing.h"

namespace mobius::cache_test {
namespace {

using testing::expect_error;

constexpr std::int64_t vocab = 11, n_tokens = 37;

Tensor some_tokens() {
  Rng rng({.seed = 4, .stream = 2});
  std::vector<std::int64_t> ids(2 * n_tokens);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(rng.uniform() * vocab);
  return placed::from(ids, {2, n_tokens});
}

LanguageModel small_model(const AttentionOptions& attention, Positions positions,
                          std::int64_t n_kv_heads = 2) {
  ModelOptions model;
  model.d_model = 16;
  model.n_layers = 2;
  model.n_heads = 2;
  model.n_kv_heads = n_kv_heads;
  model.init_std = 0.4;
  model.positions = positions;
  return LanguageModel(model, attention, vocab, n_tokens, /*init_seed=*/3, DType::f64,
                       testing::device());
}

// Logits of all positions, read in pieces of these sizes.
Tensor read_in_pieces(const LanguageModel& model, const Tensor& tokens,
                      const std::vector<std::int64_t>& pieces) {
  ModelCache cache = model.make_cache();
  std::vector<Tensor> logits;
  std::int64_t begin = 0;
  for (const std::int64_t n : pieces) {
    logits.push_back(model.extend(tokens.slice(1, begin, begin + n).contiguous(), cache).data());
    begin += n;
    EXPECT_EQ(cache.length, begin);
    for (const auto& layer : cache.blocks) EXPECT_EQ(layer->length(), begin);
  }
  return concat(logits, 1);
}

void expect_same_logits(const LanguageModel& model, const std::string& what) {
  const Tensor tokens = some_tokens();
  const Tensor expected = model.logits(tokens, {}).data();
  const std::vector<std::int64_t> singly(n_tokens, 1);
  const std::vector<std::vector<std::int64_t>> partitions{
      {n_tokens}, {1, n_tokens - 1}, {5, 1, 1, 9, 1, 20}, singly};
  for (const auto& pieces : partitions) {
    EXPECT_LT(testing::distance(read_in_pieces(model, tokens, pieces), expected), 1e-10)
        << what << ", " << pieces.size() << " pieces";
  }
}

class Cache : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(All, Cache, ::testing::ValuesIn(builtin_attentions().names()),
                         [](const auto& one) { return one.param; });

TEST_P(Cache, ReadsOnAsIfItReadEverything) {
  const auto attention = builtin_attentions().choose(GetParam());
  for (const Positions positions : {Positions::none, Positions::learned, Positions::rope})
    for (const std::int64_t n_kv_heads : {1, 2}) {
      expect_same_logits(
          small_model(*attention, positions, n_kv_heads),
          fmt::format("{} key heads, positions {}", n_kv_heads, static_cast<int>(positions)));
    }
}

TEST(Cache, KnowsTheDistanceToEarlierKeys) {
  for (const char* kind : {"softmax", "softmax_naive", "sparse", "w2", "w2_overlap"}) {
    const auto attention = builtin_attentions().choose(kind);
    expect_same_logits(small_model(*attention, Positions::alibi), kind);
    const LanguageModel model = small_model(*attention, Positions::relative);
    for (const Module::NamedParameter& parameter : model.parameters()) {
      if (!parameter.name.ends_with("relative")) continue;
      Variable table = parameter.value;
      table.mutable_data().copy_from(testing::normal(table.shape(), 5));
    }
    expect_same_logits(model, kind);
  }
}

TEST(CacheOfSparse, SeesThePatternFromWhereTheQueryStands) {
  for (const SparsePattern pattern :
       {SparsePattern::local, SparsePattern::strided, SparsePattern::topk}) {
    SparseOptions options;
    options.selection = {.pattern = pattern, .window = 4, .stride = 6, .n_global = 2, .topk = 3};
    expect_same_logits(small_model(options, Positions::rope),
                       fmt::format("pattern {}", static_cast<int>(pattern)));
  }
}

TEST(CacheOfHierarchy, ReadsFarKeysByTheirMoments) {
  FarFieldOptions degree_2, drawn, learned;
  degree_2.degree = 2;
  drawn.kind = learned.kind = FarFieldKind::landmarks;
  drawn.n_landmarks = learned.n_landmarks = 7;
  learned.landmark_source = LandmarkSource::learned;
  for (const FarFieldOptions& far : {FarFieldOptions{}, degree_2, drawn, learned})
    for (const ConformalNormalize normalize :
         {ConformalNormalize::analytic, ConformalNormalize::none})
      for (const std::int64_t n_kv_heads : {1, 2}) {
        ConformalHierarchicalOptions options;
        options.window = 5;
        options.normalize = normalize;
        options.alpha = 3;
        options.far = far;
        expect_same_logits(
            small_model(options, Positions::rope, n_kv_heads),
            fmt::format("{} key heads, far field {}", n_kv_heads, static_cast<int>(far.kind)));
      }
}

// A variant without a cache of its own.
class Plain final : public Attention {
 public:
  Variable forward(const Variable& x, const AttentionMask& mask,
                   const ForwardContext&) const override {
    return matmul(masked_softmax(matmul(x, transpose(x, -1, -2)), 0.3, mask), x);
  }
};

class PlainOptions final : public AttentionOptions {
 public:
  std::string kind() const override { return "plain"; }
  void describe(Schema&) override {}

 protected:
  std::shared_ptr<Attention> make(const AttentionContext&) const override {
    return std::make_shared<Plain>();
  }
};

TEST(CacheOfInputs, ServesAnyCausalAttention) {
  expect_same_logits(small_model(PlainOptions(), Positions::learned), "plain");
}

TEST(Cache, EndsWhereLearnedPositionsEnd) {
  const LanguageModel model =
      small_model(*builtin_attentions().choose("softmax"), Positions::learned);
  ModelCache cache = model.make_cache();
  model.extend(some_tokens(), cache);
  expect_error<ShapeError>([&] { model.extend(some_tokens().slice(1, 0, 1).contiguous(), cache); },
                           "language model: 38 tokens a sequence, but positions are learned up "
                           "to 37");
}

TEST(Cache, MomentsDoNotGrow) {
  for (const char* kind : {"linear", "performer"}) {
    const LanguageModel model = small_model(*builtin_attentions().choose(kind), Positions::rope);
    ModelCache cache = model.make_cache();
    Allocator& allocator = allocator_for({});
    const Tensor one = some_tokens().slice(1, 0, 1).contiguous();
    model.extend(one, cache);
    const std::size_t first = allocator.stats().current;
    for (int i = 0; i < 100; ++i) model.extend(one, cache);
    EXPECT_EQ(allocator.stats().current, first) << kind;
  }
}

}  // namespace
}  // namespace mobius::cache_test
