// The memory that a run needs, and the memory that there is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "data/task.h"
#include "train/config/config.h"

namespace mobius {

/// Returns the bytes that a process can still take: the lesser of what the machine has available
/// and what the control groups leave, and the free swap. Returns nothing if the system does not
/// say. `root` contains /proc and /sys.
std::optional<double> available_memory(const std::filesystem::path& root = "/");

/// The things that are made of a configuration.
enum class MemoryUse {
  model,       ///< parameters and buffers
  experiment,  ///< and the optimiser's state
  training     ///< and gradients, batches, and what is kept for the backward pass
};

/// A part of the memory, with the keys that determine its size.
struct MemoryPart {
  std::string what;
  double bytes = 0;
};

/// Estimates what a rank of `ranks` needs at least, by part. The sum never exceeds what is taken
/// and, for runs of more than some megabytes, is close to it.
std::vector<MemoryPart> memory_need(const Config& config, const TaskSize& task, MemoryUse use,
                                    int ranks = 1);
double total_bytes(const std::vector<MemoryPart>& parts);

/// Throws ConfigError that lists the largest parts if the need exceeds the available memory, which
/// is that of `place`, if one is named.
void require_memory(const std::vector<MemoryPart>& need, const std::optional<double>& available,
                    const std::string& place = "");
/// The same for the memory of a device, its own or the machine's.
void require_memory(const std::vector<MemoryPart>& need, const Device& device);

}  // namespace mobius
