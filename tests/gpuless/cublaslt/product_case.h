// One matrix product through cuBLASLt, with everything that its descriptors can say, and the same
// computed in plain loops.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace mobius::gpuless_test {

/// How a matrix lies in memory.
struct Placement {
  bool row_major = false;
  bool transposed = false;  // op() is a transposition; only for A and B
  int padding = 0;          // of the leading dimension, in elements
};

struct ProductCase {
  int m = 5, n = 4, k = 7;
  int batches = 1;
  cudaDataType in = CUDA_R_32F;  // of A and B
  cudaDataType out = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  Placement a{}, b{}, d{};  // C lies as D
  double alpha = 1, beta = 0;
  bool in_place = false;  // C is D
  bool scales_on_device = false;
  bool one_b = false;  // the same B in all batches
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
};

/// Runs the case and compares D, and what its epilogue keeps, with the reference. What lies between
/// the columns of an operand was never written, and between those of D stays so.
void expect_product(const ProductCase& product);

}  // namespace mobius::gpuless_test
