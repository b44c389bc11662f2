// The content of a checkpoint and its places in the file, as the HDF5 library reports them.
//
// A file may be made to harm, because anyone can write a checksum, and the library crashes on some
// damaged files. So it reads them in a process of its own (core/isolated.h), and only names, types,
// shapes and places that save_checkpoint() writes are accepted. Attributes and objects of other
// names are never opened, so that a later version may add some.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/input_file.h"
#include "train/checkpoint/checkpoint.h"

namespace mobius {

inline constexpr const char* checkpoint_format = "mobius-checkpoint";  ///< attribute `format`

/// A tensor, and the place of its first byte in the file. Its elements lie there row-major and
/// little-endian, within the file and apart from those of other tensors.
struct PlacedTensor : StoredTensor {
  std::uint64_t offset = 0;
};

struct CheckpointIndex {
  CheckpointHeader header;  ///< without the bytes of the tokeniser
  std::vector<PlacedTensor> parameters;
  std::vector<PlacedTensor> buffers;
  std::vector<PlacedTensor> optimizer;    ///< "MOMENT/NAME"
  std::optional<PlacedTensor> tokenizer;  ///< its bytes, u8 [n]
};

/// Reads the index of a file whose checksum is right. Throws Error that names the file and what is
/// wrong in it.
CheckpointIndex read_index(const InputFile& file);

}  // namespace mobius
