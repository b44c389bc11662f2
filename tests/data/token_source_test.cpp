#include "data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/token_files.h"
#include "tests/error_of.h"

namespace mobius::token_source_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenFile : public ::testing::Test {
 protected:
  std::unique_ptr<TokenSource> open(TokenFormat format = TokenFormat::automatic,
                                    std::int64_t vocab = 50304) const {
    return open_token_file(path_, format, vocab);
  }
  std::vector<std::int32_t> read(const TokenSource& source, std::uint64_t begin,
                                 std::size_t count) const {
    std::vector<std::int32_t> tokens(count);
    source.read(begin, tokens);
    return tokens;
  }
  // Returns the error for a file of this content, without its name.
  std::string fault_of(const std::string& content, TokenFormat format) const {
    write_text(path_, content);
    const std::string message = error_of([&] { open(format); });
    EXPECT_THAT(message, StartsWith(path_.string() + ": "));
    return message.substr(std::min(message.size(), path_.string().size() + 2));
  }

  TemporaryFolder folder_;
  const fs::path path_ = folder_ / "train.bin";
};

TEST_F(TokenFile, OfNanoGpt) {
  write_raw(path_, {5, 50303, 0, 7});
  for (const TokenFormat format : {TokenFormat::automatic, TokenFormat::raw}) {
    const auto source = open(format);
    EXPECT_EQ(source->size(), 4u);
    EXPECT_THAT(read(*source, 0, 4), ElementsAre(5, 50303, 0, 7));
    EXPECT_THAT(read(*source, 2, 1), ElementsAre(0));
    EXPECT_EQ(source->name(), path_.string());
  }
}

TEST_F(TokenFile, OfLlmC) {
  for (const TokenFormat format : {TokenFormat::automatic, TokenFormat::llm_c}) {
    write_llm_c(path_, std::vector<std::uint16_t>{5, 50303, 0, 7});
    EXPECT_THAT(read(*open(format), 1, 3), ElementsAre(50303, 0, 7));
    write_llm_c(path_, std::vector<std::uint32_t>{5, 128000, 70000});
    EXPECT_EQ(open(format, 128256)->size(), 3u);
    EXPECT_THAT(read(*open(format, 128256), 1, 2), ElementsAre(128000, 70000));
  }
}

TEST_F(TokenFile, SaysWhatIsWrongWithIt) {
  const auto raw = TokenFormat::raw, llm_c = TokenFormat::llm_c, any = TokenFormat::automatic;
  EXPECT_EQ(error_of([&] { open(); }),
            path_.string() + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of([&] { open_token_file(folder_.path(), raw, 9); }),
            folder_.path().string() + ": is not a file");
  EXPECT_EQ(fault_of("abc", raw), "3 bytes are not a whole number of 16-bit tokens");
  EXPECT_EQ(fault_of("abc", llm_c), "3 bytes, but the header of a token file takes 1024");
  EXPECT_EQ(fault_of(llm_c_header(7, 1, 0), llm_c),
            "the header begins with 7, expected 20240520 (16-bit tokens) or 20240801 (32-bit)");
  EXPECT_THAT(fault_of(llm_c_header(20240522, 1, 0), any), HasSubstr("begins with 20240522"))
      << "a file of evaluation examples";
  EXPECT_EQ(fault_of(llm_c_header(20240520, 7, 0), any),
            "version 7 of the token format, expected 1");
  EXPECT_EQ(fault_of(llm_c_header(20240801, 1, 0), any),
            "version 1 of the token format, expected 7");
  const std::string too_long = llm_c_header(20240520, 1, 2) + "123456";
  EXPECT_EQ(fault_of(too_long, any),
            "the header counts 2 tokens, which take 1028 bytes, but the file has 1030");
  EXPECT_THAT(fault_of(llm_c_header(20240801, 7, 0xffffffff) + "1234", any),
              HasSubstr("the header counts 4294967295 tokens, which take 17179870204 bytes"));
}

