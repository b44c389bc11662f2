#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/kernel_runner.h"

namespace mobius::ptx {

inline KernelRunner kernels_of(const std::string& name) {
  return KernelRunner(std::string(GPULESS_KERNELS) + "/" + name + ".ptx");
}

/// Matches a message that names the kernel, an instruction, a block and a thread, and what
/// happened.
inline auto is_fault(const std::string& kernel, const std::string& what) {
  using testing::HasSubstr;
  return testing::AllOf(HasSubstr("kernel " + kernel), HasSubstr(what), HasSubstr("at `"),
                        HasSubstr("block ("), HasSubstr("thread ("));
}

/// Orders of warps and blocks under which a fault has to show.
inline constexpr std::uint64_t kSeeds = 4;

inline std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

}  // namespace mobius::ptx
