#include "data/lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/data/batch_rows.h"
#include "tests/data/foreign_model.h"
#include "tests/data/some_text.h"
#include "tests/data/token_files.h"
#include "tests/error_of.h"

namespace mobius::lm_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Tokens16 = std::vector<std::uint16_t>;

// Returns first, first + 1, ...: each token identifies its position.
Tokens16 counting(int first, int count) {
  Tokens16 tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), static_cast<std::uint16_t>(first));
  return tokens;
}

class Lm : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content) const {
    write_text(folder_ / name, content);
    return (folder_ / name).string();
  }
  std::string token_file(const std::string& name, const Tokens16& tokens) const {
    return file(name, bytes_of(tokens));
  }
  LmOptions on_tokens(const std::string& pattern, std::int64_t seq_len) const {
    LmOptions options;
    options.tokens = folder_ / pattern;
    options.vocab = 60000;
    options.seq_len = seq_len;
    return options;
  }
  LmOptions on_text(const std::string& path, LmTokenizer tokenizer, std::int64_t seq_len) const {
    LmOptions options;
    options.text = path;
    options.tokenizer = tokenizer;
    options.seq_len = seq_len;
    return options;
  }
  static std::vector<Sequence> train_rows(const Task& task, std::uint64_t first, int count) {
    return rows_of(task.sequences(Split::train, 0, first, count));
  }
  static std::vector<Sequence> test_rows(const Task& task) {
    return rows_of(task.sequences(Split::test, 0, 0, task.test_size()));
  }

  TemporaryFolder folder_;
};

// If labels were shifted twice or not at all, another step than + 1 would predict them.
TEST_F(Lm, OnlyTheRightShiftIsAccurate) {
  token_file("train.bin", counting(0, 5000));
  const auto task = on_tokens("train.bin", 32).build(1);
  const auto add = [](int step) {
    return [step](const Sequence& row, std::size_t t) { return row.inputs[t] + step; };
  };
  for (const Split split : {Split::train, Split::test}) {
    const Batch batch = task->batch(split, 0, 8);
    EXPECT_EQ(batch.inputs.shape(), (Shape{8, 32}));
    EXPECT_EQ(accuracy(batch, add(0)), 0);
    EXPECT_EQ(accuracy(batch, add(1)), 1);
    EXPECT_EQ(accuracy(batch, add(2)), 0);
  }
}

// Returns the labels of all ranks and steps of two epochs; the ranks divide batches as Task
// describes.
std::multiset<std::int32_t> labels_seen(const Task& task, std::uint64_t windows,
                                        std::uint64_t first_step, std::uint64_t ranks) {
  std::multiset<std::int32_t> labels;
  const std::uint64_t size = 4;
  for (std::uint64_t step = first_step; step < first_step + windows / size; ++step) {
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      const Batch part = task.sequences(Split::train, 0, step * size + rank * size / ranks,
                                        static_cast<std::int64_t>(size / ranks));
      for (const Sequence& row : rows_of(part)) labels.insert(row.labels.begin(), row.labels.end());
    }
  }
  return labels;
}

TEST_F(Lm, AnEpochHoldsEachPositionOnceOverAnyNumberOfRanks) {
  // 8 and 12 windows of 10, with 3 and 7 left-over tokens; validation uses another file.
  token_file("a_1.bin", counting(1000, 84));
  token_file("a_2.bin", counting(5000, 128));
  token_file("val.bin", counting(0, 50));
  for (const LmSampling sampling : {LmSampling::random, LmSampling::sequential}) {
    LmOptions options = on_tokens("a_*.bin", 10);
    options.sampling = sampling;
    options.validation = folder_ / "val.bin";
    const auto task = options.build(7);
    for (const std::uint64_t epoch : {0, 1, 2}) {
      const std::multiset<std::int32_t> seen = labels_seen(*task, 20, 5 * epoch, 1);
      const std::set<std::int32_t> distinct(seen.begin(), seen.end());
      EXPECT_EQ(seen.size(), 200u);
      EXPECT_EQ(distinct.size(), 200u) << "a position occurred twice";
      EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](int token) { return token < 1084; }),
                80);
      for (const std::uint64_t ranks : {2, 4})
        EXPECT_EQ(labels_seen(*task, 20, 5 * epoch, ranks), seen) << ranks << " ranks";
    }
  }
}

