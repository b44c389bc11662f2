// Compares the work of one step on several ranks with that of one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/distributed/ranks.h"
#include "tests/error_of.h"
#include "tests/train/optim/gradients.h"
#include "tests/train/step_fixture.h"
#include "train/optim/sharding.h"

namespace mobius::training_test {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kVocab = 12, kLength = 6, kSequences = 16;
constexpr std::int64_t kSmallBuckets = 512;  // bytes: about one parameter each

std::shared_ptr<LanguageModel> make_model(DType dtype = DType::f64,
                                          MatmulPrecision products = MatmulPrecision::full) {
  ModelOptions model;
  model.d_model = 8;
  model.n_layers = 2;
  model.init_std = 0.3;
  const auto attention = builtin_attentions().choose("softmax");
  return std::make_shared<LanguageModel>(model, *attention, kVocab, kLength, 3, dtype, Device{},
                                         products);
}

ParameterArena arena_of(const LanguageModel& model, std::int64_t bucket_bytes = kSmallBuckets) {
  return ParameterArena(trained_parameters(model), ranks().size(), bucket_bytes);
}

// Row r has r % 6 + 1 labels, but the last quarter has none, which is the share of one of four
// ranks.
class UnevenTask final : public Task {
 public:
  explicit UnevenTask(std::int64_t n_test = kSequences) : n_test_(n_test) {}

  std::int64_t vocab_size() const override { return kVocab; }
  std::int64_t max_seq_len() const override { return kLength; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return n_test_; }
  Batch sequences(Split, int, std::uint64_t first, std::int64_t count) const override {
    std::vector<std::int32_t> inputs, labels;
    for (std::uint64_t row = first; row < first + static_cast<std::uint64_t>(count); ++row) {
      Rng rng({.seed = 5, .stream = row});
      for (std::uint64_t t = 0; t < kLength; ++t) {
        inputs.push_back(static_cast<std::int32_t>(rng.below(kVocab)));
        const bool is_labelled = row % kSequences < kSequences * 3 / 4 && t <= row % kLength;
        labels.push_back(is_labelled ? static_cast<std::int32_t>(rng.below(kVocab))
                                     : static_cast<std::int32_t>(ignored_label));
      }
    }
    const Shape shape{count, kLength};
    return {Tensor::from(inputs, shape), Tensor::from(labels, shape), {}, 0};
  }

