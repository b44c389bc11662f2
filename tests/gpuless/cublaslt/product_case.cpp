#include "tests/gpuless/cublaslt/product_case.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace mobius::gpuless_test {
namespace {

std::size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_16BF ? 2 : 4;
}

void store(cudaDataType type, double x, char* place) {
  if (type == CUDA_R_64F) {
    std::memcpy(place, &x, 8);
    return;
  }
  const auto value = static_cast<float>(x);
  const char* bytes = reinterpret_cast<const char*>(&value);
  std::memcpy(place, type == CUDA_R_16BF ? bytes + 2 : bytes, bytes_of(type));
}

double load(cudaDataType type, const char* place) {
  if (type == CUDA_R_64F) {
    double x = 0;
    std::memcpy(&x, place, 8);
    return x;
  }
  float x = 0;
  std::memcpy(reinterpret_cast<char*>(&x) + (type == CUDA_R_16BF ? 2 : 0), place, bytes_of(type));
  return x;
}

/// Device memory of matrices of one batch after the other.
class DeviceMatrices {
 public:
  /// `rows` x `cols` as they are multiplied.
  DeviceMatrices(cudaDataType type, int rows, int cols, int batches, const Placement& placement)
      : type_(type), batches_(batches) {
    stored_rows_ = placement.transposed ? cols : rows;
    stored_cols_ = placement.transposed ? rows : cols;
    row_major_ = placement.row_major;
    transposed_ = placement.transposed;
    ld_ = (row_major_ ? stored_cols_ : stored_rows_) + placement.padding;
    stride_ = static_cast<std::int64_t>(ld_) * (row_major_ ? stored_rows_ : stored_cols_) +
              placement.padding;
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes()), cudaSuccess);
    memory_ = static_cast<char*>(memory);
    cublasLtMatrixLayoutInit(&layout_, type, static_cast<std::uint64_t>(stored_rows_),
                             static_cast<std::uint64_t>(stored_cols_), ld_);
    const int order = row_major_ ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    set(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride_);
  }
  ~DeviceMatrices() { cudaFree(memory_); }
  DeviceMatrices(const DeviceMatrices&) = delete;
  DeviceMatrices& operator=(const DeviceMatrices&) = delete;

  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(&layout_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  /// Fills the elements, and nothing else, with values of few bits; returns them, batch by batch
  /// and row by row of the matrix that is multiplied.
  std::vector<double> fill(std::mt19937& random, int rows, int cols, int distinct) {
    std::vector<double> values;
    for (int i = 0; i < rows * cols * distinct; ++i)
      values.push_back((static_cast<int>(random() % 33) - 16) / 16.0);
    std::vector<char> element(bytes_of(type_));
    for (int i = 0; i < rows * cols * distinct; ++i) {
      store(type_, values[static_cast<std::size_t>(i)], element.data());
      EXPECT_EQ(cudaMemcpy(memory_ + offset(i / (rows * cols), i / cols % rows, i % cols),
                           element.data(), element.size(), cudaMemcpyHostToDevice),
                cudaSuccess);
    }
    return values;
  }
  std::vector<char> contents() const {
    std::vector<char> result(bytes());
    EXPECT_EQ(cudaMemcpy(result.data(), memory_, bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }
  /// In bytes, of an element of the matrix that is multiplied.
  std::size_t offset(int batch, int row, int col) const {
    if (transposed_) std::swap(row, col);
    const std::int64_t element =
        row_major_ ? std::int64_t{row} * ld_ + col : std::int64_t{col} * ld_ + row;
    return static_cast<std::size_t>(batch * stride_ + element) * bytes_of(type_);
  }

  void* data() const { return memory_; }
  cublasLtMatrixLayout_t layout() { return &layout_; }
  std::size_t bytes() const {
    return static_cast<std::size_t>(stride_ * batches_) * bytes_of(type_);
  }

 private:
  cudaDataType type_;
  int batches_;
  int stored_rows_, stored_cols_, ld_;
  bool row_major_, transposed_;
  std::int64_t stride_;
  char* memory_ = nullptr;
  cublasLtMatrixLayoutOpaque_t layout_;
};

bool has(const ProductCase& product, int bit) { return product.epilogue & bit; }

double activated(const ProductCase& product, double x) {
  if (has(product, CUBLASLT_EPILOGUE_RELU)) return std::max(x, 0.0);
  if (!has(product, CUBLASLT_EPILOGUE_GELU)) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// What goes into the activation, batch by batch and row by row.
std::vector<double> reference(const ProductCase& p, const std::vector<double>& a,
                              const std::vector<double>& b, const std::vector<double>& c,
                              const std::vector<double>& bias) {
  std::vector<double> result;
  for (int batch = 0; batch < p.batches; ++batch) {
    for (int i = 0; i < p.m; ++i) {
      for (int j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int l = 0; l < p.k; ++l)
          sum += a[static_cast<std::size_t>((batch * p.m + i) * p.k + l)] *
                 b[static_cast<std::size_t>(((p.one_b ? 0 : batch) * p.k + l) * p.n + j)];
        double x = p.alpha * sum;
        if (p.beta != 0) x += p.beta * c[static_cast<std::size_t>((batch * p.m + i) * p.n + j)];
        if (!bias.empty()) x += bias[static_cast<std::size_t>(i)];
        result.push_back(x);
      }
    }
  }
  return result;
}

double tolerance(const ProductCase& p, double x) {
  const double sums = p.compute == CUBLAS_COMPUTE_64F ? 1e-15 : 1e-6;
  const double last = p.out == CUDA_R_16BF ? 1.0 / 128 : 0;
  return sums * (p.k + 4) + last * std::abs(x);
}

std::int64_t aux_ld(const ProductCase& p) {
  const int granule = has(p, CUBLASLT_EPILOGUE_RELU) ? 128 : 8;
  return (p.m + granule - 1) / granule * granule;
}

class Scales {
 public:
  explicit Scales(const ProductCase& p) : on_device_(p.scales_on_device) {
    const auto type = p.out == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    store(type, p.alpha, host_);
    store(type, p.beta, host_ + 8);
    if (!on_device_) return;
    cudaMalloc(&device_, sizeof(host_));
    cudaMemcpy(device_, host_, sizeof(host_), cudaMemcpyHostToDevice);
  }
  ~Scales() { cudaFree(device_); }
  Scales(const Scales&) = delete;
  Scales& operator=(const Scales&) = delete;
  const void* alpha() const { return on_device_ ? device_ : host_; }
  const void* beta() const { return static_cast<const char*>(alpha()) + 8; }

 private:
  bool on_device_;
  char host_[16] = {};
  void* device_ = nullptr;
};

template <class T>
void set(cublasLtMatmulDescOpaque_t& desc, cublasLtMatmulDescAttributes_t attribute, T value) {
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value)),
            CUBLAS_STATUS_SUCCESS);
}