TEST_F(Lm, SequentialSamplingReadsInOrder) {
  token_file("t.bin", counting(100, 41));
  LmOptions options = on_tokens("t.bin", 10);
  options.sampling = LmSampling::sequential;
  options.validation_fraction = 0.25;
  const auto task = options.build(1);
  std::vector<std::int32_t> first;
  for (const Sequence& row : train_rows(*task, 0, 5)) first.push_back(row.inputs.front());
  EXPECT_THAT(first, ElementsAre(100, 110, 100, 110, 100)) << "30 tokens: 2 windows per epoch";
}

TEST_F(Lm, RandomSamplingDiffersBetweenEpochsAndSeeds) {
  token_file("t.bin", counting(0, 1000));
  const LmOptions options = on_tokens("t.bin", 7);
  const auto task = options.build(1);
  constexpr int windows = 128;  // 899 labels
  EXPECT_EQ(train_rows(*task, 0, windows), train_rows(*options.build(1), 0, windows));
  EXPECT_NE(train_rows(*task, 0, windows), train_rows(*task, windows, windows));
  EXPECT_NE(train_rows(*task, 0, windows), train_rows(*options.build(2), 0, windows));
  EXPECT_EQ(train_rows(*task, 100, 60)[30], train_rows(*task, 130, 1)[0]);
  std::set<std::int32_t> phases;  // the offset of the windows differs between epochs
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
    phases.insert(train_rows(*task, epoch * windows, 1)[0].inputs[0] % 7);
  EXPECT_GT(phases.size(), 1u);
}

// If this fails, the order of the data has changed, and results are not comparable with earlier
// ones.
TEST_F(Lm, KnownSequence) {
  token_file("t.bin", counting(0, 1000));
  const auto rows = train_rows(*on_tokens("t.bin", 4).build(123), 300, 1);
  EXPECT_THAT(rows[0].inputs, ElementsAre(449, 450, 451, 452));
}

TEST_F(Lm, TestSequencesAreTheSameInEveryRun) {
  token_file("t.bin", counting(0, 1001));
  LmOptions options = on_tokens("t.bin", 10);
  const std::vector<Sequence> all = test_rows(*options.build(1));
  ASSERT_EQ(all.size(), 10u);  // 101 tokens: 100 labels
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].inputs.front(), 900 + 10 * static_cast<int>(i));
  options.sampling = LmSampling::sequential;
  EXPECT_EQ(test_rows(*options.build(2)), all);

  options.n_test = 4;  // evenly spaced
  const std::vector<Sequence> some = test_rows(*options.build(3));
  EXPECT_EQ(some, (std::vector<Sequence>{all[0], all[2], all[5], all[7]}));
  options.n_test = 11;
  EXPECT_THAT(error_of<ConfigError>([&] { options.build(1); }),
              StartsWith("task.n_test: expected at most the 10 sequences of 10 tokens of the"));
  EXPECT_THROW(on_tokens("t.bin", 10).build(1)->sequences(Split::test, 0, 5, 6), Error);
}

TEST_F(Lm, TrainingAndValidationShareNoToken) {
  token_file("a_1.bin", counting(0, 300));
  token_file("a_2.bin", counting(300, 300));
  for (const double fraction : {0.1, 0.5, 0.7}) {
    LmOptions options = on_tokens("a_*.bin", 9);
    options.validation_fraction = fraction;
    const auto task = options.build(1);
    std::int32_t last_trained = 0, first_tested = 1000;
    for (const Sequence& row : train_rows(*task, 0, 500))
      last_trained = std::max(last_trained, row.labels.back());
    for (const Sequence& row : test_rows(*task))
      first_tested = std::min(first_tested, row.inputs.front());
    EXPECT_LT(last_trained, 600 * (1 - fraction));
    EXPECT_EQ(first_tested, static_cast<int>(600 * (1 - fraction)));
  }
}

