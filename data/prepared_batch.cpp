#include "data/prepared_batch.h"

namespace mobius {

PreparedBatch prepare(const Batch& batch, std::int64_t vocab_size, Device device) {
  if (batch.labels.shape() != batch.inputs.shape()) {
    throw ShapeError("batch: inputs {} and labels {} differ in shape",
                     to_string(batch.inputs.shape()), to_string(batch.labels.shape()));
  }
  return {RowIndex("batch: inputs", batch.inputs, vocab_size).to(device),
          Labels("batch", batch.labels, vocab_size, batch.scored).to(device)};
}

}  // namespace mobius
