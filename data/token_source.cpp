#include "data/token_source.h"

#include <glob.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/path.h"
#include "data/input_file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

class MemoryTokens final : public TokenSource {
 public:
  MemoryTokens(std::string name, std::vector<std::int32_t> tokens)
      : name_(std::move(name)), tokens_(std::move(tokens)) {}

  std::uint64_t size() const override { return tokens_.size(); }
  void read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(begin), out.size(), out.begin());
  }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_;
  const std::vector<std::int32_t> tokens_;
};

// The offset and width of the tokens in a file.
struct Layout {
  std::uint64_t begin = 0;  // bytes
  std::uint64_t width = 2;  // bytes per token
  std::uint64_t count = 0;
};

constexpr std::uint64_t header_bytes = 1024;

// Returns the first three numbers of a header, 0 beyond the end of the file.
std::array<std::uint32_t, 3> first_numbers(const InputFile& file) {
  std::array<std::uint32_t, 3> numbers{};
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  file.read(0, bytes.first(std::min<std::uint64_t>(bytes.size(), file.size())));
  return numbers;
}

bool begins_as_llm_c(const InputFile& file) {
  const std::uint32_t magic = first_numbers(file)[0];
  return magic >= 20240101 && magic <= 20241231;
}

Layout raw_layout(const InputFile& file) {
  if (file.size() % 2 != 0)
    throw Error("{}: {} bytes are not a whole number of 16-bit tokens", file.name(), file.size());
  return {0, 2, file.size() / 2};
}

Layout llm_c_layout(const InputFile& file) {
  const auto [magic, version, count] = first_numbers(file);
  if (file.size() < header_bytes)
    throw Error("{}: {} bytes, but the header of a token file takes {}", file.name(), file.size(),
                header_bytes);
  if (magic != 20240520 && magic != 20240801)
    throw Error(
        "{}: the header begins with {}, expected 20240520 (16-bit tokens) or 20240801 (32-bit)",
        file.name(), magic);
  const bool is_wide = magic == 20240801;
  const std::uint32_t expected = is_wide ? 7 : 1;
  if (version != expected)
    throw Error("{}: version {} of the token format, expected {}", file.name(), version, expected);
  const std::uint64_t width = is_wide ? 4 : 2;
  if (file.size() != header_bytes + count * width)
    throw Error("{}: the header counts {} tokens, which take {} bytes, but the file has {}",
                file.name(), count, header_bytes + count * width, file.size());
  return {header_bytes, width, count};
}

std::string beginning_of(const InputFile& file) {
  std::string bytes(std::min<std::uint64_t>(file.size(), 8192), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

// Whether these bytes, as 32-bit numbers, are all below 65536 but not all 0: no text has token 0 at
// every second position.
bool seems_of_32_bits(std::string_view bytes) {
  constexpr std::size_t fewest = 16;
  bool has_token = false;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    if (bytes[at + 2] != 0 || bytes[at + 3] != 0) return false;
    has_token = has_token || bytes[at] != 0 || bytes[at + 1] != 0;
  }
  return has_token && bytes.size() >= 4 * fewest;
}

// Plain tokens have no signature: the bytes of any other format could be read as tokens.
void require_plain_tokens(const InputFile& file) {
  const std::string bytes = beginning_of(file);
  if (const std::string_view format = format_of(bytes); !format.empty())
    throw Error("{}: is {}; set token_format: raw to read it as 16-bit tokens anyway", file.name(),
                format);
  if (seems_of_32_bits(bytes))
    throw Error(
        "{}: seems to hold 32-bit tokens, which need a header of llm.c; set token_format: raw to "
        "read it as 16-bit tokens anyway",
        file.name());
}

Layout layout_of(const InputFile& file, TokenFormat format) {
  if (format == TokenFormat::raw) return raw_layout(file);
  if (format == TokenFormat::llm_c || begins_as_llm_c(file)) return llm_c_layout(file);
  require_plain_tokens(file);
  return raw_layout(file);
}

class FileTokens final : public TokenSource {
 public:
  FileTokens(const fs::path& path, TokenFormat format, std::int64_t vocab)
      : file_(path), layout_(layout_of(file_, format)), vocab_(vocab) {}

  std::uint64_t size() const override { return layout_.count; }
  const std::string& name() const override { return file_.name(); }

  void read(std::uint64_t begin, std::span<std::int32_t> out) const override {
    if (layout_.width == 2)
      read_as<std::uint16_t>(begin, out);
    else
      read_as<std::uint32_t>(begin, out);
  }

 private:
  template <typename Stored>
  void read_as(std::uint64_t begin, std::span<std::int32_t> out) const {
    std::vector<Stored> stored(out.size());
    const std::uint64_t offset = layout_.begin + begin * layout_.width;
    file_.read(offset, std::as_writable_bytes(std::span(stored)));
    for (std::size_t i = 0; i < stored.size(); ++i) {
      if (stored[i] >= vocab_)
        throw Error("{}: token {} at index {} (byte {}) is not below the vocabulary size {}",
                    name(), stored[i], begin + i, offset + i * layout_.width, vocab_);
      out[i] = static_cast<std::int32_t>(stored[i]);
    }
  }

  const InputFile file_;
  const Layout layout_;
  const std::int64_t vocab_;
};

// Whether a file of this name exists, or may exist in a folder that cannot be searched.
bool is_name(const std::string& name) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(name, error).type();
  return type == fs::file_type::none ? error == std::errc::permission_denied
                                     : type != fs::file_type::not_found;
}

// Returns the pattern with special characters escaped in its leading components that name existing
// folders.
std::string with_folders_escaped(const std::string& pattern) {
  std::size_t end = 0;  // of these components
  for (std::size_t slash = pattern.find('/'); slash != std::string::npos;
       slash = pattern.find('/', slash + 1)) {
    std::error_code error;
    if (!fs::is_directory(pattern.substr(0, slash + 1), error)) break;
    end = slash + 1;
  }
  std::string escaped;
  for (const char letter : pattern.substr(0, end)) {
    if (std::string_view("*?[]{}\\").find(letter) != std::string_view::npos) escaped += '\\';
    escaped += letter;
  }
  return escaped + pattern.substr(end);
}

}  // namespace

std::unique_ptr<TokenSource> tokens_in_memory(std::string name, std::vector<std::int32_t> tokens) {
  return std::make_unique<MemoryTokens>(std::move(name), std::move(tokens));
}

std::unique_ptr<TokenSource> open_token_file(const fs::path& path, TokenFormat format,
                                             std::int64_t vocab) {
  return std::make_unique<FileTokens>(path, format, vocab);
}

void check_tokens(const TokenSource& source, std::uint64_t stride) {
  constexpr std::uint64_t block = 65536;
  std::vector<std::int32_t> tokens(block);
  for (std::uint64_t at = 0; at < source.size(); at += stride * block) {
    source.read(at, {tokens.data(), std::min(block, source.size() - at)});
  }
}

std::vector<fs::path> matching_files(const std::string& pattern) {
  const std::string name = expand_home(pattern);
  if (is_name(name)) return {name};
  glob_t found{};
  const int result = ::glob(with_folders_escaped(name).c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<fs::path> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) throw Error("{}: no such file", name);
  if (result != 0) throw Error("{}: cannot be searched for", name);
  return files;
}

}  // namespace mobius
