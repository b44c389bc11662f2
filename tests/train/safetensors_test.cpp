// safetensors files: what is written comes back, other tools can read it, and damaged ones are
// named.
#include "train/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/error_of.h"
#include "tests/train/run_fixture.h"

namespace mobius {
namespace {

using ::testing::HasSubstr;

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
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].value.to_vector<float>(),
            (std::vector<float>{1, -2, std::ldexp(1.0f, -24), HUGE_VALF}));
  EXPECT_EQ(tensors[1].value.shape(), (Shape{2, 1}));
  EXPECT_EQ(tensors[1].value.to_vector<float>(), (std::vector<float>{1.5, -2}));
}

TEST_F(SafetensorsTest, NamesWhatIsWrong) {
  EXPECT_THAT(error(), HasSubstr("model.safetensors"));  // no such file
  write_text(path_, "short");
  EXPECT_THAT(error(), HasSubstr("no safetensors file: 5 bytes"));
  write_text(path_, "\x89HDF\r\n\x1a\n................");
  EXPECT_THAT(error(), HasSubstr("no safetensors file, or a truncated one"));
  write("{\"a\": [}", "");
  EXPECT_THAT(error(), HasSubstr("parse error"));
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
  EXPECT_THAT(error(), HasSubstr("'w': expected sizes of at least 0, got -1"));
  write(entry("F32", "[1]", "[4,8]"), "12345678");
  EXPECT_THAT(error(), HasSubstr("'w' starts at byte 4, expected 0"));
  write(entry("F32", "[1]", "[0,4]"), "12345678");
  EXPECT_THAT(error(), HasSubstr("8 bytes of tensors, but the header tells of 4"));
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
}  // namespace mobius
