#include "nn/language_model.h"

#include <gmock/gmock.h>

#include "nn/attention/conformal/conformal.h"
#include "nn/attention/sparse.h"
#include "tests/nn/nn_testing.h"

namespace mobius::language_model_test {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using testing::loss_of;
using testing::parameter_of;

Tensor ids(const std::vector<std::int64_t>& values, Shape shape) {
  return placed::from(values, std::move(shape));
}

ModelOptions small_model() {
  ModelOptions model;
  model.d_model = 12;
  model.n_layers = 2;
  model.n_heads = 2;
  model.init_std = 0.3;
  return model;
}

const Tensor tokens = ids({1, 5, 2, 0, 6, 6, 3, 1, 4, 2}, {2, 5});
const Tensor labels = ids({-100, 2, -100, 6, 1, -100, 1, 4, -100, 3}, {2, 5});

LanguageModel small_f64(const ModelOptions& model, const AttentionOptions& attention) {
  return LanguageModel(model, attention, /*vocab_size=*/7, /*max_seq_len=*/5, /*init_seed=*/3,
                       DType::f64, testing::device());
}

TEST(LanguageModel, GradientsOfEveryParameterAgreeWithDifferences) {
  const Registry<AttentionOptions> attentions = builtin_attentions();
  for (const std::string& kind : attentions.names())
    for (const bool is_llama : {false, true}) {
      ModelOptions model = small_model();
      if (is_llama) {
        testing::make_published(model);
        model.final_norm = NormKind::rms_norm;
      } else {
        model.n_heads = 4;  // of the odd size 3
      }
      model.dropout = 0.3;
      LanguageModel lm = small_f64(model, *attentions.choose(kind));
      const ForwardContext context{.training = true, .rng = {1, 2}};
      testing::expect_parameter_gradients(
          lm, [&] { return loss_of(lm, tokens, labels, context).loss; });
    }
}

TEST(LanguageModel, NamesItsParameters) {
  ModelOptions model = small_model();
  model.n_layers = 1;
  EXPECT_THAT(
      testing::parameter_names(small_f64(model, ConformalOptions())),
      ElementsAre("embedding.weight", "positions.weight", "blocks.0.attention_norm.weight",
                  "blocks.0.attention_norm.bias", "blocks.0.attention.raw_alpha",
                  "blocks.0.attention.qkv.weight", "blocks.0.attention.qkv.bias",
                  "blocks.0.attention.proj.weight", "blocks.0.attention.proj.bias",
                  "blocks.0.mlp_norm.weight", "blocks.0.mlp_norm.bias", "blocks.0.mlp.w_up.weight",
                  "blocks.0.mlp.w_up.bias", "blocks.0.mlp.w_down.weight",
                  "blocks.0.mlp.w_down.bias", "final_norm.weight", "final_norm.bias"));
  testing::make_published(model);
  EXPECT_THAT(testing::parameter_names(small_f64(model, SoftmaxOptions())),
              ElementsAre("embedding.weight", "blocks.0.attention_norm.weight",
                          "blocks.0.attention.qkv.weight", "blocks.0.attention.proj.weight",
                          "blocks.0.mlp_norm.weight", "blocks.0.mlp.w_gate.weight",
                          "blocks.0.mlp.w_up.weight", "blocks.0.mlp.w_down.weight",
                          "final_norm.weight", "final_norm.bias", "head.weight"));
}

TEST(LanguageModel, HasThePublishedParameterCountOfTheStandardBlock) {
  const ModelOptions model = testing::published_model(96, 6, 384);
  EXPECT_EQ(LanguageModel(model, SoftmaxOptions(), 1024, 128, 0).parameter_count(), 492096);
}

TEST(LanguageModel, ChoosesTheHiddenWidth) {
  ModelOptions model;
  model.d_model = 64;
  EXPECT_EQ(model.hidden_width(), 256);
  model.mlp = MlpKind::swiglu;
  EXPECT_EQ(model.hidden_width(), 176);  // 170.67 rounded up to a multiple of 8
  model.d_model = 96;
  EXPECT_EQ(model.hidden_width(), 256);  // exact already
  model.d_ff = 100;
  EXPECT_EQ(model.hidden_width(), 100);
}

TEST(LanguageModel, StartsResidualOutputsSmallerByDepth) {
  ModelOptions model = small_model();
  model.d_model = 128;
  model.init_std = 0.02;
  model.n_layers = 8;
  const LanguageModel lm(model, SoftmaxOptions(), 50, 16, 0);
  const auto std_of = [&lm](const std::string& name) {
    const Tensor& weight = parameter_of(lm, name).data();
    return std::sqrt(sum_of_squares(weight) / static_cast<double>(weight.numel()));
  };
  EXPECT_NEAR(std_of("blocks.3.attention.qkv.weight"), 0.02, 5e-4);
  EXPECT_NEAR(std_of("blocks.3.mlp.w_up.weight"), 0.02, 5e-4);
  EXPECT_NEAR(std_of("blocks.3.attention.proj.weight"), 0.02 / 4, 2e-4);
  EXPECT_NEAR(std_of("blocks.3.mlp.w_down.weight"), 0.02 / 4, 2e-4);
  EXPECT_EQ(std_of("blocks.3.mlp.w_up.bias"), 0);
}

TEST(LanguageModel, InitialValuesOfAPartDoNotDependOnTheOthers) {
  ModelOptions model = small_model();
  const LanguageModel two(model, SoftmaxOptions(), 7, 5, 3);
  model.n_layers = 3;
  const LanguageModel three(model, SoftmaxOptions(), 7, 5, 3);
  const std::string name = "blocks.1.attention.qkv.weight";
  EXPECT_EQ(parameter_of(two, name).data().to_vector<float>(),
            parameter_of(three, name).data().to_vector<float>());
  EXPECT_NE(parameter_of(two, "blocks.0.attention.qkv.weight").data().to_vector<float>(),
            parameter_of(two, name).data().to_vector<float>());
}

TEST(LanguageModel, AnOrthogonalModelHasOrthogonalMatrices) {
  ModelOptions model = small_model();
  model.init = InitKind::orthogonal;
  const LanguageModel lm =
      LanguageModel(model, SoftmaxOptions(), 7, 5, 3, DType::f64, testing::device());
  for (const std::string name : {"embedding.weight", "blocks.1.mlp.w_down.weight"}) {
    const Tensor weight = parameter_of(lm, name).data();  // [7, 12], [12, 48]
    const Tensor gram = matmul(weight, weight.transpose(0, 1));
    EXPECT_NEAR(sum_of_squares(gram), static_cast<double>(weight.size(0)), 1e-12) << name;
  }
}

std::vector<std::unique_ptr<AttentionOptions>> attentions_to_try() {
  std::vector<std::unique_ptr<AttentionOptions>> all;
  const Registry<AttentionOptions> registry = builtin_attentions();
  for (const std::string& kind : registry.names()) all.push_back(registry.choose(kind).options);
  for (const ConformalNormalize normalize :
       {ConformalNormalize::none, ConformalNormalize::empirical}) {
    auto options = std::make_unique<ConformalOptions>();
    options->normalize = normalize;
    all.push_back(std::move(options));
  }
  auto topk = std::make_unique<SparseOptions>();
  topk->selection = {.pattern = SparsePattern::topk, .topk = 2};
  all.push_back(std::move(topk));
  return all;
}

TEST(LanguageModel, ATokenChangesNothingBeforeIt) {
  for (const auto& attention : attentions_to_try()) {
    const LanguageModel lm(small_model(), *attention, 7, 5, 3);
    const auto logits_before = [&](const Tensor& input, std::int64_t end) {
      return lm.logits(input, {}).data().slice(1, 0, end).to_vector<float>();
    };
    for (std::int64_t t = 1; t < 5; ++t) {
      const Tensor changed = tokens.clone();
      changed.slice(1, t, t + 1).fill(3);
      EXPECT_EQ(logits_before(tokens, t), logits_before(changed, t)) << t;
      EXPECT_NE(logits_before(tokens, t + 1), logits_before(changed, t + 1)) << t;
    }
  }
}

TEST(LanguageModel, WithoutLabelsTheLossAndItsGradientsAreZero) {
  const LanguageModel lm(small_model(), SoftmaxOptions(), 7, 5, 3);
  const LossResult result = loss_of(lm, tokens, placed::full({2, 5}, -100, DType::i64));
  EXPECT_EQ(result.loss.item(), 0);
  EXPECT_EQ(result.n_labels(), 0);
  backward(result.loss);
  for (const auto& [name, parameter] : lm.parameters())
    EXPECT_TRUE(!parameter.grad().defined() || sum_of_squares(parameter.grad()) == 0) << name;
}

TEST(LanguageModel, LossIsTheMeanOverLabelsOfTheFullLogits) {
  const LanguageModel lm = small_f64(small_model(), SoftmaxOptions());
  const std::vector<double> logits = lm.logits(tokens, {}).data().to_vector<double>();
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  double loss = 0;
  int n_labels = 0;
  for (std::size_t row = 0; row < wanted.size(); ++row) {
    if (wanted[row] < 0) continue;
    double partition = 0;
    for (std::size_t v = 0; v < 7; ++v) partition += std::exp(logits[7 * row + v]);
    loss += std::log(partition) - logits[7 * row + static_cast<std::size_t>(wanted[row])];
    ++n_labels;
  }
  const LossResult result = loss_of(lm, tokens, labels);
  EXPECT_EQ(result.n_labels(), n_labels);
  EXPECT_NEAR(result.loss.item(), loss / n_labels, 1e-12);
  EXPECT_NEAR(loss_of(lm, tokens, labels, {}, /*normalizer=*/20).loss.item(), loss / 20, 1e-12);
}

// Models set by hand to say "the next token is this one plus `step`", on counting data whose labels
// are the next tokens: only step 1 is right, so labels are shifted exactly once.
TEST(LanguageModel, LabelsAreShiftedOnce) {
  const std::int64_t vocab = 8;
  ModelOptions model;
  model.d_model = vocab;
  model.n_layers = 1;
  model.n_heads = 1;
  model.positions = Positions::none;
  model.tied_head = false;
  const Tensor counting = ids({0, 1, 2, 3, 4}, {1, 5}), next = ids({1, 2, 3, 4, 5}, {1, 5});
  for (const std::int64_t step : {0, 1, 2}) {
    const LanguageModel lm(model, SoftmaxOptions(), vocab, 5, 0);
    for (const std::string silenced : {"attention.proj.weight", "mlp.w_down.weight"})
      parameter_of(lm, "blocks.0." + silenced).mutable_data().fill(0);
    Tensor embedding = parameter_of(lm, "embedding.weight").mutable_data();
    Tensor head = parameter_of(lm, "head.weight").mutable_data();
    embedding.fill(0);
    head.fill(0);
    for (std::int64_t v = 0; v < vocab; ++v) {
      const std::int64_t target = (v + step) % vocab;
      embedding.slice(0, v, v + 1).slice(1, v, v + 1).fill(1);
      head.slice(0, target, target + 1).slice(1, v, v + 1).fill(20);
    }
    const double loss = loss_of(lm, counting, next).loss.item();
    if (step == 1)
      EXPECT_LT(loss, 1e-6);
    else
      EXPECT_GT(loss, 10);
  }
}

TEST(LanguageModel, ATiedHeadIsOneTensorSeenThroughBothEnds) {
  ModelOptions model = small_model();
  LanguageModel tied = small_f64(model, SoftmaxOptions());
  model.tied_head = false;
  const LanguageModel untied = small_f64(model, SoftmaxOptions());
  EXPECT_EQ(untied.parameter_count(), tied.parameter_count() + 7 * 12);

  const auto logits = [&] { return tied.logits(tokens, {}).data(); };
  const auto hidden = [&] { return tied.hidden(testing::prepared(tied, tokens), {}).data(); };
  const Tensor logits_before = logits(), hidden_before = hidden();
  Variable embedding = parameter_of(tied, "embedding.weight");
  embedding.mutable_data().scale_(2);
  EXPECT_GT(sum_of_squares(sub(hidden(), hidden_before)), 1e-6);
  const Tensor expected = matmul(hidden(), embedding.data().transpose(0, 1));
  EXPECT_LT(sum_of_squares(sub(logits(), expected)), 1e-20);
  EXPECT_GT(sum_of_squares(sub(logits(), logits_before)), 1e-6);
}

TEST(LanguageModel, DropoutRepeatsInAStepAndIsOffInEvaluation) {
  ModelOptions model = small_model();
  const LanguageModel plain(model, SoftmaxOptions(), 7, 5, 3);
  model.dropout = 0.4;
  const LanguageModel lm(model, SoftmaxOptions(), 7, 5, 3);
  const auto logits = [](const LanguageModel& m, const ForwardContext& context) {
    return m.logits(tokens, context).data().to_vector<float>();
  };
  const ForwardContext step{.training = true, .rng = {1, 2}}, next{.training = true, .rng = {1, 3}};
  EXPECT_EQ(logits(lm, step), logits(lm, step));
  EXPECT_NE(logits(lm, step), logits(lm, next));
  EXPECT_EQ(logits(lm, {.training = false, .rng = {1, 2}}), logits(plain, step));
}

TEST(LanguageModel, PositionsTellEqualTokensApart) {
  const Tensor same = placed::full({1, 5}, 2, DType::i64);
  ModelOptions model = small_model();
  const auto spread = [&](Positions positions) {
    model.positions = positions;
    const LanguageModel lm = small_f64(model, SoftmaxOptions());
    const Tensor h = lm.hidden(testing::prepared(lm, same), {}).data();
    return sum_of_squares(sub(h.slice(1, 4, 5).contiguous(), h.slice(1, 0, 1).contiguous()));
  };
  EXPECT_GT(spread(Positions::learned), 1e-6);
  EXPECT_LT(spread(Positions::none), 1e-20);
  EXPECT_LT(spread(Positions::rope), 1e-20);  // equal values: whatever the weights, their mean
  const LanguageModel learned = small_f64(small_model(), SoftmaxOptions());
  expect_error<ShapeError>(
      [&] {
        learned.logits(placed::zeros({1, 6}, DType::i64), {});
      },
      "learned up to 5");
}

TEST(LanguageModel, RefusesOptionsAndInputsThatDoNotFit) {
  const auto build = [](const std::function<void(ModelOptions&)>& change) {
    return [change] {
      ModelOptions model = small_model();
      change(model);
      LanguageModel(model, SoftmaxOptions(), 7, 5, 3);
    };
  };
  expect_error<ConfigError>(build([](ModelOptions& m) { m.n_heads = 5; }), "divisor of d_model");
  expect_error<ConfigError>(build([](ModelOptions& m) {
                              m.n_heads = 4;
                              m.positions = Positions::rope;
                            }),
                            "must be even");
  expect_error<ConfigError>(build([](ModelOptions& m) { m.n_kv_heads = 3; }), "n_kv_heads");
  expect_error<ConfigError>(build([](ModelOptions& m) { m.attention_dropout = 1; }), "dropout");
  expect_error<ConfigError>(build([](ModelOptions& m) {
                              m.positions = Positions::relative;
                              m.max_distance = 0;
                            }),
                            "max_distance");
  expect_error<ConfigError>(build([](ModelOptions& m) { m.n_layers = 0; }), "n_layers");
  expect_error<ConfigError>(build([](ModelOptions& m) { m.dropout = 1; }), "dropout");
  EXPECT_THROW(LanguageModel(small_model(), SoftmaxOptions(), 0, 5, 3), ConfigError);

  const LanguageModel lm(small_model(), SoftmaxOptions(), 7, 5, 3);
  EXPECT_THROW(lm.logits(ids({1, 2}, {2}), {}), ShapeError);
  EXPECT_THROW(loss_of(lm, tokens, ids({1, 2}, {1, 2})), ShapeError);
  EXPECT_THROW(lm.logits(ids({7}, {1, 1}), {}), Error);
}

// Of any size: it makes no parameters.
TEST(LanguageModel, KnowsWhetherItCanBeBuilt) {
  ModelOptions model = small_model();
  model.d_model = std::int64_t{1} << 24;
  model.n_heads = 1 << 20;
  model.n_layers = 4000;
  model.positions = Positions::alibi;
  model.init = InitKind::orthogonal;
  allocator_for({}).reset_peak();
  const std::uint64_t before = allocator_for({}).stats().peak;
  EXPECT_NO_THROW(require_buildable(model, SoftmaxOptions()));
  EXPECT_LT(allocator_for({}).stats().peak, before + 65536);
  expect_error<ConfigError>([&] { require_buildable(model, ConformalOptions()); }, "alibi");
  model.n_heads = 3;
  expect_error<ConfigError>([&] { require_buildable(model, SoftmaxOptions()); }, "divisor");
}

TEST(ModelOptions, DescribeThemselves) {
  ModelOptions model;
  Schema schema;
  model.describe(schema);
  EXPECT_NE(schema.find("positions"), nullptr);
  model.n_heads = 5;
  const auto run_checks = [&schema] {
    for (const Schema::Check& check : schema.checks()) check.run();
  };
  expect_error<ConfigError>(run_checks, "divisor of d_model");
}

}  // namespace
}  // namespace mobius::language_model_test