TEST_F(Lm, NoSequenceRunsFromOneFileIntoTheNext) {
  token_file("a_1.bin", counting(0, 25));
  token_file("a_2.bin", counting(1000, 25));
  token_file("val.bin", counting(0, 25));
  LmOptions options = on_tokens("a_*.bin", 10);
  options.validation = folder_ / "val.bin";
  for (const Sequence& row : train_rows(*options.build(1), 0, 100))
    EXPECT_EQ(row.labels.back(), row.inputs.front() + 10);
}

TEST_F(Lm, DataShorterThanASequence) {
  token_file("val.bin", counting(0, 9));
  for (const int tokens : {9, 8}) {
    token_file("t.bin", counting(100, tokens));
    LmOptions options = on_tokens("t.bin", 8);
    options.validation = folder_ / "val.bin";
    if (tokens == 9) {
      const auto task = options.build(1);
      EXPECT_EQ(task->test_size(), 1);
      EXPECT_THAT(train_rows(*task, 5, 1)[0].labels,
                  ElementsAre(101, 102, 103, 104, 105, 106, 107, 108));
    } else {
      EXPECT_THAT(error_of([&] { options.build(1); }),
                  EndsWith("t.bin: 8 tokens are fewer than a sequence of 8 and a label need"));
    }
  }
  LmOptions text = on_text(file("t.txt", "abcdefgh"), LmTokenizer::byte, 8);
  text.validation = file("val.txt", "abcdefghi");
  EXPECT_EQ(error_of<ConfigError>([&] { text.build(1); }),
            "task.text: the training text is shorter than one sequence of 8 tokens and a label: 8 "
            "tokens");
  std::swap(text.text, text.validation);
  EXPECT_THAT(error_of<ConfigError>([&] { text.build(1); }),
              StartsWith("task.validation: the validation text is sh"));
  text = on_text(file("long.txt", "abcdefghabcdefgh"), LmTokenizer::byte, 8);
  EXPECT_THAT(error_of<ConfigError>([&] { text.build(1); }),
              StartsWith("task.validation_fraction: the validation text is sh"));
}

TEST_F(Lm, AShardThatIsTooShortIsNamed) {
  token_file("a_1.bin", counting(0, 500));
  token_file("a_2.bin", counting(0, 5));
  EXPECT_THAT(error_of([&] { on_tokens("a_*.bin", 8).build(1); }), HasSubstr("a_2.bin: 5 tokens"));
}

TEST_F(Lm, ATokenBeyondTheVocabularyIsNamedWithItsPlace) {
  Tokens16 tokens = counting(0, 100);
  token_file("t.bin", tokens);
  LmOptions options = on_tokens("t.bin", 8);
  options.vocab = 500;
  const auto task = options.build(1);
  tokens[40] = 999;  // after the file was opened
  token_file("t.bin", tokens);
  EXPECT_EQ(error_of([&] { task->batch(Split::train, 0, 11); }),
            (folder_ / "t.bin").string() +
                ": token 999 at index 40 (byte 80) is not below the vocabulary size 500");
  EXPECT_THAT(error_of([&] { options.build(1); }),
              AllOf(StartsWith("task.tokens: "), HasSubstr("t.bin: token 999 at index 40 (byte")));
}

TEST_F(Lm, BytesOfText) {
  const std::string text = "To be, or not to be, that is the question.";
  const auto task = on_text(file("t.txt", text), LmTokenizer::byte, 4).build(1);
  EXPECT_EQ(task->vocab_size(), 256);
  EXPECT_TRUE(task->is_language());
  EXPECT_EQ(task->bytes_per_token(), 1.0);
  ASSERT_EQ(task->test_size(), 1) << "the last 5 of 42 bytes";
  EXPECT_EQ(task->tokenizer()->decode(test_rows(*task)[0].inputs), "tion");
  EXPECT_EQ(task->tokenizer()->decode(test_rows(*task)[0].labels), "ion.");
}

