#include "data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "data/utf8.h"
#include "tests/data/foreign_model.h"
#include "tests/data/some_text.h"
#include "tests/error_of.h"

namespace mobius::tokenizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string every_byte() {
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

std::string round_trip(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text));
}

// A copy made from the model behaves like the original.
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
  EXPECT_THAT(error_of([] { make_tokenizer({"char", "aba"}); }), HasSubstr("U+0061 occurs twice"));
  EXPECT_THAT(error_of([] { make_tokenizer({"char", ""}); }), HasSubstr("no characters"));
  EXPECT_THAT(error_of([] {
                make_tokenizer({"sentencepiece", "hello"});
              }),
              HasSubstr("not a SentencePiece model, or it is truncated"));
}

class SentencePiece : public ::testing::TestWithParam<SentencePieceKind> {};

TEST_P(SentencePiece, KeepsEveryByteOfUtf8) {
  const auto tokenizer = train_sentencepiece(some_text(400), 500, GetParam());
  EXPECT_EQ(tokenizer->vocab_size(), 500);
  for (const std::string& text :
       {some_text(400), std::string("  two  spaces\n\n\ttab\r\n end "), std::string("\n"),
        std::string(" "), std::string("x\0y", 3), std::string("日本 𝄞 never seen"),
        std::string("<s></s><unk><0x0A>"), std::string("e\u0301 \ufb01 not normalised"),
        std::string(
            "\ufeffBOM \u2581\u2581 \u2585 \u2047 \ufffe \ufdd0 \U0010ffff \u0085\u2028 \u3000")}) {
    EXPECT_EQ(round_trip(*tokenizer, text), text);
  }
  EXPECT_LT(tokenizer->encode(some_text(400)).size(), some_text(400).size() / 2);
  expect_same_from_model(*tokenizer, some_text(400));
}

TEST_P(SentencePiece, LearnsTheSameFromTheSame) {
  EXPECT_EQ(train_sentencepiece(some_text(400), 500, GetParam())->model(),
            train_sentencepiece(some_text(400), 500, GetParam())->model());
}

