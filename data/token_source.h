// Tokens in a row, in memory or in a file.
//
// Files of tokens come in two formats, both little-endian:
//
//   raw     16-bit tokens and nothing else: train.bin and val.bin of nanoGPT
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
  /// Fills `out` with the tokens from `begin` on; begin + out.size() <= size(). Throws Error.
  virtual void read(std::uint64_t begin, std::span<std::int32_t> out) const = 0;
  /// What to call it in messages.
  virtual const std::string& name() const = 0;
};

std::unique_ptr<TokenSource> tokens_in_memory(std::string name, std::vector<std::int32_t> tokens);

enum class TokenFormat {
  /// llm_c where the file begins as one of llm.c does (20240101 to 20241231), else raw; but not
  /// where it looks like neither: a known format of another kind (data/file_format.h), or 32-bit
  /// tokens without a header.
  automatic,
  raw,
  llm_c,
};

/// Opens a file of tokens below `vocab`. Nothing is kept in memory: each read is one system call,
/// served by the system's cache, and a file that changes while it is in use is an Error where a
/// mapping of it would end the program. Throws Error, naming the file: it is missing, no whole
/// number of tokens, its header is not as above. read() throws one that names the file, the token
/// and its place where a token is not below `vocab`, and one where the file has shrunk.
std::unique_ptr<TokenSource> open_token_file(const std::filesystem::path& path, TokenFormat format,
                                             std::int64_t vocab);

/// Reads the tokens of a source, one block of 65536 in each `stride`: throws what read() does where
/// a token is not below the vocabulary size, before training meets it.
void check_tokens(const TokenSource& source, std::uint64_t stride);

/// The file of this name, or else those that match it as a pattern of the shell (`*`, `?`, `[...]`,
/// `{a,b}`, `\`), in the order of their names; those of `a` before those of `b`. What is a folder's
/// name at the beginning of the pattern is that name, whatever characters it has; `~` is the home
/// folder. Throws Error where there is none.
std::vector<std::filesystem::path> matching_files(const std::string& pattern);

}  // namespace mobius
