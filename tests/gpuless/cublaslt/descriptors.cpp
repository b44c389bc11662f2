#include "tests/gpuless/cublaslt/descriptors.h"

#include <cstring>
#include <new>
#include <type_traits>

namespace mobius::gpuless::lt {
namespace {

template <class T>
Field of(T& member) {
  return {&member, sizeof(member)};
}

template <class Object, class Opaque, class Attribute>
cublasStatus_t set(Opaque* opaque, Attribute attribute, const void* value, std::size_t bytes) {
  if (!opaque || !value) return CUBLAS_STATUS_INVALID_VALUE;
  const Field place = field(*reinterpret_cast<Object*>(opaque), attribute);
  if (!place.data || bytes != place.bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(place.data, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object, class Opaque, class Attribute>
cublasStatus_t get(Opaque* opaque, Attribute attribute, void* value, std::size_t bytes,
                   std::size_t* written) {
  if (!opaque || (bytes == 0 && !written)) return CUBLAS_STATUS_INVALID_VALUE;
  const Field place = field(*reinterpret_cast<Object*>(opaque), attribute);
  if (!place.data) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes > 0) {
    if (!value || bytes != place.bytes) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, place.data, bytes);
  }
  if (written) *written = place.bytes;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object, class Opaque>
cublasStatus_t init(Opaque* opaque, std::size_t bytes, const Object& object) {
  if (!opaque) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof(Opaque)) return CUBLAS_STATUS_ALLOC_FAILED;
  static_assert(std::is_trivially_copyable_v<Object>);
  std::memset(opaque, 0, sizeof(Opaque));
  ::new (opaque) Object(object);
  return CUBLAS_STATUS_SUCCESS;
}

template <class Object, class Opaque>
cublasStatus_t create(Opaque** opaque, const Object& object) {
  if (!opaque) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = new Opaque;
  return init(*opaque, sizeof(Opaque), object);
}

template <class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

MatrixLayout layout_of(cudaDataType type, std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return {.type = static_cast<std::uint32_t>(type), .rows = rows, .cols = cols, .ld = ld};
}

MatmulDesc desc_of(cublasComputeType_t compute, cudaDataType_t scale) {
  return {.compute_type = compute, .scale_type = scale};
}

}  // namespace

Field field(MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return of(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return of(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return of(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return of(layout.cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return of(layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return of(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return of(layout.batch_stride);
    case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET:
      return of(layout.plane_offset);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE:
      return of(layout.batch_mode);
    default:
      return {};
  }
}

Field field(MatmulDesc& desc, cublasLtMatmulDescAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return of(desc.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return of(desc.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return of(desc.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return of(desc.trans_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return of(desc.trans_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return of(desc.trans_c);
    case CUBLASLT_MATMUL_DESC_FILL_MODE:
      return of(desc.fill_mode);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return of(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return of(desc.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return of(desc.bias_batch_stride);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return of(desc.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return of(desc.aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return of(desc.aux_batch_stride);
    case CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE:
      return of(desc.alpha_batch_stride);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return of(desc.multiprocessors);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return of(desc.aux_type);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return of(desc.fast_accumulation);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return of(desc.bias_type);
    default:
      return {};
  }
}

Field field(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return of(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return of(preference.workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return of(preference.reduction_mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return of(preference.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return of(preference.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return of(preference.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return of(preference.alignment[3]);
    case CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT:
      return of(preference.waves);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return of(preference.implementation_mask);
    default:
      return {};
  }
}

}  // namespace mobius::gpuless::lt

namespace lt = mobius::gpuless::lt;

extern "C" {

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t bytes,
                                                 cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t cols, std::int64_t ld) {
  return lt::init(layout, bytes, lt::layout_of(type, rows, cols, ld));
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return lt::create(layout, lt::layout_of(type, rows, cols, ld));
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return lt::destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return lt::set<lt::MatrixLayout>(layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, std::size_t bytes,
                                                std::size_t* written) {
  return lt::get<lt::MatrixLayout>(layout, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, std::size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return lt::init(desc, bytes, lt::desc_of(compute, scale));
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return lt::create(desc, lt::desc_of(compute, scale));
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return lt::destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return lt::set<lt::MatmulDesc>(desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              std::size_t bytes, std::size_t* written) {
  return lt::get<lt::MatmulDesc>(desc, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     std::size_t bytes) {
  return lt::init(preference, bytes, lt::Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return lt::create(preference, lt::Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return lt::destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return lt::set<lt::Preference>(preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  return lt::get<lt::Preference>(preference, attribute, value, bytes, written);
}

}  // extern "C"
