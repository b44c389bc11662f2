#include "tests/gpuless/cudart/fatbinary.h"

#include <fatbinary_section.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace mobius::gpuless {
namespace {

// What precedes all entries, and each of them. NVIDIA documents neither; these fields were found by
// comparing binaries of nvcc 13 made with different options.
struct ContainerHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  std::uint64_t entries_bytes;
};
struct EntryHeader {
  std::uint16_t kind;
  std::uint16_t version;
  std::uint32_t header_bytes;
  std::uint64_t payload_bytes;
  std::uint32_t compressed_bytes;  // 0 unless the payload is compressed
  std::uint32_t options_offset;
  std::uint32_t code_version;
  std::uint32_t architecture;
};
constexpr std::uint32_t container_magic = 0xba55ed50;
constexpr std::uint16_t ptx_kind = 1;

template <class Header>
Header header_at(const char* place) {
  Header result;
  std::memcpy(&result, place, sizeof(result));
  return result;
}

}  // namespace

std::string ptx_of_fat_binary(const void* wrapper, int capability) {
  const auto outer = header_at<__fatBinC_Wrapper_t>(static_cast<const char*>(wrapper));
  const char* container = reinterpret_cast<const char*>(outer.data);
  const auto header = header_at<ContainerHeader>(container);
  if (outer.magic != FATBINC_MAGIC || header.magic != container_magic)
    throw std::runtime_error("the program registers a fat binary of an unknown format");

  const char* entry = container + header.header_bytes;
  const char* const end = entry + header.entries_bytes;
  std::string result;
  std::uint32_t architecture = 0;
  bool compressed = false;
  while (entry < end) {
    const auto fields = header_at<EntryHeader>(entry);
    const char* payload = entry + fields.header_bytes;
    entry = payload + fields.payload_bytes;
    if (fields.kind != ptx_kind || fields.architecture > static_cast<std::uint32_t>(capability) ||
        fields.architecture < architecture)
      continue;
    if (fields.compressed_bytes > 0) {
      compressed = true;
      continue;
    }
    architecture = fields.architecture;
    result.assign(payload, ::strnlen(payload, fields.payload_bytes));
  }
  if (result.empty())
    throw std::runtime_error(
        compressed ? "the program's PTX is compressed: build it with nvcc -no-compress"
                   : "the program has no PTX for compute capability " +
                         std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
                         ": build it with nvcc -gencode arch=compute_80,code=compute_80");
  return result;
}

}  // namespace mobius::gpuless
