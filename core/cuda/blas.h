// Matrix products by cuBLASLt, which is loaded at the first of them: a program that makes none
// starts without its half gigabyte.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mobius::cuda {

/// The matrices of a batch, of which each is stored row by row, or column by column.
struct Matrices {
  const void* data;
  bool by_columns;
  std::int64_t leading;  // elements from one row (column) to the next
  std::int64_t stride;   // elements from one matrix to the next; 0 repeats it
};

/// out[batch, M, N] = a[batch, M, K] b[batch, K, N] + bias[N]; all sizes are positive.
struct Product {
  DType type;  // of a and b; all else is f32 where they are bf16, which sums are then, too
  std::int64_t batch, m, n, k;
  Matrices a, b;
  const void* bias;  // or null
  void* out;         // dense
  bool accumulate;   // out += a b; there is no bias then
};

/// Queues a product on the current device. Equal products of equally aligned operands sum in the
/// same order in every run. Returns false if the bias is left to add.
bool multiply(const Product& product);

}  // namespace mobius::cuda
