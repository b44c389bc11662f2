// The first 512 bytes of a checkpoint: text that says what the file is, how long it is, and what
// its content adds up to. HDF5 leaves this space to its user and looks for its own start behind it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "data/input_file.h"

namespace mobius {

inline constexpr std::size_t checksum_block_bytes = 512;

/// Writes the block that describes `content`, the whole file, into its first checksum_block_bytes.
/// The content is at least that long.
void write_checksum(std::span<char> content);

/// Reads the whole file and compares it with its checksum. Throws Error, in one line, where it
/// cannot be read, is no checkpoint, is of a newer format version, is truncated, or is damaged: a
/// change of any single 64-bit word is always found, others are missed with probability 2^-64. That
/// is for accidents alone: whoever makes a file can make its checksum.
void verify_checksum(const InputFile& file);

/// Whether a file begins as a checkpoint does, be it whole or not.
bool begins_as_checkpoint(const std::filesystem::path& path);

}  // namespace mobius
