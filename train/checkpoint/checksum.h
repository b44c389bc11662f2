// The first 512 bytes of a checkpoint: a text with its format, size and checksum. HDF5 leaves this
// space to its user and looks for its own start behind it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "data/input_file.h"

namespace mobius {

inline constexpr std::size_t checksum_block_bytes = 512;

/// Writes the block of a whole file into its first checksum_block_bytes, which it must have.
void write_checksum(std::span<char> content);

/// Reads the whole file and compares it with its checksum. Throws Error, in one line, if it cannot
/// be read, is no checkpoint, is of a newer format version, truncated or damaged. It finds every
/// change of a single 64-bit word and misses others with probability 2^-64. It protects against
/// accidents only: whoever makes a file can make its checksum.
void verify_checksum(const InputFile& file);

/// Whether a file begins as a checkpoint does, complete or not.
bool begins_as_checkpoint(const std::filesystem::path& path);

}  // namespace mobius
