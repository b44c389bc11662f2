// Products of every type, order and epilogue, and what is refused.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <utility>

#include "tests/gpuless/cublaslt/product_case.h"
#include "tests/gpuless/cudart/gpuless.h"
#include "tests/gpuless/cudart/kernels.h"
#include "tests/gpuless/cudart/testing.h"

namespace mobius::gpuless_test {
namespace {
namespace products {

using ::testing::ElementsAre;

const std::vector<ProductCase> types = {
    {.in = CUDA_R_32F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F},
    {.in = CUDA_R_16BF, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F},
    {.in = CUDA_R_16BF, .out = CUDA_R_16BF, .compute = CUBLAS_COMPUTE_32F},
    {.in = CUDA_R_64F, .out = CUDA_R_64F, .compute = CUBLAS_COMPUTE_64F},
    {.in = CUDA_R_32F, .out = CUDA_R_32F, .compute = CUBLAS_COMPUTE_32F_FAST_TF32},
};

TEST(GpulessProducts, OfEveryTypeAndOrder) {
  for (ProductCase p : types) {
    for (int bits = 0; bits < 32; ++bits) {
      p.a = {.row_major = (bits & 1) != 0, .transposed = (bits & 2) != 0, .padding = 3};
      p.b = {.row_major = (bits & 4) != 0, .transposed = (bits & 8) != 0, .padding = 1};
      p.d = {.row_major = (bits & 16) != 0, .padding = 2};
      SCOPED_TRACE(::testing::Message()
                   << "types " << p.in << " to " << p.out << ", case " << bits);
      expect_product(p);
    }
  }
}

TEST(GpulessProducts, ScaleAndAdd) {
  for (ProductCase p : types) {
    SCOPED_TRACE(::testing::Message() << "types " << p.in << " to " << p.out);
    p.alpha = 0.5;
    expect_product(p);
    p.beta = -2;
    expect_product(p);
    p.in_place = true;
    expect_product(p);
    p.scales_on_device = true;
    p.d.row_major = true;
    expect_product(p);
  }
}

TEST(GpulessProducts, OfBatches) {
  for (ProductCase p : types) {
    SCOPED_TRACE(::testing::Message() << "types " << p.in << " to " << p.out);
    p.batches = 3;
    p.d.padding = 1;
    expect_product(p);
    p.one_b = true;
    p.beta = 1;
    expect_product(p);
  }
}

TEST(GpulessProducts, WithEveryEpilogue) {
  for (ProductCase p : types) {
    for (const auto epilogue :
         {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS,
          CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU,
          CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
          CUBLASLT_EPILOGUE_GELU_AUX_BIAS}) {
      SCOPED_TRACE(::testing::Message()
                   << "types " << p.in << " to " << p.out << ", epilogue " << epilogue);
      p.epilogue = epilogue;
      p.batches = 1;
      expect_product(p);
      p.batches = 2;
      p.beta = 1;
      expect_product(p);
      p.beta = 0;
    }
  }
}

TEST(GpulessProducts, OfSizesBeyondABlock) {
  for (ProductCase p : types) {
    SCOPED_TRACE(::testing::Message() << "types " << p.in << " to " << p.out);
    std::tie(p.m, p.n, p.k) = std::tuple(33, 20, 130);
    expect_product(p);
  }
}

TEST(GpulessProducts, RoundOperandsToTf32) {
  const float value = 1 + 1.f / 2048;  // half a unit of TF32's last place
  const DeviceArray<float> a(std::vector<float>{value}), b(std::vector<float>{1}), d(1);
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatrixLayoutOpaque_t one;
  cublasLtMatrixLayoutInit(&one, CUDA_R_32F, 1, 1, 1);
  const float alpha = 1, beta = 0;
  for (const auto& [compute, expected] :
       {std::pair(CUBLAS_COMPUTE_32F, value),
        std::pair(CUBLAS_COMPUTE_32F_FAST_TF32, 1 + 1.f / 1024)}) {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatmulDescInit(&desc, compute, CUDA_R_32F);
    EXPECT_EQ(cublasLtMatmul(handle, &desc, &alpha, a.data(), &one, b.data(), &one, &beta, d.data(),
                             &one, d.data(), &one, nullptr, nullptr, 0, nullptr),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_THAT(d.values(), ElementsAre(expected));
  }
  cublasLtDestroy(handle);
}

/// A product of 8 x 8 matrices, of which a test changes what it likes.
struct Square {
  Square() {
    cublasLtCreate(&handle);
    cublasLtMatmulDescInit(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    for (auto* layout : {&a_layout, &b_layout, &d_layout})
      cublasLtMatrixLayoutInit(layout, CUDA_R_32F, 8, 8, 8);
    cublasLtMatmulPreferenceInit(&preference);
  }
  ~Square() { cublasLtDestroy(handle); }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    cublasLtMatmulDescSetAttribute(&desc, attribute, &value, sizeof(value));
  }
  template <class T>
  void set(cublasLtMatrixLayoutOpaque_t& layout, cublasLtMatrixLayoutAttribute_t attribute,
           T value) {
    cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof(value));
  }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value));
  }

