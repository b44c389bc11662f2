// What a checkpoint holds, and where in the file: all that the HDF5 library is asked about it.
//
// A file may be made to harm: anyone can write a checksum. The library crashes
// on some damaged files, so it sees them in a process of its own (core/isolated.h). Of what it
// says only what checkpoint.h describes is taken: things of the names, types, shapes and kinds of
// place that save_checkpoint() writes. Attributes and objects of other names are never opened, so
// that a later version may add some.
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
/// little-endian, all of them within the file, and none of them is another's.
struct PlacedTensor : StoredTensor {
  std::uint64_t offset = 0;
};

struct CheckpointIndex {
  CheckpointHeader header;  ///< the bytes of the tokeniser are left out
  std::vector<PlacedTensor> parameters;
  std::vector<PlacedTensor> buffers;
  std::vector<PlacedTensor> optimizer;    ///< "MOMENT/NAME"
  std::optional<PlacedTensor> tokenizer;  ///< its bytes, u8 [n]
};

/// Reads the index of a file whose checksum is right. Throws Error, naming the file and the thing
/// in it that is not as it should be.
CheckpointIndex read_index(const InputFile& file);

}  // namespace mobius
