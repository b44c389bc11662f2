// A sequence of tokens, in memory or in a file.
//
// Token files have one of two formats, both little-endian:
//
//   raw     16-bit tokens only, like train.bin and val.bin of nanoGPT
//   llm.c   a header of 256 32-bit integers, then the tokens. header[0] = 20240520 and
//           header[1] = 1: 16-bit tokens (GPT-2); 20240801 and 7: 32-bit tokens (Llama 3).
//           header[2] is the number of tokens, which must match the size of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mobius {

/// Every method is const and may be called from several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  /// Number of tokens.
  virtual std::uint64_t size() const = 0;
  /// Fills `out` with the tokens from `begin` on; begin + out.size() <= size(). Throws Error if
  /// they cannot be read.
  virtual void read(std::uint64_t begin, std::span<std::int32_t> out) const = 0;
  /// The name for messages.
  virtual const std::string& name() const = 0;
};

std::unique_ptr<TokenSource> tokens_in_memory(std::string name, std::vector<std::int32_t> tokens);

enum class TokenFormat {
  /// llm_c if the file begins like one of llm.c (20240101 to 20241231), else raw. Rejects files
  /// that look like neither: other known formats (format_of() of data/input_file.h) and 32-bit
  /// tokens without a
  /// header.
  automatic,
  raw,
  llm_c,
};

/// Opens a file of tokens below `vocab`. Keeps nothing in memory: each read is one system call,
/// served by the page cache. A file that shrinks while in use is an Error, whereas a memory mapping
/// would crash. Throws Error, naming the file, if it is missing, is not a whole number of tokens or
/// has an invalid header. read() throws Error if a token is not below `vocab`, naming the file, the
/// token and its position, or if the file has shrunk.
std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& path, TokenFormat format,
                                             std::int64_t vocab);

/// Reads one block of 65536 tokens in each `stride`, to find tokens beyond the vocabulary before
/// training does. Throws what read() throws.
void check_tokens(const TokenSource& source, std::uint64_t stride);

/// Returns the file of this name, or else the files that match it as a shell pattern (`*`, `?`,
/// `[...]`, `{a,b}`, `\`), sorted by name; matches of `a` precede those of `b`. Leading path
/// components that name existing folders are taken literally, whatever characters they contain; `~`
/// is the home folder. Throws Error if there is no such file.
std::vector<std::filesystem::path> matching_files(const std::string& pattern);

}  // namespace mobius