 private:
  std::int64_t n_test_;
  std::vector<std::string> groups_ = {"all"};
};

Batch whole_batch() { return UnevenTask().sequences(Split::train, 0, 0, kSequences); }

Batch batch_of_this_rank() {
  const Share share = share_of(kSequences, ranks().rank(), ranks().size());
  return UnevenTask().sequences(Split::train, 0, static_cast<std::uint64_t>(share.begin),
                                share.size());
}

// Tests buckets smaller and larger than the model, and fewer and more micro-batches than some ranks
// need.
TEST(Gradients, AreThoseOfTheWholeBatch) {
  const auto alone = make_model();
  const Score whole = accumulate_gradients(*alone, whole_batch(), 1, 1, 1);
  for (const std::int64_t bucket_bytes : {std::int64_t{1}, kSmallBuckets, std::int64_t{1} << 20}) {
    for (const std::int64_t micro_batches : {1, 2, 3}) {
      const auto model = make_model();
      const ParameterArena arena = arena_of(*model, bucket_bytes);
      GradientSum sum(ranks(), arena);
      const Score score =
          accumulate_gradients(*model, batch_of_this_rank(), micro_batches, 1, 1, sum);
      EXPECT_EQ(score.n_labels, whole.n_labels);
      EXPECT_EQ(score.n_correct, whole.n_correct);
      EXPECT_NEAR(score.loss(), whole.loss(), 1e-12);
      EXPECT_LT(relative_difference(gradients_of(*model), gradients_of(*alone)), 1e-12);
    }
  }
}

// Rounding to bf16 does not depend on the rank that computes a sequence, and sums are f32. The only
// difference is the rounding of sums, which may change how a number rounds to bf16.
TEST(Gradients, InBf16AreThoseOfTheWholeBatch) {
  const auto alone = make_model(DType::f32, MatmulPrecision::bf16);
  const Score whole = accumulate_gradients(*alone, whole_batch(), 1, 1, 1);
  const auto model = make_model(DType::f32, MatmulPrecision::bf16);
  const ParameterArena arena = arena_of(*model);
  GradientSum sum(ranks(), arena);
  const Score score = accumulate_gradients(*model, batch_of_this_rank(), 2, 1, 1, sum);
  EXPECT_EQ(score.n_labels, whole.n_labels);
  EXPECT_NEAR(score.loss(), whole.loss(), 1e-5);
  EXPECT_LT(relative_difference(gradients_of(*model), gradients_of(*alone)), 1e-3);
}

TEST(Gradients, OfABatchWithoutLabelsAreZero) {
  const auto model = make_model();
  const ParameterArena arena = arena_of(*model);
  GradientSum sum(ranks(), arena);
  Batch batch = batch_of_this_rank();
  batch.labels.fill(ignored_label);
  const Score score = accumulate_gradients(*model, batch, 1, 1, 1, sum);
  EXPECT_EQ(score.loss(), 0);
  EXPECT_EQ(gradient_norm(*model), 0);
}

// Micro-batches accumulate, and only the last one communicates.
TEST(Gradients, OfSeveralStepsDoNotMix) {
  const auto model = make_model();
  const ParameterArena arena = arena_of(*model);
  GradientSum sum(ranks(), arena);
  accumulate_gradients(*model, batch_of_this_rank(), 2, 1, 1, sum);
  const std::vector<double> first = gradients_of(*model);
  model->zero_grad();
  accumulate_gradients(*model, batch_of_this_rank(), 2, 1, 1, sum);
  EXPECT_EQ(gradients_of(*model), first);
}

// ---- a number that is not finite on the last rank

TEST(Diverged, ByTheGradientOfOneRankIsThrownByAllAlike) {
  const auto model = make_model();
  const auto optimizer = AdamWOptions().build(arena_of(*model), {});
  auto parameters = optimizer->parameters();
  const std::string bad = parameters[3].name;
  parameters[3].value.add_grad_hook([](Variable& parameter) {
    if (ranks().rank() != ranks().size() - 1) return;
    parameter.mutable_grad().fill(std::numeric_limits<double>::quiet_NaN());
  });
  GradientSum sum(ranks(), optimizer->arena());
  accumulate_gradients(*model, batch_of_this_rank(), 1, 1, 8, sum);
  optimizer->clipped_step(0.1, 1, ranks());
  EXPECT_EQ(error_of<TrainingDiverged>([&] { finite_gradient_norm(*optimizer, 8); }),
            "step 8: the gradient of '" + bad + "' is not finite");
}

TEST(Diverged, ByTheLossOfOneRankIsThrownByAllAlike) {
  const auto model = make_model();
  if (ranks().rank() == ranks().size() - 1) {
    Tensor data = model->parameters()[0].value.data();
    data.fill(std::numeric_limits<double>::infinity());
  }
  const ParameterArena arena = arena_of(*model);
  GradientSum sum(ranks(), arena);
  // A share without labels has no loss to be wrong: labels everywhere.
  Batch batch = batch_of_this_rank();
  batch.labels.fill(1);
  for (const std::int64_t micro_batches : {1, 2}) {
    EXPECT_THAT(error_of<TrainingDiverged>(
                    [&] { accumulate_gradients(*model, batch, micro_batches, 1, 17, sum); }),
                HasSubstr("step 17: the loss is "));
    model->zero_grad();
  }
}

// ---- evaluation

TEST(Evaluate, IsTheSameToTheBitHoweverManyRanksThereAre) {
  const auto model = make_model(DType::f32);
  for (const std::int64_t n_test : {1, 14, 16, 27}) {  // 1, 7, 8 and 14 batches
    const UnevenTask task(n_test);
    const Evaluation alone = evaluate(*model, task, 2);
    const Evaluation shared = *evaluate(*model, task, 2, ranks(), [] { return false; });
    EXPECT_EQ(shared.total.loss_sum, alone.total.loss_sum);
    EXPECT_EQ(shared.total.n_labels, alone.total.n_labels);
    EXPECT_EQ(shared.total.n_correct, alone.total.n_correct);
    EXPECT_EQ(shared.groups[0].second.loss_sum, alone.groups[0].second.loss_sum);
  }
}

TEST(Evaluate, EndsOnAllRanksWhereOneIsStopped) {
  const auto model = make_model();
  int asked = 0;
  const auto evaluation = evaluate(*model, UnevenTask(64), 2, ranks(), [&asked] {
    return ++asked == 3 && ranks().rank() == ranks().size() - 1;
  });
  EXPECT_FALSE(evaluation.has_value());
  EXPECT_EQ(asked, 3);
}

// ---- sharded optimiser state

std::vector<float> trained_for_3_steps(const OptimizerOptions& options, Shard shard,
                                       std::vector<NamedTensor>& state) {
  const auto model = make_model(DType::f32);
  const auto optimizer = options.build(arena_of(*model), shard);
  GradientSum sum(ranks(), optimizer->arena(),
                  shard.is_whole() ? SumScope::whole : SumScope::shard);
  for (std::int64_t step = 1; step <= 3; ++step) {
    model->zero_grad();
    accumulate_gradients(*model, batch_of_this_rank(), 1, 1, step, sum);
    optimizer->clipped_step(0.01, 0.1, ranks());
    EXPECT_GT(optimizer->gradient_norm().value, 0.1);  // so it is clipped
    gather_parameters(*optimizer, ranks());
  }
  state = gather_state(*optimizer, ranks());
  std::vector<float> values;
  for (const auto& [name, value] : model->parameters()) {
    const std::vector<float> part = value.data().to_vector<float>();
    values.insert(values.end(), part.begin(), part.end());
  }
  return values;
}

TEST(Sharding, ChangesNoBit) {
  const Shard shard{ranks().rank(), ranks().size()};
  const AdamWOptions adamw;
  const SgdOptions sgd;
  for (const OptimizerOptions* options :
       {static_cast<const OptimizerOptions*>(&adamw), static_cast<const OptimizerOptions*>(&sgd)}) {
    std::vector<NamedTensor> whole_state, sharded_state;
    const std::vector<float> whole = trained_for_3_steps(*options, {}, whole_state);
    EXPECT_EQ(trained_for_3_steps(*options, shard, sharded_state), whole);
    ASSERT_EQ(sharded_state.size(), whole_state.size());
    EXPECT_EQ(whole_state.empty(), !ranks().is_root());
    for (std::size_t i = 0; i < whole_state.size(); ++i) {
      EXPECT_EQ(sharded_state[i].name, whole_state[i].name);
      EXPECT_EQ(sharded_state[i].value.shape(), whole_state[i].value.shape());
      EXPECT_EQ(sharded_state[i].value.to_vector<float>(), whole_state[i].value.to_vector<float>());
    }
  }
}

TEST(Sharding, KeepsAnEqualShareOfTheState) {
  const auto model = make_model(DType::f32);
  const auto optimizer =
      AdamWOptions().build(arena_of(*model), Shard{ranks().rank(), ranks().size()});
  std::int64_t kept = 0;
  for (const NamedTensor& moment : optimizer->moments()) kept += moment.value.numel();
  EXPECT_EQ(kept, 2 * optimizer->arena().values().numel() / ranks().size());
}

TEST(Sharding, TakesItsShareOfAWholeState) {
  const auto model = make_model(DType::f32);
  const auto optimizer =
      AdamWOptions().build(arena_of(*model), Shard{ranks().rank(), ranks().size()});
  std::vector<NamedTensor> whole = whole_state(*optimizer);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::int64_t n = whole[i].value.numel();
    whole[i].value.copy_from(Tensor::arange(n).to(DType::f32).reshape(whole[i].value.shape()));
  }
  set_state(*optimizer, whole);
  const std::vector<NamedTensor> gathered = gather_state(*optimizer, ranks());
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    EXPECT_EQ(gathered[i].value.to_vector<float>(), whole[i].value.to_vector<float>());
  }
}

}  // namespace
}  // namespace mobius::training_test
