// Batches made ready on the host, so that nothing after it has to look at what is in them.
#pragma once

#include <cstdint>

#include "core/labels.h"
#include "core/row_index.h"
#include "data/task.h"

namespace mobius {

/// Sequences as a model reads them: checked, sorted and counted, on its device.
struct PreparedBatch {
  RowIndex tokens;  ///< [batch, n], into the table of embeddings
  Labels labels;    ///< of those [batch, n]
};

/// Throws Error, naming the position, where a token or a label is not in [0, vocab_size).
PreparedBatch prepare(const Batch& batch, std::int64_t vocab_size, Device device);

}  // namespace mobius