TEST_F(Lm, CharactersAreWholeAndCountTheirBytes) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "€";  // 3 bytes each
  const LmOptions options = on_text(file("t.txt", text + "x"), LmTokenizer::character, 2);
  const auto task = options.build(1);
  EXPECT_EQ(task->vocab_size(), 2);
  EXPECT_EQ(task->bytes_per_token(), 16.0 / 6) << "the last tenth, from a character boundary on";
  EXPECT_EQ(task->tokenizer()->model(), (TokenizerModel{"char", "x€"}));
}

TEST_F(Lm, TheCharacterVocabularyCoversTheValidationText) {
  LmOptions options = on_text(file("t.txt", "abcabcabc"), LmTokenizer::character, 2);
  options.validation = file("val.txt", "abz");
  EXPECT_EQ(options.build(1)->vocab_size(), 4);
}

TEST_F(Lm, SeveralTextFilesAreJoined) {
  file("b.txt", "world");
  file("a.txt", "hello ");
  LmOptions options = on_text(folder_ / "?.txt", LmTokenizer::byte, 10);
  options.validation = file("val", "something else");
  const auto task = options.build(1);
  EXPECT_EQ(task->tokenizer()->decode(train_rows(*task, 0, 1)[0].inputs), "hello worl");
}

TEST_F(Lm, ARunThatGoesOnKeepsItsTokenizer) {
  const LmOptions options = on_text(file("t.txt", "abcabcabcabc"), LmTokenizer::character, 2);
  LmOptions with_validation = options;
  with_validation.validation = file("val.txt", "cab");
  const TokenizerModel stored{"char", "zcba"};
  const auto task = with_validation.rebuild(1, stored);
  EXPECT_EQ(task->tokenizer()->model(), stored);
  EXPECT_THAT(test_rows(*task)[0].inputs, ElementsAre(1, 3));
  file("t.txt", "abcabcabxabc");
  EXPECT_THAT(error_of([&] { with_validation.rebuild(1, stored); }),
              HasSubstr("'x' (U+0078) at byte 8 is not among the 4 characters"));
}

TEST_F(Lm, TheFingerprintTellsDataApart) {
  const auto fingerprint = [&](const Tokens16& tokens) {
    token_file("t.bin", tokens);
    return on_tokens("t.bin", 8).build(1)->fingerprint();
  };
  Tokens16 tokens = counting(0, 10000);
  const std::string before = fingerprint(tokens);
  EXPECT_THAT(before, HasSubstr("9000 training tokens (digest "));
  EXPECT_EQ(fingerprint(tokens), before);
  for (const std::size_t at : {0, 5000, 8999, 9000, 9999}) {
    Tokens16 edited = tokens;
    edited[at] ^= 1;
    EXPECT_NE(fingerprint(edited), before) << at;
  }
  tokens.push_back(0);
  EXPECT_NE(fingerprint(tokens), before);
  tokens[20] = 60000;  // not below the vocabulary size
  EXPECT_THAT(error_of([&] { fingerprint(tokens); }), HasSubstr("token 60000 at index 20"));
}

// The 9 million training tokens are sampled: every other block of 4096.
TEST_F(Lm, TheFingerprintOfManyTokensIsOfSome) {
  Tokens16 tokens(10'000'000, 7);
  const auto fingerprint = [&] {
    token_file("t.bin", tokens);
    return on_tokens("t.bin", 8).build(1)->fingerprint();
  };
  const std::string before = fingerprint();
  tokens[0] = 8;
  EXPECT_NE(fingerprint(), before);
  tokens[0] = 7;
  tokens[5000] = 8;
  EXPECT_EQ(fingerprint(), before);
  tokens[5000] = 60001;  // but every token is compared with the vocabulary size
  EXPECT_THAT(error_of([&] { fingerprint(); }),
              HasSubstr("t.bin: token 60001 at index 5000 (byte 10000) is not below"));
  tokens[5000] = 7;
  tokens.resize(tokens.size() - 1);
  EXPECT_NE(fingerprint(), before);
}

