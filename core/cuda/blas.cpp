// cuBLASLt, of which no other file knows. Its matrices are stored by columns: what is stored by
// rows is a transposed matrix to it, and a product by rows is out^T = b^T a^T.
#include "core/cuda/blas.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/cuda/runtime.h"
#include "core/error.h"
#include "core/tensor.h"

namespace mobius::cuda {
namespace {

// ---- the library

// The functions of cuBLASLt that are called, in the version that this file is compiled with.
struct Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
};

Library load_library() {
  const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw Error(
        "device cuda: matrix products need {}, a part of CUDA {} (LD_LIBRARY_PATH may name its "
        "folder): {}",
        name, CUBLAS_VER_MAJOR, ::dlerror());
  }
  Library library{};
  const auto find = [&]<class Function>(Function& function, const char* function_name) {
    function = reinterpret_cast<Function>(::dlsym(handle, function_name));
    if (!function) throw Error("device cuda: {} has no function {}", name, function_name);
  };
  find(library.create, "cublasLtCreate");
  find(library.status_string, "cublasLtGetStatusString");
  find(library.matmul, "cublasLtMatmul");
  find(library.find_algorithm, "cublasLtMatmulAlgoGetHeuristic");
  find(library.create_operation, "cublasLtMatmulDescCreate");
  find(library.destroy_operation, "cublasLtMatmulDescDestroy");
  find(library.set_operation, "cublasLtMatmulDescSetAttribute");
  find(library.create_layout, "cublasLtMatrixLayoutCreate");
  find(library.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(library.set_layout, "cublasLtMatrixLayoutSetAttribute");
  find(library.create_preference, "cublasLtMatmulPreferenceCreate");
  find(library.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(library.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  return library;
}

const Library& library() {
  static const Library functions = load_library();
  return functions;
}

std::string describe(const Product& p) {
  return fmt::format("{} x [{}, {}] x [{}, {}] of {}", p.batch, p.m, p.k, p.k, p.n,
                     name_of(p.type));
}

void check_blas(cublasStatus_t status, const Product& product) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  check(cudaGetLastError(), "matrix product");  // names a device that was lost
  throw Error("device {}: matrix product {}: cuBLASLt: {}",
              to_string({DeviceType::cuda, current_device()}), describe(product),
              library().status_string(status));
}

// The library's state for the current device, which lives as long as the program.
cublasLtHandle_t handle(const Product& product) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[current_device()];
  if (!handle) check_blas(library().create(&handle), product);
  return handle;
}

// ---- types

cudaDataType_t data_type(DType type) {
  return type == DType::f64 ? CUDA_R_64F : type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}
cudaDataType_t sum_type(DType operand) { return operand == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }
// f32 is never rounded to TF32.
cublasComputeType_t compute_type(DType operand) {
  return operand == DType::f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

// A factor in the type of sums.
class Scalar {
 public:
  Scalar(DType operand, double value)
      : f64_(value), f32_(static_cast<float>(value)), is_f64_(operand == DType::f64) {}
  const void* address() const { return is_f64_ ? static_cast<const void*>(&f64_) : &f32_; }

 private:
  double f64_;
  float f32_;
  bool is_f64_;
};

// ---- descriptions of a product

template <class Opaque>
using Handle = std::unique_ptr<Opaque, cublasStatus_t (*)(Opaque*)>;
using Operation = Handle<cublasLtMatmulDescOpaque_t>;
using Layout = Handle<cublasLtMatrixLayoutOpaque_t>;
using Preference = Handle<cublasLtMatmulPreferenceOpaque_t>;

Layout make_layout(const Product& p, cudaDataType_t type, std::int64_t rows, std::int64_t cols,
                   std::int64_t leading, std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  check_blas(library().create_layout(&made, type, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(cols), leading),
             p);
  Layout layout(made, library().destroy_layout);
  if (p.batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(p.batch);
  check_blas(library().set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
             p);
  check_blas(library().set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                  sizeof stride),
             p);
  return layout;
}

// The operand x[rows, cols], as it lies in memory.
Layout operand_layout(const Product& p, const Matrices& x, std::int64_t rows, std::int64_t cols) {
  const cudaDataType_t type = data_type(p.type);
  return x.by_columns ? make_layout(p, type, rows, cols, x.leading, x.stride)
                      : make_layout(p, type, cols, rows, x.leading, x.stride);
}

Operation make_operation(const Product& p, bool with_bias) {
  cublasLtMatmulDesc_t made = nullptr;
  check_blas(library().create_operation(&made, compute_type(p.type), sum_type(p.type)), p);
  Operation operation(made, library().destroy_operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check_blas(library().set_operation(made, attribute, &value, sizeof value), p);
  };
  const auto transposed = [](const Matrices& x) {
    return x.by_columns ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(p.b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(p.a));
  if (with_bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, sum_type(p.type));
  }
  return operation;
}

struct Descriptions {
  Descriptions(const Product& p, bool with_bias)
      : operation(make_operation(p, with_bias)),
        b(operand_layout(p, p.b, p.k, p.n)),
        a(operand_layout(p, p.a, p.m, p.k)),
        out(make_layout(p, sum_type(p.type), p.n, p.m, p.n, p.m * p.n)) {}

  Operation operation;
  Layout b, a, out;
};

// ---- algorithms

// How a product is computed. Found once for each kind of product.
struct Plan {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
  bool adds_bias;
};

// What NVIDIA advises for the largest GPUs.
constexpr std::size_t most_workspace = std::size_t{32} << 20;

// Every block of memory is aligned so, whatever it is aligned to by chance: a plan must not depend
// on that.
constexpr std::uintptr_t known_alignment = 256;

std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::uintptr_t{1}
                                    << std::countr_zero(address | known_alignment));
}