std::string with_spaces_for_line_ends(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The library by itself drops every line of more than 4192 bytes and every line with U+2585.
TEST_P(SentencePiece, LearnsFromTheWholeText) {
  const auto learn = [](const std::string& text) {
    return train_sentencepiece(text, 400, GetParam());
  };
  const std::string lines = some_text(800), one_line = with_spaces_for_line_ends(lines);
  ASSERT_GT(one_line.size(), 36'000u);
  const auto n_tokens = [&](const Tokenizer& tokenizer, const std::string& text) {
    EXPECT_EQ(round_trip(tokenizer, text), text);
    return static_cast<double>(tokenizer.encode(text).size());
  };
  const double expected = n_tokens(*learn(lines), one_line);
  EXPECT_NEAR(n_tokens(*learn(one_line), one_line), expected, 0.05 * expected);

  std::string with_mark, without_spaces = one_line;
  for (const char letter : lines) with_mark += letter == '\n' ? "\u2585\n" : std::string(1, letter);
  EXPECT_EQ(learn(with_mark)->encode(lines), learn(lines)->encode(lines));
  std::erase(without_spaces, ' ');
  const auto of_one_word = learn(without_spaces);
  EXPECT_LT(n_tokens(*of_one_word, without_spaces), 0.6 * without_spaces.size());
}

// A cut in a line changes no token, because it is at the start of a word.
TEST_P(SentencePiece, EncodesALongLineAsItsParts) {
  const auto tokenizer = train_sentencepiece(some_text(400), 500, GetParam());
  const std::string word = some_text(1).substr(0, 3);
  std::string line;
  std::vector<std::int32_t> expected;
  for (int i = 0; i < 5000; ++i) {
    const std::string next =
        (i == 0 ? "" : " ") + word + some_text(1).substr(4 + i % 30, 2 + i % 7);
    if (find_invalid_utf8(next) < next.size()) continue;
    line += next;
    const auto tokens = tokenizer->encode(next);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
  }
  ASSERT_GT(line.size(), 20'000u);
  EXPECT_EQ(tokenizer->encode(line), expected);
}

TEST_P(SentencePiece, SaysWhatItCannotLearn) {
  const auto message = [](const std::string& text, std::int64_t vocab) {
    ::testing::internal::CaptureStderr();
    const std::string words = error_of([&] { train_sentencepiece(text, vocab, GetParam()); });
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "the library prints messages";
    return words;
  };
  for (const int vocab : {1, 2, 100, 261})
    EXPECT_EQ(
        message("abcab\n", vocab),
        "expected at least 262 pieces (256 bytes, 3 special tokens and the 3 characters of the "
        "text), got " +
            std::to_string(vocab));
  EXPECT_EQ(message("abcab\n", 262), "no error");
  const std::string too_many = message(some_text(50), 100000);
  ASSERT_THAT(too_many,
              ::testing::MatchesRegex("the text has at most [0-9]+ pieces to learn, got 100000"));
  const std::int64_t most = std::stoll(too_many.substr(too_many.find_first_of("0123456789")));
  EXPECT_EQ(message(some_text(50), most), "no error");
  for (const std::string nothing : {"", "\n\n", "\t\n", "\u2581\u2585\t"}) {
    EXPECT_EQ(message(nothing, 300), "the text has nothing to learn pieces from") << nothing;
  }
  EXPECT_EQ(message(std::string("\0\0\n", 3), 300), "the text has nothing to learn pieces from");
  EXPECT_THAT(message("a\xff", 300), HasSubstr("byte 1 of the text is not UTF-8"));
}

// The library would exit here.
TEST(SentencePieceUnigram, ATextThatIsTooMuchAlike) {
  for (const char* text : {"aaaaaaaa\n", "<unk>\n<unk>\n"}) {
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(error_of([&] { train_sentencepiece(text, 270, SentencePieceKind::unigram); }),
                HasSubstr("the text is too short or too repetitive to learn pieces from"));
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  }
}

// Generated text is decoded token by token: each token has its bytes and its space.
TEST_P(SentencePiece, DecodesTokenByToken) {
  const auto tokenizer = train_sentencepiece(some_text(400), 500, GetParam());
  const std::string text = "  a 日本\n ku tilon\n";
  std::string joined;
  for (const std::int32_t token : tokenizer->encode(text))
    joined += tokenizer->decode(std::vector{token});
  EXPECT_EQ(joined, text);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePiece,
                         ::testing::Values(SentencePieceKind::unigram, SentencePieceKind::bpe),
                         [](const auto& tested) {
                           return tested.param == SentencePieceKind::bpe ? "bpe" : "unigram";
                         });

class ForeignModel : public ::testing::Test {
 protected:
  std::string model(const std::unordered_map<std::string, std::string>& changed = {}) const {
    return read_text(write_foreign_model(folder_.path(), "m", some_text(300), changed));
  }
  static std::int64_t count_unknown(const Tokenizer& tokenizer, const std::string& text) {
    const auto tokens = tokenizer.encode(text);
    return std::count_if(tokens.begin(), tokens.end(),
                         [&](std::int32_t token) { return tokenizer.is_unknown(token); });
  }

  TemporaryFolder folder_;
};

TEST_F(ForeignModel, TellsWhatItDoesNotKnow) {
  const auto tokenizer = make_tokenizer({"sentencepiece", model()});
  EXPECT_EQ(count_unknown(*tokenizer, "ku tilon on re"), 0);
  EXPECT_EQ(count_unknown(*tokenizer, "ku 日本 tilon \u2581"), 2);
  EXPECT_EQ(round_trip(*tokenizer, "日"), " \u2047 ");
  EXPECT_FALSE(make_byte_tokenizer()->is_unknown(0));
}

// The model's settings would add a space before each line and remove one before each decoded token.
TEST_F(ForeignModel, IsGivenNoSpacesAndLosesNone) {
  const auto tokenizer =
      make_tokenizer({"sentencepiece", model({{"byte_fallback", "true"}, {"vocab_size", "500"}})});
  const std::string text = "ku  tilon\n on re \n\n 日本\n";
  EXPECT_EQ(round_trip(*tokenizer, "ku  tilon"), "ku  tilon");
  std::string joined;
  for (const std::int32_t token : tokenizer->encode("ku tilon on"))
    joined += tokenizer->decode(std::vector{token});
  EXPECT_EQ(joined, "ku tilon on");
  const auto plain =
      make_tokenizer({"sentencepiece", model({{"byte_fallback", "true"},
                                              {"vocab_size", "500"},
                                              {"normalization_rule_name", "identity"}})});
  EXPECT_EQ(round_trip(*plain, text), text);
  EXPECT_EQ(count_unknown(*plain, text), 0);
  expect_same_from_model(*plain, text);
}

// The self-test samples were made with spaces that Mobius does not add.
TEST_F(ForeignModel, MayHoldSamplesToTestItself) {
  const auto tokenizer =
      make_tokenizer({"sentencepiece", model({{"self_test_sample_size", "20"}})});
  EXPECT_EQ(round_trip(*tokenizer, "ku tilon"), "ku tilon");
}

TEST_F(ForeignModel, IsRefusedWhereItIsNotWhole) {
  const std::string whole = model();
  ::testing::internal::CaptureStderr();
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    EXPECT_THAT(error_of([&] {
                  make_tokenizer({"sentencepiece", whole.substr(0, size)});
                }),
                HasSubstr("SentencePiece model"))
        << size;
  }
  EXPECT_THAT(error_of([] {
                make_tokenizer({"sentencepiece", some_text(20)});
              }),
              HasSubstr("this is not a SentencePiece model"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

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
  EXPECT_EQ(character_start("\x80\x80\x80\x80\x80", 4), 4u) << "not UTF-8: there is no character";
}

}  // namespace
}  // namespace mobius::tokenizer_test
