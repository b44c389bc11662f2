// safetensors files: what is written comes back, other tools can read it, and damaged ones are
// named.
#include "train/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "tests/error_of.h"
#include "tests/train/run_fixture.h"

namespace mobius::safetensors_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SafetensorsTest : public ::testing::Test {
 protected:
  // A file with this header over these bytes.
  void write(const std::string& header, const std::string& bytes) const {
    std::string size(8, '\0');
    const std::uint64_t n = header.size();
    std::memcpy(size.data(), &n, 8);
    write_text(path_, size + header + bytes);
  }
  std::string error() const {
    return error_of([&] { read_safetensors(path_); });
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "model.safetensors";
};

TEST_F(SafetensorsTest, WhatIsWrittenComesBack) {
  const Tensor a = random_normal({3, 5}, 0, 1, {1, 1}), b = random_normal({7}, 0, 1, {1, 2}),
               empty = Tensor::empty({0, 4});
  const Safetensors content{.tensors = {{"z.weight", a.transpose(0, 1)},
                                        {"a", b.to(DType::f64)},
                                        {"half", b.to(DType::bf16)},
                                        {"none", empty},
                                        {"scalar", Tensor::full({}, 3)}},
                            .metadata = {{"step", "12"}, {"config", "a: \"b\"\n"}}};
  write_safetensors(path_, content);
  const Safetensors back = read_safetensors(path_);
  EXPECT_EQ(back.metadata, content.metadata);
  ASSERT_EQ(back.tensors.size(), content.tensors.size());
  for (std::size_t i = 0; i < back.tensors.size(); ++i) {
    EXPECT_EQ(back.tensors[i].name, content.tensors[i].name);
    const Tensor &got = back.tensors[i].value, &want = content.tensors[i].value;
    EXPECT_EQ(got.dtype(), want.dtype());
    EXPECT_EQ(got.shape(), want.shape());
    EXPECT_EQ(got.to(DType::f64).to_vector<double>(),
              want.contiguous().to(DType::f64).to_vector<double>());
  }
}

// The layout, byte by byte: what another tool would write.
TEST_F(SafetensorsTest, ReadsTheDocumentedLayout) {
  const float values[] = {1.5f, -2};
  const std::uint16_t halves[] = {0x3C00, 0xC000, 0x0001, 0x7C00};  // 1, -2, 2^-24, infinity
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), values, 8);
  std::memcpy(bytes.data() + 8, halves, 8);
  write(R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[8,16]},)"
        R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}  )",
        bytes);
  const std::vector<NamedTensor> tensors = read_safetensors(path_).tensors;
  ASSERT_EQ(tensors.size(), 2u);  // in the order of their bytes
  EXPECT_EQ(tensors[0].name, "w");
  EXPECT_EQ(tensors[0].value.shape(), (Shape{2, 1}));
  EXPECT_EQ(tensors[0].value.to_vector<float>(), (std::vector<float>{1.5, -2}));
  EXPECT_EQ(tensors[1].value.to_vector<float>(),
            (std::vector<float>{1, -2, std::ldexp(1.0f, -24), HUGE_VALF}));
}

