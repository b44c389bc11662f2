#include "train/run/step.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/ops.h"
#include "tests/error_of.h"
#include "tests/train/optim/gradients.h"
#include "tests/train/run_fixture.h"
#include "tests/train/step_fixture.h"
#include "train/run/experiment.h"

namespace mobius::step_test {
namespace {

constexpr std::int64_t kVocab = 12, kLength = 6, kSequences = 16;

std::shared_ptr<LanguageModel> make_model(DType dtype, double dropout = 0) {
  ModelOptions model;
  model.d_model = 8;
  model.n_layers = 1;
  model.dropout = dropout;
  model.init_std = 0.3;
  const auto attention = builtin_attentions().choose("softmax");
  return std::make_shared<LanguageModel>(model, *attention, kVocab, kLength, 3, dtype);
}

// 16 sequences with 1 to 6 labels each, but for the last four, which have none.
Batch uneven_batch() {
  std::vector<std::int32_t> inputs, labels;
  Rng rng({.seed = 5});
  for (std::int64_t row = 0; row < kSequences; ++row) {
    for (std::int64_t t = 0; t < kLength; ++t) {
      inputs.push_back(static_cast<std::int32_t>(rng.below(kVocab)));
      const bool is_labelled = row < kSequences - 4 && t <= row % kLength;
      labels.push_back(is_labelled ? static_cast<std::int32_t>(rng.below(kVocab)) : ignored_label);
    }
  }
  const Shape shape{kSequences, kLength};
  return {Tensor::from(inputs, shape), Tensor::from(labels, shape), {}, 0};
}

struct Gradients {
  Score score;
  std::vector<double> values;  // of all parameters, one after another
};

Gradients gradients_in(std::int64_t micro_batches, DType dtype) {
  const auto model = make_model(dtype);
  const Score score = accumulate_gradients(*model, uneven_batch(), micro_batches, 1, 1);
  return {score, gradients_of(*model)};
}

void expect_same(const Gradients& parts, const Gradients& whole, double tolerance) {
  EXPECT_NEAR(parts.score.loss(), whole.score.loss(), tolerance * whole.score.loss());
  EXPECT_EQ(parts.score.n_labels, whole.score.n_labels);
  EXPECT_EQ(parts.score.n_correct, whole.score.n_correct);
  EXPECT_LT(relative_difference(parts.values, whole.values), tolerance);
}

TEST(Accumulation, DoesNotChangeTheGradient) {
  const Gradients whole = gradients_in(1, DType::f64);
  expect_same(gradients_in(4, DType::f64), whole, 1e-12);
  expect_same(gradients_in(16, DType::f64), whole, 1e-12);
}

TEST(Accumulation, DoesNotChangeTheGradientInSinglePrecision) {
  const Gradients whole = gradients_in(1, DType::f32);
  expect_same(gradients_in(4, DType::f32), whole, 1e-6);
  expect_same(gradients_in(16, DType::f32), whole, 1e-6);
}

TEST(Divergence, OfATestScoreNamesWhatIsToBlame) {
  const auto model = make_model(DType::f32);
  EXPECT_NO_THROW(require_finite_loss(*model, "test loss", 1e30, 3));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      error_of<TrainingDiverged>([&] { require_finite_loss(*model, "test loss", infinity, 3); }),
      "step 3: the test loss is inf, though every parameter is finite: the activations "
      "overflow");
  model->parameters().front().value.data().slice(0, 0, 1).fill(NAN);
  EXPECT_EQ(error_of<TrainingDiverged>([&] { require_finite_loss(*model, "test loss", NAN, 4); }),
            "step 4: the test loss is nan, and parameter 'embedding.weight' is not finite");
}

TEST(Divergence, OfWhatAnUpdateMadeNamesIt) {
  const auto model = make_model(DType::f32);
  const auto optimizer = AdamWOptions().build(trained_parameters(*model));
  OneRank alone;
  const auto error = [&] {
    return error_of<TrainingDiverged>([&] { require_finite_state(*optimizer, 9, alone); });
  };
  EXPECT_EQ(error(), "no error");
  const auto [name, moment] = optimizer->state().back();
  Tensor(moment).fill(std::numeric_limits<double>::infinity());
  EXPECT_EQ(error(), "step 9: after the update, the optimiser's '" + name + "' is not finite");
  Tensor parameter = optimizer->parameters().front().value.data();
  parameter.fill(NAN);
  EXPECT_EQ(error(), "step 9: after the update, parameter 'embedding.weight' is not finite");
}

TEST(Accumulation, OfABatchWithoutLabelsIsZero) {
  const auto model = make_model(DType::f64);
  Batch batch = uneven_batch();
  batch.labels.fill(ignored_label);
  const Score score = accumulate_gradients(*model, batch, 4, 1, 1);
  EXPECT_EQ(score.loss(), 0);
  EXPECT_EQ(gradient_norm(*model), 0);
}

TEST(Dropout, DependsOnSeedStepAndPartAlone) {
  const auto loss = [](std::uint64_t seed, std::int64_t step, std::int64_t parts) {
    const auto model = make_model(DType::f64, 0.5);
    return accumulate_gradients(*model, uneven_batch(), parts, seed, step).loss();
  };
  EXPECT_EQ(loss(1, 1, 1), loss(1, 1, 1));
  EXPECT_NE(loss(1, 1, 1), loss(1, 2, 1));
  EXPECT_NE(loss(1, 1, 1), loss(2, 1, 1));
  EXPECT_NE(loss(1, 1, 1), loss(1, 1, 2));
}

// ---- labels are not shifted: on x[t + 1] = x[t] + 1, only the model that adds 1 is right

// Every row is 0 1 2 ... ; the label of x is x + 1.
Batch counting_batch() {
  std::vector<std::int32_t> inputs, labels;
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int32_t t = 0; t < kLength; ++t) {
      inputs.push_back(t);
      labels.push_back(t + 1);
    }
  }
  const Shape shape{2, kLength};
  return {Tensor::from(inputs, shape), Tensor::from(labels, shape), {}, 0};
}