TEST_F(Lm, PiecesAreLearnedFromTheTrainingTextOrReadFromAFile) {
  const std::string text = some_text(400);
  LmOptions options = on_text(file("t.txt", text), LmTokenizer::sentencepiece, 8);
  options.vocab = 500;
  const auto task = options.build(1);
  EXPECT_EQ(task->vocab_size(), 500);
  EXPECT_GT(task->bytes_per_token().value(), 2);
  EXPECT_THAT(text.substr(text.size() * 9 / 10 - 2),
              HasSubstr(task->tokenizer()->decode(test_rows(*task)[0].inputs)));

  LmOptions ready = on_text(options.text, LmTokenizer::sentencepiece, 8);
  ready.tokenizer_model = file("m.model", task->tokenizer()->model().bytes);
  EXPECT_EQ(ready.build(1)->tokenizer()->model(), task->tokenizer()->model());
  const auto fault = [&](const std::string& path) {
    ready.tokenizer_model = path;
    return error_of([&] { ready.build(1); });
  };
  EXPECT_THAT(
      fault(file("m.model", "nonsense")),
      AllOf(StartsWith("task.tokenizer_model: "), HasSubstr("m.model: this is not a Sentence")));
  EXPECT_THAT(fault(folder_ / "absent.model"),
              AllOf(StartsWith("task.tokenizer_model: "), EndsWith("no such file")));
  EXPECT_THAT(fault(folder_.path()), EndsWith(": is not a file"));
  options.vocab = 100;
  EXPECT_THAT(error_of<ConfigError>([&] { options.build(1); }),
              StartsWith("task.vocab: expected at least "));
  options.vocab = 50000;
  EXPECT_THAT(error_of<ConfigError>([&] { options.build(1); }),
              StartsWith("task.vocab: the text has at most "));
  options.text = file("t.txt", std::string(500, '\t'));
  EXPECT_THAT(error_of([&] { options.build(1); }),
              StartsWith("task.text: the text has nothing to"));
}

// ---- text that a tokeniser does not preserve

TEST_F(Lm, UnknownTokensAreCountedAndTakeTheBitsPerByte) {
  LmOptions options = on_text(file("t.txt", some_text(200)), LmTokenizer::sentencepiece, 8);
  options.tokenizer_model = write_foreign_model(folder_.path(), "m", some_text(300));
  options.validation = file("v.txt", "日本語の 日本 と\n");
  options.seq_len = 2;
  const auto task = options.build(1);
  EXPECT_FALSE(task->bytes_per_token().has_value());
  EXPECT_THAT(
      task->warnings(),
      ElementsAre(AllOf(StartsWith("training text: the tokenizer does not preserve it"),
                        ::testing::Not(HasSubstr("bits"))),
                  ::testing::MatchesRegex("validation text: 3 of [0-9]+ tokens \\([0-9]+%\\) "
                                          "are unknown to the tokenizer; bits per byte .*")));
  EXPECT_THAT(task->summary(), EndsWith(" validation tokens, 3 of them unknown to the tokenizer"));
}

// The model normalises: every token is known, but the text changes.
TEST_F(Lm, AChangedTextTakesTheBitsPerByte) {
  LmOptions options = on_text(file("t.txt", "ku tilon on re ku"), LmTokenizer::sentencepiece, 2);
  options.validation = file("v.txt", "ku ｔｉlon on re");  // of full width
  options.tokenizer_model = write_foreign_model(folder_.path(), "m", some_text(300));
  const auto task = options.build(1);
  EXPECT_FALSE(task->bytes_per_token().has_value());
  EXPECT_THAT(task->warnings(),
              ElementsAre(HasSubstr("validation text: the tokenizer does not preserve it: "
                                    "the first changed byte is byte 3; bits per byte")));
  // A change of the training text alone does not affect the score.
  std::swap(options.text, options.validation);
  const auto swapped = options.build(1);
  EXPECT_TRUE(swapped->bytes_per_token().has_value());
  EXPECT_THAT(swapped->warnings(),
              ElementsAre(StartsWith("training text: the tokenizer does not")));
}