TEST_F(TokenFile, NamesATokenBeyondTheVocabularyAndItsPlace) {
  write_raw(path_, {1, 2, 3, 50257, 4});
  const auto source = open(TokenFormat::raw, 50257);
  EXPECT_THAT(read(*source, 0, 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(
      error_of([&] { read(*source, 2, 3); }),
      path_.string() + ": token 50257 at index 3 (byte 6) is not below the vocabulary size 50257");
  write_llm_c(path_, std::vector<std::uint32_t>{1, 0xfffffffe});
  EXPECT_EQ(error_of([&] { read(*open(), 0, 2); }),
            path_.string() +
                ": token 4294967294 at index 1 (byte 1028) is not below the vocabulary size 50304");
}

TEST_F(TokenFile, IsCheckedAsAWholeOrInPart) {
  constexpr std::size_t block = 65536;
  std::vector<std::uint16_t> tokens(5 * block + 7, 3);
  for (const std::size_t at :
       {std::size_t{0}, block - 1, block, 3 * block + 5, tokens.size() - 1}) {
    tokens[at] = 60000;
    write_raw(path_, tokens);
    tokens[at] = 3;
    EXPECT_THAT(error_of([&] { check_tokens(*open(), 1); }),
                HasSubstr("token 60000 at index " + std::to_string(at) + " "));
    const bool is_looked_at = at / block % 2 == 0;
    EXPECT_EQ(error_of([&] { check_tokens(*open(), 2); }) == "no error", !is_looked_at) << at;
  }
}

TEST_F(TokenFile, OfAnotherFormatIsTakenForRawOnlyWhereThatIsSaid) {
  const std::string of_numpy = "\x93NUMPY\x01\x00 and so on", zipped = "PK\x03\x04 and so on  ";
  const std::string wide = bytes_of(std::vector<std::uint32_t>(20, 7));
  EXPECT_THAT(fault_of(of_numpy.substr(0, 12), TokenFormat::automatic),
              "is a NumPy file; set token_format: raw to read it as 16-bit tokens anyway");
  EXPECT_THAT(fault_of(zipped, TokenFormat::automatic), StartsWith("is a zip file; "));
  EXPECT_THAT(fault_of(wide, TokenFormat::automatic), StartsWith("seems to hold 32-bit tokens"));
  EXPECT_EQ(open(TokenFormat::raw)->size(), 40u);
  write_raw(path_, std::vector<std::uint16_t>(40, 0));
  EXPECT_EQ(open()->size(), 40u) << "nothing but token 0";
}

TEST_F(TokenFile, ThatShrinksIsAnErrorAndNoCrash) {
  write_raw(path_, std::vector<std::uint16_t>(100000, 3));
  const auto source = open();
  fs::resize_file(path_, 1000);
  EXPECT_THAT(read(*source, 0, 2), ElementsAre(3, 3));
  EXPECT_EQ(error_of([&] { read(*source, 499, 2); }),
            path_.string() + ": has shrunk from 200000 to 1000 bytes while in use");
  EXPECT_THAT(error_of([&] { read(*source, 99000, 2); }), HasSubstr("has shrunk"));
}

TEST(MatchingFiles, ComeInTheOrderOfTheirNames) {
  const TemporaryFolder folder;
  for (const char* name : {"b_1.bin", "a_2.bin", "a_1.bin", "a_3.txt"})
    write_text(folder / name, "x");
  const auto names = [&](const std::string& pattern) {
    std::vector<std::string> found;
    for (const fs::path& path : matching_files(folder / pattern))
      found.push_back(path.filename().string());
    return found;
  };
  EXPECT_THAT(names("*.bin"), ElementsAre("a_1.bin", "a_2.bin", "b_1.bin"));
  EXPECT_THAT(names("a_?.bin"), ElementsAre("a_1.bin", "a_2.bin"));
  EXPECT_THAT(names("{b_1,a_1}.bin"), ElementsAre("b_1.bin", "a_1.bin"));
  EXPECT_THAT(names("a_3.txt"), ElementsAre("a_3.txt"));
  EXPECT_THAT(error_of([&] { names("*.none"); }), EndsWith("*.none: no such file"));
  EXPECT_THAT(error_of([&] { names("none.bin"); }), EndsWith("none.bin: no such file"));
}

TEST(MatchingFiles, ANameComesBeforeAPattern) {
  const TemporaryFolder folder;
  const auto found = [&](const std::string& pattern) {
    std::vector<std::string> names;
    for (const fs::path& path : matching_files(folder / pattern))
      names.push_back(fs::relative(path, folder.path()).string());
    return names;
  };
  for (const char* name : {"[a].txt", "a.txt", "{a,b}.txt", "b.txt", "c\\d.txt", "*.txt", "?"})
    write_text(folder / name, "x");
  for (const char* name : {"[a].txt", "{a,b}.txt", "c\\d.txt", "*.txt", "?"})
    EXPECT_THAT(found(name), ElementsAre(name));
  fs::remove(folder / "[a].txt");
  fs::remove(folder / "{a,b}.txt");
  EXPECT_THAT(found("[a].txt"), ElementsAre("a.txt"));
  EXPECT_THAT(found("{a,b}.txt"), ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(found("\\?"), ElementsAre("?"));

  for (const char* name : {"data [1]", "data 1", "{x,y}"}) {  // folders before a pattern
    fs::create_directory(folder / name);
    write_text(folder / name / "t.txt", "x");
  }
  EXPECT_THAT(found("data [1]/*.txt"), ElementsAre("data [1]/t.txt"));
  EXPECT_THAT(found("{x,y}/?.txt"), ElementsAre("{x,y}/t.txt"));
  EXPECT_THAT(found("data ?/*.txt"), ElementsAre("data 1/t.txt"));
}

TEST(MatchingFiles, ATildeIsTheHomeFolder) {
  const TemporaryFolder folder;
  write_text(folder / "[t].txt", "x");
  write_text(folder / "u.txt", "x");
  const std::string home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  ::setenv("HOME", folder.path().c_str(), 1);
  EXPECT_THAT(matching_files("~/[t].txt"), ElementsAre(folder / "[t].txt"));
  EXPECT_THAT(matching_files("~/?.txt"), ElementsAre(folder / "u.txt"));
  ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace mobius::token_source_test