// A task that counts, for training and for test.
class CountingTask final : public Task {
 public:
  std::int64_t vocab_size() const override { return kVocab; }
  std::int64_t max_seq_len() const override { return kLength; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return 2; }
  Batch sequences(Split, int, std::uint64_t, std::int64_t) const override {
    return counting_batch();
  }

 private:
  std::vector<std::string> groups_ = {"all"};
};

TEST(Labels, AreShiftedOnceInTrainingAndInEvaluation) {
  for (std::int64_t added = 0; added <= 2; ++added) {
    const auto model = adding_model(kVocab, kLength, added);
    const Score trained = accumulate_gradients(*model, counting_batch(), 1, 1, 1);
    const Score tested = evaluate(*model, CountingTask(), 2).total;
    EXPECT_EQ(trained.accuracy(), added == 1 ? 1 : 0) << added;
    EXPECT_EQ(tested.accuracy(), added == 1 ? 1 : 0) << added;
    EXPECT_EQ(trained.loss() < 1e-3, added == 1) << added;
    EXPECT_NEAR(tested.loss(), trained.loss(), 1e-12) << added;
  }
}

// ---- scores

// The model says x + 1 at every position; the labels say so at two of three.
TEST(Score, CountsOnlyScoredPositions) {
  const auto model = adding_model(kVocab, kLength, 1);
  Batch batch = counting_batch();
  batch.labels.fill(ignored_label);
  for (const auto& [row, t, label] : {std::array{0, 0, 1}, {0, 1, 5}, {1, 1, 2}}) {
    batch.labels.slice(0, row, row + 1).slice(1, t, t + 1).fill(label);
  }
  const Score all = accumulate_gradients(*model, batch, 1, 1, 1);
  EXPECT_EQ(all.n_scored, 3);
  EXPECT_EQ(all.n_correct, 2);

  std::vector<std::uint8_t> scored(12, 0);
  scored[1] = scored[7] = 1;
  batch.scored = Tensor::from(scored, {2, kLength});
  for (const std::int64_t micro_batches : {1, 2}) {
    const Score score = accumulate_gradients(*model, batch, micro_batches, 1, 1);
    EXPECT_EQ(score.n_labels, 3);
    EXPECT_EQ(score.n_scored, 2);
    EXPECT_EQ(score.n_correct, 1);
  }
}