TEST_F(Lm, WhatIsKeptIsNotWarnedOf) {
  const std::string text =
      "\ufeff" + some_text(200) + "a\r\nb\r\n\t\u2581\u2585" + std::string(9, '\0');
  for (const LmTokenizer tokenizer :
       {LmTokenizer::byte, LmTokenizer::character, LmTokenizer::sentencepiece}) {
    LmOptions options = on_text(file("t.txt", text), tokenizer, 8);
    if (tokenizer == LmTokenizer::sentencepiece) options.vocab = 400;
    const auto task = options.build(1);
    EXPECT_THAT(task->warnings(), IsEmpty());
    EXPECT_THAT(task->summary(), EndsWith(", 0 of them unknown to the tokenizer"));
    EXPECT_TRUE(task->bytes_per_token().has_value());
  }
}

// ---- training and test data are disjoint

TEST_F(Lm, OneFileByTwoNamesIsRefused) {
  const std::string text = file("a.txt", some_text(50));
  fs::create_symlink(text, folder_ / "link.txt");
  fs::create_hard_link(text, folder_ / "hard.txt");
  fs::create_directory(folder_ / "sub");
  file("b.txt", some_text(60));
  const auto fault = [&](const std::string& training, const std::string& validation) {
    LmOptions options = on_text(folder_ / training, LmTokenizer::byte, 8);
    if (!validation.empty()) options.validation = folder_ / validation;
    return error_of<ConfigError>([&] { options.build(1); });
  };
  const std::string folder = folder_.path().string() + "/";
  EXPECT_EQ(fault("a.txt", "a.txt"), "task.validation: " + folder + "a.txt is the same file as " +
                                         folder + "a.txt (task.text)");
  for (const char* other : {"link.txt", "hard.txt", "sub/../a.txt"})
    EXPECT_EQ(fault("a.txt", other), "task.validation: " + folder + other +
                                         " is the same file as " + folder + "a.txt (task.text)");
  EXPECT_THAT(fault("[ab].txt", "?.txt"), HasSubstr("a.txt is the same file as"));
  EXPECT_EQ(fault("{a,link}.txt", ""),
            "task.text: " + folder + "a.txt and " + folder + "link.txt are the same file");
  EXPECT_THAT(fault("b.txt", "{hard,a}.txt"), HasSubstr("task.validation: "));
  EXPECT_EQ(fault("a.txt", "b.txt"), "no error");

  token_file("a.bin", counting(0, 500));
  LmOptions tokens = on_tokens("a.bin", 8);
  tokens.validation = folder_ / "*.bin";
  EXPECT_EQ(
      error_of<ConfigError>([&] { tokens.build(1); }),
      "task.validation: " + folder + "a.bin is the same file as " + folder + "a.bin (task.tokens)");
}

TEST_F(Lm, ACopyOfTheTrainingDataIsWarnedOf) {
  LmOptions options = on_text(file("a.txt", some_text(50)), LmTokenizer::byte, 8);
  options.validation = file("b.txt", some_text(50));
  EXPECT_THAT(options.build(1)->warnings(),
              ElementsAre("the validation data are a copy of the training data"));
}

// ---- files of other formats

TEST_F(Lm, FilesOfOtherFormats) {
  const std::string zipped = "\x1f\x8b\x08\x01\xff\xff zipped, or so it says";
  LmOptions options = on_text(file("t.txt", zipped), LmTokenizer::character, 2);
  EXPECT_THAT(
      error_of([&] { options.build(1); }),
      EndsWith("t.txt: byte 1 is not UTF-8: this is a gzip file; the byte tokenizer reads any "
               "file"));
  options.tokenizer = LmTokenizer::byte;
  EXPECT_THAT(options.build(1)->warnings(),
              ElementsAre(EndsWith("t.txt: is a gzip file, and its bytes are read as text")));
}

