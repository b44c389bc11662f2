#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "data/utf8.h"
#include "tests/data/some_text.h"
#include "tests/error_of.h"

namespace mobius {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string every_byte() {
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

std::string round_trip(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text));
}

// A copy made from the model alone does what the original does.
void expect_same_from_model(const Tokenizer& tokenizer, const std::string& text) {
  const auto copy = make_tokenizer(tokenizer.model());
  EXPECT_EQ(copy->vocab_size(), tokenizer.vocab_size());
  EXPECT_EQ(copy->encode(text), tokenizer.encode(text));
  EXPECT_EQ(copy->model(), tokenizer.model());
}

TEST(ByteTokenizer, ReadsAnyFile) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_THAT(tokenizer->encode(std::string("a\0\xff", 3)), ElementsAre(97, 0, 255));
  EXPECT_EQ(round_trip(*tokenizer, every_byte()), every_byte());
  expect_same_from_model(*tokenizer, every_byte());
}

TEST(CharTokenizer, NumbersTheCharactersInTheirOrder) {
  const auto tokenizer = make_char_tokenizer("baé\na€𝄞");
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_THAT(tokenizer->encode("\nabé€𝄞"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(round_trip(*tokenizer, "€é\n𝄞"), "€é\n𝄞");
  expect_same_from_model(*tokenizer, "€é\n𝄞");
}

TEST(CharTokenizer, NamesWhatItDoesNotKnow) {
  const auto tokenizer = make_char_tokenizer("abc");
  EXPECT_EQ(error_of([&] { tokenizer->encode("abé"); }),
            "'é' (U+00E9) at byte 2 is not among the 3 characters of the tokenizer");
  EXPECT_THAT(error_of([&] { tokenizer->encode("ab\xff"); }),
              HasSubstr("byte 2 of the text is not"));
  EXPECT_THAT(error_of([] { make_char_tokenizer("a\x80"); }), HasSubstr("byte 1"));
  EXPECT_THAT(error_of([] { make_char_tokenizer(""); }), HasSubstr("no characters"));
}

TEST(Tokenizer, RefusesTokensOutsideTheVocabulary) {
  const std::vector<std::int32_t> tokens = {0, 300}, negative = {-1};
  for (const auto& tokenizer : {make_byte_tokenizer(), make_char_tokenizer("ab")}) {
    EXPECT_THAT(error_of([&] { tokenizer->decode(tokens); }), HasSubstr("token 300"));
    EXPECT_THAT(error_of([&] { tokenizer->decode(negative); }), HasSubstr("token -1"));
  }
}

TEST(Tokenizer, RefusesDamagedModels) {
  EXPECT_THAT(error_of([] { make_tokenizer({"word", ""}); }), HasSubstr("unknown kind 'word'"));
  EXPECT_THAT(error_of([] { make_tokenizer({"char", "aba"}); }), HasSubstr("U+0061 comes twice"));
  EXPECT_THAT(error_of([] { make_tokenizer({"char", ""}); }), HasSubstr("no characters"));
  EXPECT_THAT(error_of([] {
                make_tokenizer({"sentencepiece", "hello"});
              }),
              HasSubstr("sentencepiece: cannot read the model"));
}

class SentencePiece : public testing::TestWithParam<SentencePieceKind> {};

TEST_P(SentencePiece, KeepsEveryByteOfUtf8) {
  const auto tokenizer = train_sentencepiece(some_text(400), 500, GetParam());
  EXPECT_EQ(tokenizer->vocab_size(), 500);
  for (const std::string& text :
       {some_text(400), std::string("  two  spaces\n\n\ttab\r\n end "), std::string("\n"),
        std::string(" "), std::string("x\0y", 3), std::string("日本 𝄞 never seen"),
        std::string("<s></s><unk><0x0A>"), std::string("e\u0301 \ufb01 not normalised")}) {
    EXPECT_EQ(round_trip(*tokenizer, text), text);
  }
  EXPECT_LT(tokenizer->encode(some_text(400)).size(), some_text(400).size() / 2);
  expect_same_from_model(*tokenizer, some_text(400));
}

TEST_P(SentencePiece, LearnsTheSameFromTheSame) {
  EXPECT_EQ(train_sentencepiece(some_text(400), 500, GetParam())->model(),
            train_sentencepiece(some_text(400), 500, GetParam())->model());
}

TEST_P(SentencePiece, SaysWhatItCannotLearn) {
  const auto message = [](const std::string& text, std::int64_t vocab) {
    return error_of([&] { train_sentencepiece(text, vocab, GetParam()); });
  };
  EXPECT_THAT(message(some_text(400), 100),
              HasSubstr("cannot learn 100 pieces: Vocabulary size is"));
  EXPECT_THAT(message(some_text(400), 100000), HasSubstr("Vocabulary size too high"));
  EXPECT_THAT(message("", 300), HasSubstr("empty"));
  EXPECT_THAT(message("\n\n", 300), HasSubstr("empty"));
  EXPECT_THAT(message("a\xff", 300), HasSubstr("byte 1 of the text is not UTF-8"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePiece,
                         testing::Values(SentencePieceKind::unigram, SentencePieceKind::bpe),
                         [](const auto& tested) {
                           return tested.param == SentencePieceKind::bpe ? "bpe" : "unigram";
                         });

TEST(Utf8, TellsCharactersFromOtherBytes) {
  const auto size_of = [](const std::string& text) { return first_character(text).size; };
  EXPECT_EQ(size_of("a"), 1u);
  EXPECT_EQ(first_character("é!").code, 0xE9u);
  EXPECT_EQ(first_character("\xf4\x8f\xbf\xbf").code, 0x10FFFFu);
  for (const char* wrong : {"", "\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                            "\xf4\x90\x80\x80", "\xe2\x82", "\xe2(\xa1", "\xff"}) {
    EXPECT_EQ(size_of(wrong), 0u) << wrong;
  }
}

TEST(Utf8, CharactersAreNotCutApart) {
  const std::string text = "a€b";
  for (const std::size_t within : {1, 2, 3}) EXPECT_EQ(character_start(text, within), 1u);
  EXPECT_EQ(character_start(text, 0), 0u);
  EXPECT_EQ(character_start(text, 4), 4u);
  EXPECT_EQ(character_start(text, 5), 5u);
  EXPECT_EQ(character_start("\x80\x80\x80\x80\x80", 4), 4u) << "no text: nothing to keep whole";
}

}  // namespace
}  // namespace mobius