TEST_F(SafetensorsTest, NamesWhatIsWrong) {
  EXPECT_THAT(error(), HasSubstr("model.safetensors"));  // no such file
  write_text(path_, "short");
  EXPECT_THAT(error(), HasSubstr("no safetensors file: 5 bytes"));
  write_text(path_, "\x89HDF\r\n\x1a\n................");
  EXPECT_THAT(error(), HasSubstr("no safetensors file, or a truncated one"));
  write("{\"a\": [}", "");
  EXPECT_THAT(error(), HasSubstr("its header is not valid JSON, from byte 8 of 8 on"));
  write("[1]", "");
  EXPECT_THAT(error(), HasSubstr("its header is no object"));
  const auto entry = [](const char* type, const char* shape, const char* offsets) {
    return fmt::format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", type, shape,
                       offsets);
  };
  write(entry("I32", "[1]", "[0,4]"), "1234");
  EXPECT_THAT(error(), HasSubstr("'w': expected F32, F64, BF16 or F16, got I32"));
  write(entry("F32", "[2]", "[0,8]"), "1234");
  EXPECT_THAT(error(), HasSubstr("'w': bytes 0 to 8 of 4 for F32 [2]"));
  write(entry("F32", "[2]", "[0,4]"), "1234");
  EXPECT_THAT(error(), HasSubstr("'w': bytes 0 to 4 of 4 for F32 [2]"));
  write(entry("F32", "[4611686018427387904,4]", "[0,0]"), "");
  EXPECT_THAT(error(), HasSubstr("'w': shape [4611686018427387904, 4]: more than"));
  write(entry("F32", "[-1]", "[0,4]"), "1234");
  EXPECT_THAT(error(), HasSubstr("'w': expected whole numbers of at least 0 as shape, got -1"));
  write(entry("F32", "[1]", "[4,8]"), "12345678");
  EXPECT_THAT(error(), HasSubstr("'w' starts at byte 4, expected 0"));
  write(entry("F32", "[1]", "[0,4]"), "12345678");
  EXPECT_THAT(error(), HasSubstr("8 bytes of tensors, but the header tells of 4"));
}

// Each of them is one line in our words, with the name of the file.
TEST_F(SafetensorsTest, NamesWhatIsNoHeader) {
  const std::string good = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const auto without = [&good](const std::string& part, const std::string& instead) {
    std::string text = good;
    return text.replace(text.find(part), part.size(), instead);
  };
  const auto repeated = [](const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += part;
    return text;
  };
  const std::pair<std::string, std::string> headers[] = {
      {"", "its header is not valid JSON, from byte 1 of 0 on"},
      {"null", "its header is no object"},
      {good + "x", "its header is not valid JSON, from byte 55 of 55 on"},
      {"{\"\xff\":1}", "its header is not valid JSON, from byte 3 of 7 on"},
      {"{\"a\n\":1}", "its header is not valid JSON, from byte 4 of 8 on"},
      {without("4]", "1e999]"), "its header has a number that is too large"},
      {repeated("[", 100'000), "its header is nested too deeply"},
      {repeated("{\"a\":", 100'000), "its header is nested too deeply"},
      {R"({"w":1,"w":2})", "'w' comes twice in its header"},
      {without(R"("shape":[1])", R"("shape":[1],"shape":[1])"), "'shape' comes twice"},
      {R"({"w":1})", "'w': it has no dtype"},
      {R"({"w":[]})", "'w': it has no dtype"},
      {without(R"("dtype":"F32",)", ""), "'w': it has no dtype"},
      {without(R"("F32")", "32"), "'w': expected a text as dtype"},
      {without(R"("F32")", R"("F\u001b[2J")"),
       "'w': expected F32, F64, BF16 or F16, got F\\x1b[2J"},
      {without("[1]", "1"), "'w': expected at most 32 numbers as shape"},
      {without("[1]", "{}"), "'w': expected at most 32 numbers as shape"},
      {without("[1]", "[" + repeated("1,", 32) + "1]"), "'w': expected at most 32 numbers"},
      {without("[1]", "[true]"), "'w': expected whole numbers of at least 0 as shape, got boolean"},
      {without("[1]", "[1.0]"), "'w': expected whole numbers of at least 0 as shape, got 1.0"},
      {without("[1]", "[18446744073709551615]"), "as shape, got 18446744073709551615"},
      {without("[1]", "[1,null]"), "as shape, got null"},
      {without("[0,4]", "[0]"), "'w': expected 2 numbers as data_offsets"},
      {without("[0,4]", "[0,4,8]"), "'w': expected at most 2 numbers as data_offsets"},
      {without("[0,4]", "[4,0]"), "'w': bytes 4 to 0 of 4 for F32 [1]"},
      {without("[0,4]", "[0,9223372036854775807]"), "'w': bytes 0 to 9223372036854775807 of 4"},
      {without("[0,4]", "[18446744073709551612,18446744073709551616]"), "as data_offsets, got"},
      {without("{\"w\"", R"({"v":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w")"),
       "'w' starts at byte 0, expected 4"},
      {without("{\"w\"", R"({"__metadata__":1,"w")"), "'__metadata__': expected texts by name"},
      {without("{\"w\"", R"({"__metadata__":{"a":1},"w")"), "'__metadata__': expected a text"},
      {without("{\"w\"", R"({"a\n\u001b[2J":1,"w")"), "'a\\n\\x1b[2J': it has no dtype"},
      {"{" + std::string(17 << 20, ' ') + "}", "its header has 17825794 bytes, expected at most"},
  };
  for (const auto& [header, message] : headers) {
    write(header, "1234");
    EXPECT_THAT(error(), StartsWith(path_.string() + ": "));
    EXPECT_THAT(error(), HasSubstr(message)) << header.substr(0, 200);
    EXPECT_THAT(error(), Not(HasSubstr("\n"))) << message;
    EXPECT_THAT(error(), Not(HasSubstr("json.exception"))) << message;
  }
}

TEST_F(SafetensorsTest, IsInOrderWhateverTheHeaders) {
  write(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
        R"("empty":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},)"
        R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"comment":1}})",
        "12345678");
  std::vector<std::string> names;
  for (const NamedTensor& tensor : read_safetensors(path_).tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "empty", "b"}));
}

TEST_F(SafetensorsTest, RefusesWhatIsNoModel) {
  const Tensor before = Tensor::full({2}, 7);
  const auto fill = [&](const std::vector<double>& values) {
    write_safetensors(path_, {.tensors = {{"w", Tensor::from(values, {2})}}, .metadata = {}});
    return error_of([&] { fill_from_safetensors(path_, {{"w", before}}); });
  };
  const std::string words =
      path_.string() +
      ": 'w' holds a number that is not finite, or too large for f32, at element 1";
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e300}) {
    EXPECT_EQ(fill({1, value}), words);
    EXPECT_EQ(before.to_vector<double>(), (std::vector<double>{7, 7}));
  }
  EXPECT_EQ(fill({1, 2}), "no error");
}