  cublasStatus_t ask() {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, &desc, &a_layout, &b_layout, &d_layout, &d_layout,
                                          &preference, 1, &result, &found);
  }
  cublasStatus_t run() {
    const float alpha = 1, beta = 0;
    return cublasLtMatmul(handle, &desc, &alpha, a, &a_layout, b, &b_layout, &beta, d, &d_layout, d,
                          &d_layout, asked ? &result.algo : nullptr, workspace, workspace_bytes,
                          nullptr);
  }

  DeviceArray<float> memory{std::vector<float>(256, 1)};
  const float* a = memory.data();
  const float* b = memory.data() + 64;
  float* d = memory.data() + 128;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool asked = false;  // whether the algorithm that was asked for is used
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a_layout, b_layout, d_layout;
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t result;
};

TEST(GpulessRefusals, OfShapes) {
  const auto status = [](auto change) {
    Square square;
    change(square);
    const auto answer = square.ask();
    EXPECT_EQ(square.run(), answer);
    return answer;
  };
  EXPECT_EQ(status([](Square&) {}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(
      status([](Square& s) { s.set(s.a_layout, CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{7}); }),
      CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      status([](Square& s) { s.set(s.b_layout, CUBLASLT_MATRIX_LAYOUT_ROWS, std::uint64_t{7}); }),
      CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      status([](Square& s) { s.set(s.d_layout, CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{7}); }),
      CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      status([](Square& s) { s.set(s.a_layout, CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{0}); }),
      CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status([](Square& s) { s.set(s.a_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status([](Square& s) {  // all batches would write the same D
              for (auto* layout : {&s.a_layout, &s.b_layout, &s.d_layout})
                s.set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2);
            }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status([](Square& s) {
              s.set(s.a_layout, CUBLASLT_MATRIX_LAYOUT_ORDER, int{CUBLASLT_ORDER_COL32});
            }),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(GpulessRefusals, OfTypes) {
  const auto status = [](cublasComputeType_t compute, cudaDataType scale, cudaDataType in,
                         cudaDataType out) {
    Square square;
    cublasLtMatmulDescInit(&square.desc, compute, scale);
    square.set(square.a_layout, CUBLASLT_MATRIX_LAYOUT_TYPE, in);
    square.set(square.b_layout, CUBLASLT_MATRIX_LAYOUT_TYPE, in);
    square.set(square.d_layout, CUBLASLT_MATRIX_LAYOUT_TYPE, out);
    return square.ask();
  };
  constexpr auto f32 = CUDA_R_32F, f64 = CUDA_R_64F, bf16 = CUDA_R_16BF;
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F, f32, bf16, bf16), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F, f32, f32, bf16), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F, f64, f32, f32), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F, f32, f64, f64), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_64F, f64, f64, f64), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status(CUBLAS_COMPUTE_64F, f64, f32, f32), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_64F, f32, f64, f64), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F_FAST_TF32, f32, bf16, f32), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_16F, f32, f32, f32), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLAS_COMPUTE_32F, f32, CUDA_R_16F, f32), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(GpulessRefusals, OfEpilogues) {
  const auto status = [](cublasLtEpilogue_t epilogue, auto change) {
    Square square;
    square.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    change(square);
    return square.run();
  };
  const auto bias = [](Square& s) {
    s.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, s.memory.data() + 192);
  };
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_BIAS, bias), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_BIAS, [](Square&) {}), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_BIAS,
                   [&](Square& s) {
                     bias(s);
                     s.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int{CUDA_R_16BF});
                   }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_RELU,
                   [](Square& s) {
                     s.set(s.d_layout, CUBLASLT_MATRIX_LAYOUT_ORDER, int{CUBLASLT_ORDER_ROW});
                   }),
            CUBLAS_STATUS_NOT_SUPPORTED);

  const auto aux = [](std::int64_t ld) {
    return [ld](Square& s) {
      s.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, s.memory.data() + 192);
      s.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    };
  };
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_GELU_AUX, aux(8)), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_GELU_AUX, aux(12)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_GELU_AUX, aux(0)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_RELU_AUX, aux(128)), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_RELU_AUX, aux(8)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(status(CUBLASLT_EPILOGUE_DGELU, aux(8)), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(GpulessRefusals, OfPointersThatTheHeuristicWasNotToldOf) {
  Square square;
  square.asked = true;
  ASSERT_EQ(square.ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(square.run(), CUBLAS_STATUS_SUCCESS);
  square.a += 4;  // 16 bytes
  EXPECT_EQ(square.run(), CUBLAS_STATUS_INVALID_VALUE);
  square.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{16});
  ASSERT_EQ(square.ask(), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(square.run(), CUBLAS_STATUS_SUCCESS);
  square.a = reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(square.a) + 2);
  EXPECT_EQ(square.run(), CUBLAS_STATUS_INVALID_VALUE);

  Square biased;
  biased.asked = true;
  biased.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  biased.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, biased.memory.data() + 192);
  ASSERT_EQ(biased.ask(), CUBLAS_STATUS_SUCCESS);
  biased.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, biased.memory.data() + 193);
  EXPECT_EQ(biased.run(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(GpulessRefusals, OfWorkspaces) {
  Square square;
  square.asked = true;
  square.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{512});
  ASSERT_EQ(square.ask(), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(square.result.workspaceSize, 512u);
  EXPECT_EQ(square.run(), CUBLAS_STATUS_INVALID_VALUE);
  const DeviceArray<char> workspace(1024);
  square.workspace = workspace.data();
  square.workspace_bytes = 511;
  EXPECT_EQ(square.run(), CUBLAS_STATUS_INVALID_VALUE);
  square.workspace_bytes = 512;
  EXPECT_EQ(square.run(), CUBLAS_STATUS_SUCCESS);
  square.workspace = workspace.data() + 128;
  EXPECT_EQ(square.run(), CUBLAS_STATUS_INVALID_VALUE);
}

TEST(GpulessRefusals, OfHandlesAndScales) {
  Square square;
  EXPECT_EQ(cublasLtDestroy(nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasLtMatmul(square.handle, &square.desc, nullptr, square.a, &square.a_layout,
                           square.b, &square.b_layout, nullptr, square.d, &square.d_layout,
                           square.d, &square.d_layout, nullptr, nullptr, 0, nullptr),
            CUBLAS_STATUS_INVALID_VALUE);
  square.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE_VECTOR);
  EXPECT_EQ(square.ask(), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(GpulessDescriptors, HaveTheSizesAndFirstValuesOfTheRealOnes) {
  cublasLtMatmulDesc_t desc = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  std::int64_t value = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, nullptr, 0,
                                           &bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(bytes, 8u);
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &value, 4, &bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(value, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &value, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, nullptr, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, nullptr, 0, nullptr),
      CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulDescDestroy(desc);

  cublasLtMatmulDescOpaque_t small;
  EXPECT_EQ(cublasLtMatmulDescInit_internal(&small, 8, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_ALLOC_FAILED);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceGetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                       &value, 4, &bytes);
  EXPECT_EQ(value, 256);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(GpulessProducts, RunInStreamOrder) {
  const TestStream stream;
  Square square;
  gpuless_reset_counters();
  fill(square.memory.data(), 128, 2, stream);
  const float alpha = 1, beta = 0;
  EXPECT_EQ(cublasLtMatmul(square.handle, &square.desc, &alpha, square.a, &square.a_layout,
                           square.b, &square.b_layout, &beta, square.d, &square.d_layout, square.d,
                           &square.d_layout, nullptr, nullptr, 0, stream),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(gpuless_counters().library_calls, 0u);  // it is only queued
  stream.synchronize();
  EXPECT_EQ(gpuless_counters().library_calls, 1u);
  EXPECT_EQ(square.memory.values()[128], 8 * 2 * 2);
}

class GpulessProductFaults : public ProcessTest {};

TEST_F(GpulessProductFaults, OperandsThatWereNeverWritten) {
  EXPECT_DEATH(
      {
        Square square;
        const DeviceArray<float> nothing(64);
        square.a = nothing.data();
        square.run();
        cudaDeviceSynchronize();
      },
      "gpuless: cublasLtMatmul 8 x 8 x 8 on the default stream: ");
}

TEST_F(GpulessProductFaults, OperandsThatAreTooSmall) {
  EXPECT_DEATH(
      {
        Square square;
        const DeviceArray<float> few(std::vector<float>(63, 1));
        square.b = few.data();
        square.run();
        cudaDeviceSynchronize();
      },
      "gpuless: cublasLtMatmul 8 x 8 x 8 on the default stream: ");
}

TEST_F(GpulessProductFaults, MemoryOfTheHost) {
  EXPECT_DEATH(
      {
        Square square;
        const std::vector<float> host(64, 1);
        square.a = host.data();
        square.run();
        cudaDeviceSynchronize();
      },
      "gpuless: cublasLtMatmul 8 x 8 x 8 on the default stream: ");
}

TEST_F(GpulessProductFaults, ResultsThatOverlapOperands) {
  EXPECT_DEATH(
      {
        Square square;
        square.d = square.memory.data() + 32;
        square.run();
        cudaDeviceSynchronize();
      },
      "gpuless: cublasLtMatmul 8 x 8 x 8 on the default stream: D overlaps A");
}

}  // namespace products
}  // namespace
}  // namespace mobius::gpuless_test
