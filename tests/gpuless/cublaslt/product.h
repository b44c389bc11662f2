// The products themselves, on the CPU.
#pragma once

#include "tests/gpuless/cublaslt/problem.h"
#include "tests/gpuless/ptx/device_memory.h"

namespace mobius::gpuless::lt {

/// Alpha and beta: numbers, or addresses of them on the device.
struct Scales {
  double alpha = 1;
  double beta = 0;
  std::uint64_t alpha_address = 0;
  std::uint64_t beta_address = 0;
};

/// Computes the product. Sums of f32 and bf16 operands are in f32, those of f64 in f64. Throws a
/// ptx::Fault for operands that are not in device memory, were never written, or that D overlaps.
void multiply(const Problem& problem, Scales scales, ptx::DeviceMemory& memory);

}  // namespace mobius::gpuless::lt
