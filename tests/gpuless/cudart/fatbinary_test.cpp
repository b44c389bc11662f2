// Which PTX is taken from a fat binary.
#include "tests/gpuless/cudart/fatbinary.h"

#include <fatbinary_section.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/error_of.h"

namespace mobius::gpuless {
namespace {
namespace fat_binaries {

using ::testing::HasSubstr;

struct Entry {
  bool is_ptx = true;
  std::uint32_t architecture = 80;
  std::string payload;
  bool compressed = false;
};

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// The bytes that nvcc 13 makes of these entries.
std::string container(const std::vector<Entry>& entries) {
  std::string body;
  for (const Entry& entry : entries) {
    append(body, static_cast<std::uint16_t>(entry.is_ptx ? 1 : 2));
    append(body, std::uint16_t{0x101});
    append(body, std::uint32_t{64});
    append(body, std::uint64_t{entry.payload.size()});
    append(body, static_cast<std::uint32_t>(entry.compressed ? entry.payload.size() : 0));
    append(body, std::uint32_t{64});
    append(body, std::uint32_t{0x90000});
    append(body, entry.architecture);
    body.append(32, '\0');
    body += entry.payload;
  }
  std::string result;
  append(result, std::uint32_t{0xba55ed50});
  append(result, std::uint16_t{1});
  append(result, std::uint16_t{16});
  append(result, std::uint64_t{body.size()});
  return result + body;
}

std::string ptx_of(const std::vector<Entry>& entries, int capability) {
  const std::string bytes = container(entries);
  const std::vector<unsigned long long> aligned = [&] {
    std::vector<unsigned long long> words(bytes.size() / 8 + 1);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
  }();
  const __fatBinC_Wrapper_t wrapper{FATBINC_MAGIC, FATBINC_VERSION, aligned.data(), nullptr};
  return ptx_of_fat_binary(&wrapper, capability);
}

TEST(GpulessFatBinary, TakesTheHighestArchitectureThatTheDeviceRuns) {
  const std::vector<Entry> entries = {{.payload = "for 8.0"},
                                      {.architecture = 90, .payload = "for 9.0"},
                                      {.is_ptx = false, .architecture = 90, .payload = "machine"},
                                      {.architecture = 75, .payload = "for 7.5"}};
  EXPECT_EQ(ptx_of(entries, 80), "for 8.0");
  EXPECT_EQ(ptx_of(entries, 90), "for 9.0");
  EXPECT_EQ(ptx_of(entries, 86), "for 8.0");
}

TEST(GpulessFatBinary, EndsThePtxAtItsEnd) {
  EXPECT_EQ(ptx_of({{.payload = std::string("text\0\0\0", 7)}}, 80), "text");
}

TEST(GpulessFatBinary, SaysHowToBuildWhatCannotBeRead) {
  EXPECT_THAT(
      error_of<std::runtime_error>([] { ptx_of({{.payload = "packed", .compressed = true}}, 80); }),
      HasSubstr("-no-compress"));
  EXPECT_THAT(
      error_of<std::runtime_error>([] { ptx_of({{.is_ptx = false, .payload = "machine"}}, 80); }),
      HasSubstr("no PTX for compute capability 8.0"));
  EXPECT_THAT(error_of<std::runtime_error>(
                  [] { ptx_of({{.architecture = 90, .payload = "for 9.0"}}, 80); }),
              HasSubstr("arch=compute_80"));
}

TEST(GpulessFatBinary, RefusesAnotherFormat) {
  const unsigned long long nothing[2] = {};
  const __fatBinC_Wrapper_t wrapper{FATBINC_MAGIC, FATBINC_VERSION, nothing, nullptr};
  EXPECT_THAT(error_of<std::runtime_error>([&] { ptx_of_fat_binary(&wrapper, 80); }),
              HasSubstr("unknown format"));
}

}  // namespace fat_binaries
}  // namespace
}  // namespace mobius::gpuless