Preference make_preference(const Product& p) {
  cublasLtMatmulPreference_t made = nullptr;
  check_blas(library().create_preference(&made), p);
  Preference preference(made, library().destroy_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_blas(library().set_preference(made, attribute, &value, sizeof value), p);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  // Sums in place are in the order in which blocks happen to end.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                    CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.out));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.out));
  return preference;
}

// Empty if the library has no algorithm.
std::optional<Plan> find_plan(const Product& p, bool with_bias) {
  const Descriptions d(p, with_bias);
  const Preference preference = make_preference(p);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      library().find_algorithm(handle(p), d.operation.get(), d.b.get(), d.a.get(), d.out.get(),
                               d.out.get(), preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0))
    return std::nullopt;
  check_blas(status, p);
  return Plan{found.algo, found.workspaceSize, with_bias};
}

Plan make_plan(const Product& p) {
  if (p.bias) {
    if (const std::optional<Plan> plan = find_plan(p, true)) return *plan;
  }
  if (const std::optional<Plan> plan = find_plan(p, false)) return *plan;
  throw Error("device {}: matrix product {}: cuBLASLt has no algorithm for it",
              to_string({DeviceType::cuda, current_device()}), describe(p));
}

// What a plan depends on.
using Kind = std::array<std::int64_t, 18>;

Kind kind_of(const Product& p) {
  const auto alignment = [](const void* data) { return std::int64_t{alignment_of(data)}; };
  return {current_device(),
          static_cast<std::int64_t>(p.type),
          p.batch,
          p.m,
          p.n,
          p.k,
          p.a.by_columns,
          p.a.leading,
          p.a.stride,
          alignment(p.a.data),
          p.b.by_columns,
          p.b.leading,
          p.b.stride,
          alignment(p.b.data),
          p.bias != nullptr,
          alignment(p.bias),
          alignment(p.out),
          p.accumulate};
}

// The plans of all kinds of products so far; starts anew when there are very many.
class Plans {
 public:
  Plan of(const Product& product) {
    const std::lock_guard lock(mutex_);
    const Kind kind = kind_of(product);
    const auto found = plans_.find(kind);
    if (found != plans_.end()) return found->second;
    if (plans_.size() == most_plans) plans_.clear();
    return plans_.emplace(kind, make_plan(product)).first->second;
  }

 private:
  static constexpr std::size_t most_plans = 4096;

  std::mutex mutex_;
  std::map<Kind, Plan> plans_;
};

}  // namespace

bool multiply(const Product& p) {
  static Plans plans;
  const Plan plan = plans.of(p);
  const Descriptions d(p, plan.adds_bias);
  const Scalar one(p.type, 1), beta(p.type, p.accumulate ? 1 : 0);
  Tensor workspace;  // free again behind the product, in the order of the stream
  if (plan.workspace_bytes > 0) {
    workspace = Tensor::empty({static_cast<std::int64_t>(plan.workspace_bytes)}, DType::u8,
                              {DeviceType::cuda, current_device()});
  }
  check_blas(library().matmul(
                 handle(p), d.operation.get(), one.address(), p.b.data, d.b.get(), p.a.data,
                 d.a.get(), beta.address(), p.out, d.out.get(), p.out, d.out.get(), &plan.algorithm,
                 workspace.defined() ? workspace.raw() : nullptr, plan.workspace_bytes, stream()),
             p);
  return plan.adds_bias;
}

}  // namespace mobius::cuda
