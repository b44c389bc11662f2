// More numbers than 32 bits count.

#include <gtest/gtest.h>

#include <cmath>

#include "core/backend.h"
#include "nn/attention/softmax.h"
#include "nn/language_model.h"
#include "tests/nn/nn_testing.h"

namespace mobius::large_test {
namespace {

// The logits of the batch would be 2050 x 16 x 65537 > 2^31 numbers; they are never in memory all
// at once. Its sequences are all the same, so that its loss and gradients are those of one.
TEST(LargeBatch, HasTheLossAndTheGradientsOfOneOfItsEqualSequences) {
  constexpr std::int64_t batch = 2050, seq_len = 16, vocab = 65537;
  static_assert(batch * seq_len * vocab > std::int64_t{1} << 31);
  ModelOptions options;
  options.d_model = 4;
  options.n_layers = 1;
  options.n_heads = 1;
  options.init_std = 0.5;
  LanguageModel model(options, SoftmaxOptions(), vocab, seq_len, /*init_seed=*/1, DType::f32,
                      testing::device());

  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < batch * seq_len; ++i) tokens.push_back(i % seq_len * 4369 + 1);
  const Tensor inputs = placed::from(tokens, {batch, seq_len});
  const auto first = [](const Tensor& whole) { return whole.slice(0, 0, 1).contiguous(); };

  const auto run = [&model](const Tensor& sequences) {
    model.zero_grad();
    const LossResult result =
        testing::loss_of(model, sequences, sequences, {.training = true, .rng = {1, 2}});
    backward(result.loss);
    return result;
  };
  const LossResult one = run(first(inputs));
  std::vector<Tensor> gradients;
  for (const auto& [name, value] : model.parameters()) gradients.push_back(value.grad());

  allocator_for({}).release_cache();
  allocator_for({}).reset_peak();
  const LossResult many = run(inputs);
  EXPECT_LT(allocator_for({}).stats().peak, 4u * batch * seq_len * vocab / 8);
  EXPECT_EQ(many.n_labels(), batch * seq_len);
  EXPECT_NEAR(many.loss.item(), one.loss.item(), 1e-5 * one.loss.item());
  const auto expected = one.predictions.to_vector<std::int64_t>();
  const auto predictions = many.predictions.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    ASSERT_EQ(predictions[i], expected[i % seq_len]) << "row " << i;
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto [name, value] = model.parameters()[i];
    const double difference = sum_of_squares(sub(value.grad(), gradients[i]));
    EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(sum_of_squares(gradients[i]))) << name;
  }
}

}  // namespace
}  // namespace mobius::large_test
