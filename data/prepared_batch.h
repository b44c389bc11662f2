// Batches that the host has prepared: later code need not inspect their values.
#pragma once

#include <cstdint>

#include "core/labels.h"
#include "core/row_index.h"
#include "data/task.h"

namespace mobius {

/// The input of a model: sequences that are checked, sorted and counted, on its device.
struct PreparedBatch {
  RowIndex tokens;  ///< [batch, n], indices into the embedding table
  Labels labels;    ///< [batch, n]
};

/// Throws Error, naming the position, if a token or a label is not in [0, vocab_size).
PreparedBatch prepare(const Batch& batch, std::int64_t vocab_size, Device device);

}  // namespace mobius