cublasLtMatmulDescOpaque_t desc_of(const ProductCase& p, void* bias, void* aux) {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatmulDescInit(&desc, p.compute, p.out == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
  set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE,
      p.scales_on_device ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST);
  if (has(p, CUBLASLT_EPILOGUE_BIAS)) set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (has(p, 128)) {
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_ld(p));
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, aux_ld(p) * p.n);
  }
  return desc;
}

/// Asks for an algorithm, and runs it.
void run(const ProductCase& p, cublasLtMatmulDescOpaque_t& desc, DeviceMatrices& a,
         DeviceMatrices& b, DeviceMatrices& c, DeviceMatrices& d) {
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulPreferenceInit(&preference);
  const std::uint64_t workspace_bytes = 4 << 20;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace_bytes, sizeof(workspace_bytes));
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, &desc, a.layout(), b.layout(), c.layout(),
                                           d.layout(), &preference, 1, &result, &found),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(found, 1);
  void* workspace = nullptr;
  cudaMalloc(&workspace, result.workspaceSize);
  const Scales scales(p);
  EXPECT_EQ(cublasLtMatmul(handle, &desc, scales.alpha(), a.data(), a.layout(), b.data(),
                           b.layout(), scales.beta(), c.data(), c.layout(), d.data(), d.layout(),
                           &result.algo, workspace, result.workspaceSize, nullptr),
            CUBLAS_STATUS_SUCCESS);
  cudaFree(workspace);
  cublasLtDestroy(handle);
}

void expect_results(const ProductCase& p, const DeviceMatrices& d,
                    const std::vector<double>& inputs) {
  std::vector<char> contents = d.contents();
  std::size_t i = 0;
  for (int batch = 0; batch < p.batches; ++batch) {
    for (int row = 0; row < p.m; ++row) {
      for (int col = 0; col < p.n; ++col, ++i) {
        char* place = contents.data() + d.offset(batch, row, col);
        const double expected = activated(p, inputs[i]);
        EXPECT_NEAR(load(p.out, place), expected, tolerance(p, expected))
            << "batch " << batch << ", row " << row << ", column " << col;
        std::memset(place, 0xcb, bytes_of(p.out));
      }
    }
  }
  EXPECT_EQ(contents, std::vector<char>(contents.size(), static_cast<char>(0xcb)))
      << "something beside D was written";
}

void expect_kept(const ProductCase& p, const std::vector<char>& aux,
                 const std::vector<double>& inputs) {
  std::size_t i = 0;
  for (int batch = 0; batch < p.batches; ++batch) {
    for (int row = 0; row < p.m; ++row) {
      for (int col = 0; col < p.n; ++col, ++i) {
        const auto place = static_cast<std::size_t>((batch * p.n + col) * aux_ld(p) + row);
        if (has(p, CUBLASLT_EPILOGUE_RELU)) {
          EXPECT_EQ((aux[place / 8] >> (place % 8)) & 1, inputs[i] > 0);
        } else {
          EXPECT_NEAR(load(p.out, aux.data() + place * bytes_of(p.out)), inputs[i],
                      tolerance(p, inputs[i]));
        }
      }
    }
  }
}

}  // namespace

void expect_product(const ProductCase& p) {
  std::mt19937 random(7);
  DeviceMatrices a(p.in, p.m, p.k, p.batches, p.a);
  DeviceMatrices b(p.in, p.k, p.n, p.batches, p.b);
  DeviceMatrices c(p.out, p.m, p.n, p.batches, p.d);
  DeviceMatrices d(p.out, p.m, p.n, p.batches, p.d);
  DeviceMatrices bias(p.out, p.m, 1, 1, {});
  DeviceMatrices aux(p.out, static_cast<int>(aux_ld(p)), p.n, p.batches, {});
  if (p.one_b) b.set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0});

  const auto a_values = a.fill(random, p.m, p.k, p.batches);
  const auto b_values = b.fill(random, p.k, p.n, p.one_b ? 1 : p.batches);
  DeviceMatrices& old = p.in_place ? d : c;
  std::vector<double> c_values, bias_values;
  if (p.beta != 0) c_values = old.fill(random, p.m, p.n, p.batches);
  if (has(p, CUBLASLT_EPILOGUE_BIAS)) bias_values = bias.fill(random, p.m, 1, 1);

  auto desc = desc_of(p, bias.data(), aux.data());
  run(p, desc, a, b, old, d);
  const auto inputs = reference(p, a_values, b_values, c_values, bias_values);
  expect_results(p, d, inputs);
  if (has(p, 128)) expect_kept(p, aux.contents(), inputs);
}

}  // namespace mobius::gpuless_test
