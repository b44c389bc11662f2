#include "core/gpus.h"

#include <algorithm>

#include "core/cuda/runtime.h"
#include "core/error.h"

namespace mobius {
namespace {

Gpu describe_gpu(int index) {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index), "looking for GPUs");
  return {.index = index,
          .name = properties.name,
          .memory = properties.totalGlobalMem,
          .major = properties.major,
          .minor = properties.minor,
          .has_code = runs_code(MOBIUS_CUDA_CODE, properties.major, properties.minor)};
}

}  // namespace

GpuReport find_gpus() {
  GpuReport report{.code = MOBIUS_CUDA_CODE,
                   .runtime = cuda::runtime_version(),
                   .driver = cuda::driver_version(),
                   .gpus = {},
                   .problem = ""};
  int count = 0;
  report.problem = cuda::problem_of(cudaGetDeviceCount(&count));
  if (!report.problem.empty()) return report;
  for (int index = 0; index < count; ++index) report.gpus.push_back(describe_gpu(index));
  if (report.usable().empty()) {
    const Gpu& first = report.gpus.front();
    report.problem = fmt::format("this build has code for {}, but {} has compute capability {}.{}",
                                 MOBIUS_CUDA_CODE, first.name, first.major, first.minor);
  }
  return report;
}

}  // namespace mobius