TEST_F(SafetensorsTest, WritesNothingThatCannotBeRead) {
  const Tensor one = Tensor::full({1}, 1);
  const auto write_error = [&](const Safetensors& content) {
    return error_of([&] { write_safetensors(path_, content); });
  };
  EXPECT_EQ(write_error({.tensors = {{"\xff", one}}, .metadata = {}}),
            path_.string() + ": cannot be written: a name or the configuration is not UTF-8");
  EXPECT_EQ(write_error({.tensors = {{"w", one}, {"w", one}}, .metadata = {}}),
            path_.string() + ": 'w' comes twice");
  EXPECT_EQ(write_error({.tensors = {{"__metadata__", one}}, .metadata = {{"a", "b"}}}),
            path_.string() + ": '__metadata__' comes twice");
}

TEST_F(SafetensorsTest, FillsWhatFitsAndNothingElse) {
  const Tensor weight = random_normal({2, 3}, 0, 1, {1, 1});
  write_safetensors(path_, {.tensors = {{"w", weight.to(DType::f64)}}, .metadata = {}});
  Tensor target = Tensor::zeros({2, 3}), other = Tensor::zeros({3, 2});
  fill_from_safetensors(path_, {{"w", target}});
  EXPECT_EQ(target.to_vector<float>(), weight.to_vector<float>());
  EXPECT_THAT(error_of([&] {
                fill_from_safetensors(path_, {{"w", other}});
              }),
              HasSubstr("'w' is f32 [2, 3] in the file and f32 [3, 2] here"));
  const std::string names = error_of([&] { fill_from_safetensors(path_, {{"v", other}}); });
  EXPECT_THAT(names, HasSubstr("the file lacks 'v'"));
  EXPECT_THAT(names, HasSubstr("here there is no 'w'"));
  EXPECT_EQ(sum_of_squares(other), 0);
}

}  // namespace
}  // namespace mobius::safetensors_test
