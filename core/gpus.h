// The GPUs of this machine, as far as this build knows of GPUs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

struct Gpu {
  int index = 0;  // of its Device
  std::string name;
  std::size_t memory = 0;    // bytes
  int major = 0, minor = 0;  // of its compute capability
  bool has_code = false;     // whether this build can compute on it
};

struct GpuReport {
  std::string code;             // what this build has code for: "sm_80,compute_80"
  std::string runtime, driver;  // versions of CUDA: "13.0"; empty if there is none
  std::vector<Gpu> gpus;
  std::string problem;  // why this build can compute on none of them; else empty

  /// The GPUs that can be computed on.
  std::vector<Gpu> usable() const;
};

/// Looks for GPUs, without using any.
GpuReport find_gpus();

/// Whether a GPU of that compute capability runs code for `targets`, a list as nvcc takes it: sm_86
/// runs where the first number is 8 and the second at least 6, and compute_86 on all newer GPUs,
/// too.
bool runs_code(std::string_view targets, int major, int minor);

}  // namespace mobius