// Groups of a mixture are scored apart, and their sum is the total.
TEST(Evaluate, AddsGroupsUpToTheTotal) {
  const Registries known;
  const auto config =
      config_of(kTinyRun,
                {"task={name: mqar, vocab: 32, n_test: 10,"
                 " mixture: [{seq_len: 16, n_pairs: 2}, {seq_len: 24, n_pairs: 4}]}"},
                known);
  const Experiment experiment = build_experiment(*config);
  const Evaluation evaluation = evaluate(*experiment.model, *experiment.task, 4);
  ASSERT_EQ(evaluation.groups.size(), 2u);
  EXPECT_EQ(evaluation.groups[0].second.n_labels, 20);
  EXPECT_EQ(evaluation.groups[1].second.n_labels, 40);
  Score sum = evaluation.groups[0].second;
  sum += evaluation.groups[1].second;
  EXPECT_DOUBLE_EQ(sum.loss(), evaluation.total.loss());
  EXPECT_EQ(evaluation.total.n_labels, 60);
}

TEST(Evaluate, EndsBeforeTheNextBatchWhereItIsStopped) {
  const Registries known;
  const auto config = config_of(kTinyRun, {}, known);
  const Experiment experiment = build_experiment(*config);
  int asked = 0;
  const auto stop_at = [&](int batch) {
    asked = 0;
    OneRank alone;
    return evaluate(*experiment.model, *experiment.task, 4, alone, [&] { return ++asked > batch; });
  };
  EXPECT_FALSE(stop_at(0).has_value());
  EXPECT_FALSE(stop_at(3).has_value());
  EXPECT_EQ(asked, 4);
  const std::optional<Evaluation> whole = stop_at(4);  // there are 16 test sequences
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(whole->total.loss_sum, evaluate(*experiment.model, *experiment.task, 4).total.loss_sum);
}

TEST(Evaluate, DoesNotDependOnTheBatchSize) {
  const Registries known;
  const auto config = config_of(kTinyRun, {"attention.kind=conformal"}, known);
  const Experiment experiment = build_experiment(*config);
  const Evaluation one = evaluate(*experiment.model, *experiment.task, 16);
  const Evaluation other = evaluate(*experiment.model, *experiment.task, 3);
  EXPECT_NEAR(one.total.loss(), other.total.loss(), 1e-6);
  EXPECT_EQ(one.total.n_correct, other.total.n_correct);
  ASSERT_EQ(one.summaries.size(), 1u);
  ASSERT_EQ(other.summaries.size(), 1u);
  EXPECT_EQ(one.summaries[0].first, "share_beyond_resolution");
  EXPECT_NEAR(one.summaries[0].second, other.summaries[0].second, 1e-9);
}

// ---- numbers that are not finite

TEST(Diverged, NamesTheStepAndTheParameter) {
  const auto model = make_model(DType::f64);
  const auto parameters = trained_parameters(*model);
  Tensor data = parameters[3].value.data();
  data.fill(-std::numeric_limits<double>::quiet_NaN());
  const std::string error =
      error_of([&] { accumulate_gradients(*model, uneven_batch(), 1, 1, 17); });
  EXPECT_NE(error.find("step 17: the loss is nan,"), std::string::npos) << error;
  EXPECT_NE(error.find("'" + parameters[3].name + "'"), std::string::npos) << error;
}

TEST(Diverged, NamesTheFirstBadGradient) {
  const auto model = make_model(DType::f64);
  OneRank alone;
  const auto optimizer = AdamWOptions().build(trained_parameters(*model));
  auto parameters = optimizer->parameters();
  accumulate_gradients(*model, uneven_batch(), 1, 1, 1);
  optimizer->clipped_step(0.1, 1, alone);
  EXPECT_GT(finite_gradient_norm(*optimizer, 1), 0);
  for (const std::size_t bad : {5, 2}) {
    parameters[bad].value.mutable_grad().fill(std::numeric_limits<double>::infinity());
  }
  optimizer->clipped_step(0.1, 1, alone);
  const std::string error = error_of([&] { finite_gradient_norm(*optimizer, 8); });
  EXPECT_EQ(error, "step 8: the gradient of '" + parameters[2].name + "' is not finite");
}

}  // namespace
}  // namespace mobius::step_test
