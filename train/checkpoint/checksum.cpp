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

// The last word is filled up with zeros. Parts of a content are added one after another; all but
// the last must be whole words.
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

struct Content {
  HeadBlock block{};
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
};

Content read_content(const InputFile& file) {
  Content content;
  content.size = file.size();
  const std::uint64_t head_size = std::min<std::uint64_t>(content.size, checksum_block_bytes);
  file.read(0, std::as_writable_bytes(std::span(content.block).first(head_size)));
  std::array<char, 1 << 16> part;
  for (std::uint64_t at = head_size; at < content.size;) {
    const auto here =
        std::span(part).first(std::min<std::uint64_t>(part.size(), content.size - at));
    file.read(at, std::as_writable_bytes(here));
    content.checksum = add_bytes(content.checksum, here);
    at += here.size();
  }
  return content;
}

bool starts_with(const HeadBlock& block, std::string_view magic) {
  return std::string_view(block.data(), block.size()).starts_with(magic);
}

// What a block says; the caller checks that it is written exactly as to_block() writes it.
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

[[noreturn]] void throw_foreign(const std::string& name, const Content& content) {
  if (content.size == 0) throw Error("{}: not a Mobius checkpoint: the file is empty", name);
  const bool is_hdf5 = starts_with(content.block, hdf5_magic);
  throw Error("{}: not a Mobius checkpoint{}", name, is_hdf5 ? ", though it is an HDF5 file" : "");
}

}  // namespace

void write_checksum(std::span<char> content) {
  const std::uint64_t checksum = add_bytes(0, content.subspan(checksum_block_bytes));
  const HeadBlock block = to_block({checkpoint_version, content.size(), checksum});
  std::copy(block.begin(), block.end(), content.begin());
}

void verify_checksum(const InputFile& file) {
  const Content content = read_content(file);
  if (!starts_with(content.block, block_magic)) throw_foreign(file.name(), content);
  const Head head = parse(content.block);
  if (head.version > checkpoint_version) {
    throw Error("{}: format version {} is newer than this program, which reads up to {}",
                file.name(), head.version, checkpoint_version);
  }
  if (content.size < head.file_size) {
    throw Error("{}: truncated: expected {} bytes, got {}", file.name(), head.file_size,
                content.size);
  }
  if (content.block != to_block(head) || content.size != head.file_size ||
      content.checksum != head.checksum) {
    throw Error("{}: damaged: its content does not match its checksum", file.name());
  }
}

bool begins_as_checkpoint(const std::filesystem::path& path) {
  try {
    const InputFile file(path);
    HeadBlock block{};
    file.read(0, std::as_writable_bytes(std::span(block))
                     .first(std::min<std::uint64_t>(checksum_block_bytes, file.size())));
    return starts_with(block, block_magic);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace mobius
