// The entry points of cuBLASLt that compute.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/gpuless/cublaslt/problem.h"
#include "tests/gpuless/cublaslt/product.h"
#include "tests/gpuless/cudart/library.h"

struct cublasLtContext {
  std::uint64_t magic;
};

namespace mobius::gpuless::lt {
namespace {

constexpr std::uint64_t magic = 0x6d6f62697573216c;
// Where there may be a workspace, algorithms ask for this much, as many real ones do.
constexpr std::uint64_t wanted_workspace = 64 << 10;
constexpr std::uint64_t workspace_alignment = 256;

bool is_handle(cublasLtHandle_t handle) { return handle && handle->magic == magic; }

std::uint32_t types_of(const Problem& problem) {
  return static_cast<std::uint32_t>(problem.a.element) << 8 |
         static_cast<std::uint32_t>(problem.d.element);
}

/// The power of two, at most 256, that divides an address. The null pointer stands for any.
std::uint32_t alignment_of(std::uint64_t address) {
  return static_cast<std::uint32_t>((address | 256) & -(address | 256));
}

template <class Object, class Opaque>
const Object& object(const Opaque* opaque) {
  if (!opaque) throw Refusal{CUBLAS_STATUS_INVALID_VALUE, "a descriptor is null"};
  return *reinterpret_cast<const Object*>(opaque);
}

Problem read_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return problem_of(object<MatmulDesc>(desc), object<MatrixLayout>(a), object<MatrixLayout>(b),
                    object<MatrixLayout>(c), object<MatrixLayout>(d));
}

Algorithm algorithm_for(const Problem& problem, const Preference& preference) {
  Algorithm result{.workspace_bytes = std::min(wanted_workspace, preference.workspace_bytes),
                   .bias_alignment = alignment_of(problem.bias),
                   .types = types_of(problem),
                   .made_here = magic};
  std::memcpy(result.alignment, preference.alignment, sizeof(result.alignment));
  return result;
}

void refuse(const std::string& reason) { throw Refusal{CUBLAS_STATUS_INVALID_VALUE, reason}; }

/// Pointers must be as the heuristic was told, and at least those of elements.
void check_algorithm(const Algorithm& algorithm, const Problem& problem, void* workspace,
                     std::size_t workspace_bytes) {
  if (algorithm.made_here != magic || algorithm.types != types_of(problem))
    refuse("the algorithm is not one for this product");
  const Matrix* const matrices[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (int i = 0; i < 4; ++i)
    if (matrices[i]->address % algorithm.alignment[i] != 0)
      refuse(std::string("the algorithm needs ") + "ABCD"[i] + " aligned to " +
             std::to_string(algorithm.alignment[i]) + " bytes");
  if (alignment_of(problem.bias) < algorithm.bias_alignment)
    refuse("the algorithm was chosen for a bias that is aligned to " +
           std::to_string(algorithm.bias_alignment) + " bytes");
  if (workspace_bytes < algorithm.workspace_bytes || (algorithm.workspace_bytes > 0 && !workspace))
    refuse("the algorithm needs a workspace of " + std::to_string(algorithm.workspace_bytes) +
           " bytes");
  if (reinterpret_cast<std::uint64_t>(workspace) % workspace_alignment != 0)
    refuse("the workspace is not aligned to 256 bytes");
}

void place(Matrix& matrix, const void* pointer, char name, bool may_be_null = false) {
  matrix.address = reinterpret_cast<std::uint64_t>(pointer);
  if (!pointer && !may_be_null) refuse(std::string(1, name) + " is null");
  if (matrix.address % static_cast<std::uint64_t>(bytes_of(matrix.element)) != 0)
    refuse(std::string(1, name) + " is not aligned to its elements");
}

double host_scale(const void* pointer, Element element) {
  return element == Element::f64 ? *static_cast<const double*>(pointer)
                                 : *static_cast<const float*>(pointer);
}

Scales scales_of(const Problem& problem, const void* alpha, const void* beta) {
  if (!alpha || !beta) refuse("alpha or beta is null");
  if (problem.scales_on_device)
    return {.alpha_address = reinterpret_cast<std::uint64_t>(alpha),
            .beta_address = reinterpret_cast<std::uint64_t>(beta)};
  return {.alpha = host_scale(alpha, problem.d.element),
          .beta = host_scale(beta, problem.d.element)};
}

/// What an algorithm leaves in its workspace is of no use to anybody.
void spoil(ptx::DeviceMemory& memory, const void* workspace, std::uint64_t bytes) {
  if (bytes > 0) memory.fill(reinterpret_cast<std::uint64_t>(workspace), 0xcb, bytes);
}

/// Runs `body`, which throws Refusal. Refusals of products are explained, those of questions are
/// answers.
template <class Body>
cublasStatus_t answered(const char* name, bool explains, const Body& body) {
  try {
    return body();
  } catch (const Refusal& refusal) {
    if (explains) std::fprintf(stderr, "gpuless: %s: %s\n", name, refusal.reason.c_str());
    return refusal.status;
  }
}

}  // namespace
}  // namespace mobius::gpuless::lt

namespace lt = mobius::gpuless::lt;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext{lt::magic};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (!lt::is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->magic = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
std::size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  if (!lt::is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested <= 0 || !results || !returned) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  return lt::answered(__func__, false, [&] {
    const auto algorithm = lt::algorithm_for(lt::read_problem(desc, a, b, c, d),
                                             lt::object<lt::Preference>(preference));
    *results = {};
    std::memcpy(&results->algo, &algorithm, sizeof(algorithm));
    results->workspaceSize = algorithm.workspace_bytes;
    results->state = CUBLAS_STATUS_SUCCESS;
    results->wavesCount = 1;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!lt::is_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return lt::answered(__func__, true, [&] {
    auto problem = lt::read_problem(desc, a_layout, b_layout, c_layout, d_layout);
    const lt::Scales scales = lt::scales_of(problem, alpha, beta);
    lt::place(problem.a, a, 'A');
    lt::place(problem.b, b, 'B');
    lt::place(problem.c, c, 'C', !problem.scales_on_device && scales.beta == 0);
    lt::place(problem.d, d, 'D');
    if (problem.adds_bias && !problem.bias) lt::refuse("the bias is null");
    if (problem.keeps_input && !problem.aux)
      lt::refuse("the place of the epilogue's input is null");
    if (c == d && problem.c.ld != problem.d.ld)
      lt::refuse("C is D, with another leading dimension");
    std::uint64_t used = 0;
    if (algo) {
      const auto& algorithm = lt::object<lt::Algorithm>(algo);
      lt::check_algorithm(algorithm, problem, workspace, workspace_bytes);
      used = algorithm.workspace_bytes;
    }
    const auto work = [problem, scales, workspace, used](mobius::ptx::DeviceMemory& memory) {
      lt::spoil(memory, workspace, used);
      lt::multiply(problem, scales, memory);
    };
    const auto error = mobius::gpuless::enqueue_library_call(stream, problem.name(), work);
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
  });
}

/// Algorithms here do not split the sum.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  if (!algo) return CUBLAS_STATUS_INVALID_VALUE;
  std::uint32_t result = 0;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      result = 1;
      break;
    case CUBLASLT_ALGO_CONFIG_ID:
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes > 0) {
    if (!value || bytes != sizeof(result)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &result, sizeof(result));
  }
  if (written) *written = sizeof(result);
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
  }
  return "unrecognized status";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires an architectural feature absent from the device";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "an access to GPU memory space failed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the requested functionality is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "the license check failed";
  }
  return "unrecognized status";
}

}  // extern "C"