TEST_F(Lm, ATextInFilesThatEndWithinACharacter) {
  const std::string text = "aé€𝄞b aé€𝄞b aé€𝄞b";
  for (const std::size_t cut : {2, 4, 5, 8, 9}) {
    file("p_1.txt", text.substr(0, cut));
    file("p_2.txt", text.substr(cut));
    const auto task = on_text(folder_ / "p_*.txt", LmTokenizer::character, 1).build(1);
    EXPECT_EQ(task->vocab_size(), 6) << cut;
  }
  file("p_2.txt", text.substr(2));
  file("p_1.txt", "abc");
  EXPECT_THAT(error_of([&] { on_text(folder_ / "p_*.txt", LmTokenizer::character, 1).build(1); }),
              EndsWith("p_2.txt: byte 0 is not UTF-8; the byte tokenizer reads any file"));
}

TEST_F(Lm, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { on_text(folder_ / "pipe", LmTokenizer::byte, 8).build(1); }),
              EndsWith("pipe: is not a file"));
  EXPECT_THAT(error_of([&] { on_tokens("pipe", 8).build(1); }), EndsWith("pipe: is not a file"));
}

TEST_F(Lm, NamesFilesThatCannotBeRead) {
  EXPECT_THAT(error_of([&] { on_text(folder_ / "no.txt", LmTokenizer::byte, 8).build(1); }),
              EndsWith("no.txt: no such file"));
  EXPECT_THAT(error_of([&] { on_text(file("e", ""), LmTokenizer::byte, 8).build(1); }),
              EndsWith("e: the text is empty"));
  EXPECT_THAT(error_of([&] { on_text(folder_.path(), LmTokenizer::byte, 8).build(1); }),
              EndsWith(folder_.path().string() + ": is not a file"));
  EXPECT_THAT(error_of([&] { on_tokens("no_*.bin", 8).build(1); }),
              EndsWith("no_*.bin: no such file"));
}

TEST_F(Lm, SettingsThatDoNotFitTogether) {
  const auto fault = [](auto&& change) {
    LmOptions options;
    options.text = "t.txt";
    change(options);
    return error_of<ConfigError>([&] { options.check(1); });
  };
  EXPECT_EQ(fault([](LmOptions&) {}), "no error") << "check() must not read the file";
  EXPECT_THAT(fault([](LmOptions& o) { o.text = ""; }), HasSubstr("text: expected either"));
  EXPECT_THAT(fault([](LmOptions& o) { o.tokens = "t.bin"; }), HasSubstr("got both"));
  EXPECT_THAT(fault([](LmOptions& o) { o.vocab = 5; }), HasSubstr("vocab: has no effect"));
  EXPECT_THAT(fault([](LmOptions& o) { o.tokenizer = LmTokenizer::sentencepiece; }),
              HasSubstr("vocab: set the number of pieces"));
  EXPECT_THAT(fault([](LmOptions& o) { o.tokenizer_model = "x"; }),
              HasSubstr("tokenizer_model: has no effect unless tokenizer: sentencepiece"));
  EXPECT_THAT(fault([](LmOptions& o) { o.bytes_per_token = 4; }),
              HasSubstr("bytes_per_token: has"));
  EXPECT_THAT(fault([](LmOptions& o) { o.token_format = TokenFormat::raw; }),
              HasSubstr("token_format: has no effect unless tokens: FILES"));
  EXPECT_THAT(fault([](LmOptions& o) { o.pieces = SentencePieceKind::bpe; }), HasSubstr("pieces"));
  EXPECT_THAT(fault([](LmOptions& o) {
                o.validation = "v.txt";
                o.validation_fraction = 0.5;
              }),
              HasSubstr("validation_fraction: has no effect unless validation: ''"));
  const auto of_tokens = [&](auto&& change) {
    return fault([&](LmOptions& o) {
      o.text = "";
      o.tokens = "t.bin";
      o.vocab = 50304;
      change(o);
    });
  };
  EXPECT_EQ(of_tokens([](LmOptions&) {}), "no error");
  EXPECT_THAT(of_tokens([](LmOptions& o) { o.vocab = 0; }), HasSubstr("vocab: token files do not"));
  EXPECT_THAT(of_tokens([](LmOptions& o) { o.tokenizer = LmTokenizer::character; }),
              HasSubstr("tokenizer: has no effect unless text: FILES"));
}

}  // namespace
}  // namespace mobius::lm_test
