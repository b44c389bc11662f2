// Models whose linear layers multiply in bf16: every variant, every such layer, and weights that
// move by less than bf16 can tell.
#include <gmock/gmock.h>

#include "nn/attention/softmax.h"
#include "nn/language_model.h"
#include "tests/nn/nn_testing.h"

namespace mobius::bf16_test {
namespace {

using testing::parameter_of;

constexpr std::int64_t kVocab = 11, kLength = 9;

LanguageModel build(const ModelOptions& model, const std::string& attention,
                    MatmulPrecision products) {
  return LanguageModel(model, *builtin_attentions().choose(attention), kVocab, kLength,
                       /*init_seed=*/3, DType::f32, testing::device(), products);
}

ModelOptions some_model(bool is_llama) {
  ModelOptions model;
  model.d_model = 16;
  model.n_layers = 2;
  model.n_heads = 2;
  model.init_std = 0.3;
  model.tied_head = false;
  if (is_llama) {
    testing::make_published(model);
    model.final_norm = NormKind::rms_norm;
  }
  return model;
}

Tensor some_tokens(std::int64_t shift) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 4 * kLength; ++i) tokens.push_back((i * i + shift) % kVocab);
  return placed::from(tokens, {4, kLength});
}

const Tensor tokens = some_tokens(0), labels = some_tokens(1);

double loss_of(const LanguageModel& model) {
  return testing::loss_of(model, tokens, labels).loss.item();
}

// The matrices of the model's Linears.
std::vector<std::string> linear_weights(const LanguageModel& model) {
  std::vector<std::string> names;
  for (const auto& [name, value] : model.parameters()) {
    const bool is_table = name.starts_with("embedding.") || name.starts_with("positions.");
    if (value.ndim() == 2 && name.ends_with(".weight") && !is_table) names.push_back(name);
  }
  return names;
}

void round_in_place(const LanguageModel& model, const std::string& name) {
  Variable weight = parameter_of(model, name);
  weight.mutable_data().copy_from(weight.data().to(DType::bf16).to(DType::f32));
}

// To round a weight that is rounded whenever it is used changes no bit of the loss; in f32 it does.
TEST(Bf16Model, EveryLinearLayerOfEveryVariantRounds) {
  for (const std::string& kind : builtin_attentions().names())
    for (const bool is_llama : {false, true}) {
      const LanguageModel rounds = build(some_model(is_llama), kind, MatmulPrecision::bf16);
      const LanguageModel full = build(some_model(is_llama), kind, MatmulPrecision::full);
      const double before = loss_of(rounds);
      EXPECT_NE(before, loss_of(full)) << kind;
      EXPECT_NEAR(before, loss_of(full), 0.03 * before) << kind;
      const std::vector<std::string> names = linear_weights(rounds);
      EXPECT_GE(names.size(), is_llama ? 11u : 9u) << kind;  // layers of 5 or 4, and the head
      for (const std::string& name : names) {
        const double full_before = loss_of(full);
        round_in_place(rounds, name);
        round_in_place(full, name);
        EXPECT_EQ(loss_of(rounds), before) << kind << ": " << name;
        EXPECT_NE(loss_of(full), full_before) << kind << ": " << name;
      }
    }
}

TEST(Bf16Model, EveryVariantLearns) {
  for (const std::string& kind : builtin_attentions().names()) {
    LanguageModel model = build(some_model(false), kind, MatmulPrecision::bf16);
    const ForwardContext context{.training = true, .rng = {1, 2}};
    const double before = loss_of(model);
    for (int step = 0; step < 5; ++step) {
      model.zero_grad();
      backward(testing::loss_of(model, tokens, labels, context).loss);
      for (auto& [name, value] : model.parameters()) {
        ASSERT_TRUE(value.grad().defined()) << kind << ": " << name;
        EXPECT_EQ(value.dtype(), DType::f32) << kind << ": " << name;
        EXPECT_EQ(value.grad().dtype(), DType::f32) << kind << ": " << name;
        EXPECT_TRUE(std::isfinite(sum_of_squares(value.grad()))) << kind << ": " << name;
        value.mutable_data().add_(scale(value.grad(), -0.05));
      }
    }
    EXPECT_LT(loss_of(model), before) << kind;
  }
}

TEST(Bf16Model, GradientsAreThoseOfF32UpToRounding) {
  for (const std::string& kind : builtin_attentions().names()) {
    ModelOptions options = some_model(true);
    options.init_std = 0.1;
    LanguageModel rounds = build(options, kind, MatmulPrecision::bf16);
    LanguageModel full = build(options, kind, MatmulPrecision::full);
    for (LanguageModel* model : {&rounds, &full})
      backward(testing::loss_of(*model, tokens, labels).loss);
    double difference = 0, length = 0;
    for (const auto& [name, value] : full.parameters()) {
      difference += sum_of_squares(sub(parameter_of(rounds, name).grad(), value.grad()));
      length += sum_of_squares(value.grad());
    }
    EXPECT_LT(std::sqrt(difference / length), 0.05) << kind;
    EXPECT_GT(std::sqrt(difference / length), 1e-5) << kind;
  }
}

TEST(Bf16Model, ATiedHeadRoundsTheTableForItsProductsAlone) {
  ModelOptions model = some_model(false);
  model.tied_head = true;
  LanguageModel rounds = build(model, "softmax", MatmulPrecision::bf16);
  const LanguageModel full = build(model, "softmax", MatmulPrecision::full);
  EXPECT_NE(loss_of(rounds), loss_of(full));
  EXPECT_NEAR(loss_of(rounds), loss_of(full), 0.03 * loss_of(full));
  const double before = loss_of(rounds);
  round_in_place(rounds, "embedding.weight");
  EXPECT_NE(loss_of(rounds), before);  // the rows that are read had not been rounded
}

TEST(Bf16Model, RefusesF64) {
  const LanguageModel model(some_model(false), SoftmaxOptions(), kVocab, kLength, 3, DType::f64,
                            testing::device(), MatmulPrecision::bf16);
  testing::expect_error<Error>([&] { loss_of(model); },
                               "products in bf16: expected f32 operands, got f64");
}

}  // namespace
}  // namespace mobius::bf16_test
