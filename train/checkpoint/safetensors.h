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

/// f32, f64 and bf16 tensors. Throws Error; a file at `path` is replaced whole or not at all.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content);

/// F32, F64 and BF16 tensors as they are, F16 ones as f32. Throws Error with one line that says
/// what is wrong: no such file, no header, one of more than 16 MiB, of text that is not JSON, with
/// a name that comes twice, or that does not fit the bytes, an element type that Mobius does not
/// have. Keys of a tensor other than the three above are passed over.
Safetensors read_safetensors(const std::filesystem::path& path);

/// Fills the tensors `wanted` from those of the file, in place; real types convert. Throws Error
/// that names the differences in names and shapes, and changes nothing, where they do not fit, and
/// where one holds a number that is not finite.
void fill_from_safetensors(const std::filesystem::path& path,
                           const std::vector<NamedTensor>& wanted);

}  // namespace mobius
