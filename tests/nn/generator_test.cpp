#include "nn/generator.h"

#include <gtest/gtest.h>

#include "tests/nn/nn_testing.h"

namespace mobius::generator_test {
namespace {

using testing::expect_error;
using Tokens = std::vector<std::int32_t>;

LanguageModel small_model(Positions positions = Positions::rope) {
  ModelOptions model;
  model.d_model = 16;
  model.n_layers = 2;
  model.n_heads = 2;
  model.init_std = 0.6;
  model.positions = positions;
  return LanguageModel(model, *builtin_attentions().choose("softmax"), /*vocab_size=*/13,
                       /*max_seq_len=*/8, /*init_seed=*/5, DType::f64, testing::device());
}

// The likeliest token after all of these, read at once.
std::int32_t likeliest_after(const LanguageModel& model, const Tokens& tokens) {
  const auto n = static_cast<std::int64_t>(tokens.size());
  const Tensor logits = model.logits(placed::from(tokens, {1, n}), {}).data();
  return static_cast<std::int32_t>(argmax(logits.slice(1, n - 1, n)).item());
}

TEST(Generator, GoesOnFromAllThatItHasRead) {
  const LanguageModel model = small_model();
  Generator generator(model, {.temperature = 0}, /*context=*/64, 1);
  Tokens text{3, 1, 4, 1, 5};
  generator.read(text);
  for (int i = 0; i < 20; ++i) {
    const std::int32_t expected = likeliest_after(model, text);
    ASSERT_EQ(generator.next(), expected) << i;
    text.push_back(expected);
  }
}

// At 8 tokens it forgets 4: the ninth is read after the newest 4.
TEST(Generator, KeepsTheNewerHalfOfAFullContext) {
  const LanguageModel model = small_model(Positions::learned);
  Generator generator(model, {.temperature = 0}, /*context=*/8, 1);
  Tokens window{3, 1, 4};
  generator.read(window);
  for (int i = 0; i < 40; ++i) {
    const std::int32_t expected = likeliest_after(model, window);
    ASSERT_EQ(generator.next(), expected) << i;
    if (window.size() == 8) window.erase(window.begin(), window.begin() + 4);
    window.push_back(expected);
  }
}

TEST(Generator, ReadsTheEndOfALongPrompt) {
  const LanguageModel model = small_model(Positions::learned);
  const Tokens prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Generator at_once(model, {.temperature = 0}, 8, 1);
  at_once.read(prompt);
  EXPECT_EQ(at_once.next(), likeliest_after(model, Tokens(prompt.end() - 8, prompt.end())));
  Generator in_parts(model, {.temperature = 0}, 8, 1);
  in_parts.read(std::span(prompt).first(6));
  in_parts.read(std::span(prompt).subspan(6));  // 4 of the 6 are kept, then the oldest goes
  EXPECT_EQ(in_parts.next(), likeliest_after(model, Tokens(prompt.end() - 8, prompt.end())));
}

TEST(Generator, TheSeedDecides) {
  const LanguageModel model = small_model();
  const auto text_of = [&](std::uint64_t seed) {
    Generator generator(model, {}, 16, seed);
    generator.read(Tokens{1});
    Tokens text;
    for (int i = 0; i < 30; ++i) text.push_back(generator.next());
    return text;
  };
  EXPECT_EQ(text_of(1), text_of(1));
  EXPECT_NE(text_of(1), text_of(2));
}

TEST(Generator, RefusesWhatItCannotUse) {
  const LanguageModel model = small_model();
  expect_error<ConfigError>([&] { Generator(model, {}, 1, 1); },
                            "expected a context of at least 2, got 1");
  const LanguageModel learned = small_model(Positions::learned);
  expect_error<ConfigError>([&] { Generator(learned, {}, 9, 1); },
                            "expected a context of at most 8, as positions are learned, got 9");
  Generator generator(model, {}, 8, 1);
  expect_error<Error>([&] { generator.next(); }, "expected a token to go on from, got none");
  expect_error<Error>([&] { generator.read(Tokens{13}); }, "index 13 at position 0 is outside");
}

}  // namespace
}  // namespace mobius::generator_test
