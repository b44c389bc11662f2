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

constexpr std::string_view seal_magic = "mobius-checkpoint\n";
constexpr std::string_view hdf5_magic = "\x89HDF\r\n\x1a\n";

struct Seal {
  int version = 0;
  std::uint64_t file_size = 0;
  std::uint64_t checksum = 0;
};

using SealBlock = std::array<char, seal_bytes>;

SealBlock to_block(const Seal& seal) {
  SealBlock block{};
  const std::string text = fmt::format("{}format_version {}\nfile_size {}\nchecksum {:016x}\n",
                                       seal_magic, seal.version, seal.file_size, seal.checksum);
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
  SealBlock head{};
  std::uint64_t size = 0;
  std::uint64_t checksum = 0;
};

Content read_content(const InputFile& file) {
  Content content;
  content.size = file.size();
  const std::uint64_t head_size = std::min<std::uint64_t>(content.size, seal_bytes);
  file.read(0, std::as_writable_bytes(std::span(content.head).first(head_size)));
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

bool starts_with(const SealBlock& head, std::string_view magic) {
  return std::string_view(head.data(), head.size()).starts_with(magic);
}

// The seal as it is written at the head of a file; the caller checks that it is written exactly so.
Seal parse(const SealBlock& head) {
  Seal seal;
  unsigned long long size = 0, checksum = 0;
  const std::string text(head.data(), ::strnlen(head.data(), head.size()));
  if (std::sscanf(text.c_str() + seal_magic.size(),
                  "format_version %d\nfile_size %llu\nchecksum %llx", &seal.version, &size,
                  &checksum) < 1) {
    return {};
  }
  seal.file_size = size;
  seal.checksum = checksum;
  return seal;
}

[[noreturn]] void throw_foreign(const std::string& name, const Content& content) {
  if (content.size == 0) throw Error("{}: not a Mobius checkpoint: the file is empty", name);
  const bool is_hdf5 = starts_with(content.head, hdf5_magic);
  throw Error("{}: not a Mobius checkpoint{}", name, is_hdf5 ? ", though it is an HDF5 file" : "");
}

}  // namespace

void seal(std::span<char> content) {
  const std::uint64_t checksum = add_bytes(0, content.subspan(seal_bytes));
  const SealBlock block = to_block({checkpoint_version, content.size(), checksum});
  std::copy(block.begin(), block.end(), content.begin());
}

void verify_seal(const InputFile& file) {
  const Content content = read_content(file);
  if (!starts_with(content.head, seal_magic)) throw_foreign(file.name(), content);
  const Seal seal = parse(content.head);
  if (seal.version > checkpoint_version) {
    throw Error("{}: format version {} is newer than this program, which reads up to {}",
                file.name(), seal.version, checkpoint_version);
  }
  if (content.size < seal.file_size) {
    throw Error("{}: truncated: expected {} bytes, got {}", file.name(), seal.file_size,
                content.size);
  }
  if (content.head != to_block(seal) || content.size != seal.file_size ||
      content.checksum != seal.checksum) {
    throw Error("{}: damaged: its content does not match its checksum", file.name());
  }
}

bool has_seal(const std::filesystem::path& path) {
  try {
    const InputFile file(path);
    SealBlock head{};
    file.read(0, std::as_writable_bytes(std::span(head))
                     .first(std::min<std::uint64_t>(seal_bytes, file.size())));
    return starts_with(head, seal_magic);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace mobius
