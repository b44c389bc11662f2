#pragma once

#include <cstdint>
#include <shared_mutex>

#include "tests/gpuless/ptx/device_memory.h"
#include "tests/gpuless/ptx/global_access.h"

namespace mobius::ptx {

/// Keeps allocations alive during a launch, and takes tags for its blocks.
class LaunchScope {
 public:
  LaunchScope(DeviceMemory& memory, std::uint64_t blocks);
  const LaunchTags& tags() const { return tags_; }

 private:
  std::shared_lock<std::shared_mutex> usage_;
  LaunchTags tags_;
};

}  // namespace mobius::ptx
