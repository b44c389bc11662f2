// What the opaque structures of cuBLASLt hold here, and their attributes, with the sizes and first
// values of the real library.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

namespace mobius::gpuless::lt {

struct MatrixLayout {
  std::uint32_t type;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows;
  std::uint64_t cols;
  std::int64_t ld;
  std::int32_t batch_count = 1;
  std::uint32_t batch_mode = CUBLASLT_BATCH_MODE_STRIDED;
  std::int64_t batch_stride = 0;
  std::int64_t plane_offset = 0;
};

struct MatmulDesc {
  std::int32_t compute_type;
  std::int32_t scale_type;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t trans_a = CUBLAS_OP_N;
  std::int32_t trans_b = CUBLAS_OP_N;
  std::int32_t trans_c = CUBLAS_OP_N;
  std::int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint64_t bias = 0;
  std::int64_t bias_batch_stride = 0;
  std::uint64_t aux = 0;
  std::int64_t aux_ld = 0;
  std::int64_t aux_batch_stride = 0;
  std::int64_t alpha_batch_stride = 0;
  std::int32_t multiprocessors = 0;
  std::int32_t aux_type = -1;
  std::int32_t bias_type = -1;
  std::int8_t fast_accumulation = 0;
};

struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint64_t implementation_mask = ~std::uint64_t{0};
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C and D, in bytes
  float waves = 0;
};

/// What a heuristic assumed; a product with other operands must not use it.
struct Algorithm {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
  std::uint32_t bias_alignment = 256;
  std::uint32_t types = 0;  // of operands and results, to tell that it is one for other products
  std::uint64_t made_here = 0;
};

static_assert(sizeof(MatrixLayout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(MatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// An attribute as a place in one of the structures above; null for one that is not imitated.
struct Field {
  void* data = nullptr;
  std::size_t bytes = 0;
};
Field field(MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute);
Field field(MatmulDesc& desc, cublasLtMatmulDescAttributes_t attribute);
Field field(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute);

}  // namespace mobius::gpuless::lt
