// Parameters as a safetensors file, which other tools read and write: 8 bytes with the size of a
// JSON header, the header {name: {dtype, shape, data_offsets}, ..., "__metadata__": {...}}, and the
// tensors one after the other, row-major, little-endian.
//
// Names are those of `mobius inspect` (embedding.weight, blocks.0.attention.qkv.weight, ...). A
// head tied to the embedding is one tensor, embedding.weight.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "train/optim/optimizer.h"

namespace mobius {

struct Safetensors {
  std::vector<NamedTensor> tensors;             ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// Writes f32, f64 and bf16 tensors. Throws Error. Replaces a file at `path` whole or not at all.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// Reads F32, F64 and BF16 tensors as they are and F16 as f32. Throws Error in one line if the file
/// is missing, its header is missing, larger than 16 MiB, not JSON, has a name twice or does not
/// fit the bytes, or an element type is another. Skips other keys of a tensor than the three above.
Safetensors read_safetensors(const std::filesystem::path& path);

/// Fills the tensors `wanted` from the file, in place, converting real types. Throws Error, and
/// changes nothing, if names or shapes differ or a number is not finite.
void fill_from_safetensors(const std::filesystem::path& path,
                           const std::vector<NamedTensor>& wanted);

}  // namespace mobius
