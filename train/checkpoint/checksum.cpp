#include "train/checkpoint/checksum.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"

namespace mobius {

namespace {

constexpr std::string_view block_magic = "mobius-checkpoint\n";
constexpr std::string_view hdf5_magic = "\x89HDF\r\n\x1a\n";

struct Head {
  int version = 0;
  std::uint64_t file_size = 0;
  std::uint64_t checksum = 0;
};

using HeadBlock = std::array<char, checksum_block_bytes>;

HeadBlock to_block(const Head& head) {
  HeadBlock block{};
  const std::string text = fmt::format("{}format_version {}\nfile_size {}\nchecksum {:016x}\n",
                                       block_magic, head.version, head.file_size, head.checksum);
  text.copy(block.data(), text.size());
  return block;
}

// Each step maps (sum, word) to a new sum and can be undone, so two contents that differ in one
// word cannot have the same sum.
std::uint64_t add_word(std::uint64_t sum, std::uint64_t word) {
  return std::rotl((sum ^ word) * 0x9E3779B97F4A7C15u, 29);
}

// Zeros fill the last word. All parts of a content but the last must be whole words.
std::uint64_t add_bytes(std::uint64_t sum, std::span<const char> bytes) {
  std::uint64_t word;
  for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    sum = add_word(sum, word);
  }
  if (!bytes.empty()) {
    word = 0;
    std::memcpy(&word, bytes.data(), bytes.size());
    sum = add_word(sum, word);
  }
  return sum;
}

HeadBlock read_block(const InputFile& file) {
  HeadBlock block{};
  const std::uint64_t size = std::min<std::uint64_t>(file.size(), checksum_block_bytes);
  file.read(0, std::as_writable_bytes(std::span(block).first(size)));
  return block;
}

std::uint64_t checksum_of(const InputFile& file) {
  std::uint64_t sum = 0;
  std::array<char, 1 << 16> part;
  for (std::uint64_t at = checksum_block_bytes; at < file.size();) {
    const auto here = std::span(part).first(std::min<std::uint64_t>(part.size(), file.size() - at));
    file.read(at, std::as_writable_bytes(here));
    sum = add_bytes(sum, here);
    at += here.size();
  }
  return sum;
}

bool starts_with(const HeadBlock& block, std::string_view magic) {
  return std::string_view(block.data(), block.size()).starts_with(magic);
}

// Reads a block. The caller checks that it is exactly as to_block() writes it.
Head parse(const HeadBlock& block) {
  Head head;
  unsigned long long size = 0, checksum = 0;
  const std::string text(block.data(), ::strnlen(block.data(), block.size()));
  if (std::sscanf(text.c_str() + block_magic.size(),
                  "format_version %d\nfile_size %llu\nchecksum %llx", &head.version, &size,
                  &checksum) < 1) {
    return {};
  }
  head.file_size = size;
  head.checksum = checksum;
  return head;
}

[[noreturn]] void throw_foreign(const InputFile& file, const HeadBlock& block) {
  if (file.size() == 0) throw Error("{}: not a Mobius checkpoint: the file is empty", file.name());
  throw Error("{}: not a Mobius checkpoint{}", file.name(),
              starts_with(block, hdf5_magic) ? ", though it is an HDF5 file" : "");
}

}  // namespace

void write_checksum(std::span<char> content) {
  const std::uint64_t checksum = add_bytes(0, content.subspan(checksum_block_bytes));
  const HeadBlock block = to_block({checkpoint_version, content.size(), checksum});
  std::copy(block.begin(), block.end(), content.begin());
}

void verify_checksum(const InputFile& file) {
  const HeadBlock block = read_block(file);
  if (!starts_with(block, block_magic)) throw_foreign(file, block);
  const Head head = parse(block);
  if (head.version > checkpoint_version) {
    throw Error("{}: format version {} is newer than this program, which reads up to {}",
                file.name(), head.version, checkpoint_version);
  }
  if (file.size() < head.file_size) {
    throw Error("{}: truncated: expected {} bytes, got {}", file.name(), head.file_size,
                file.size());
  }
  if (block != to_block(head) || file.size() != head.file_size ||
      checksum_of(file) != head.checksum) {
    throw Error("{}: damaged: its content does not match its checksum", file.name());
  }
}

bool begins_as_checkpoint(const std::filesystem::path& path) {
  try {
    return starts_with(read_block(InputFile(path)), block_magic);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace mobius
