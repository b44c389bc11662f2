// What a run needs of memory, told before it is taken, and what there is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/task.h"
#include "train/config/config.h"

namespace mobius {

/// Bytes that a process can still take: what the machine has available, or what the control groups
/// that it is in leave, whichever is less, and the free swap. Nothing where the system does not
/// say. `root` is where /proc and /sys lie.
std::optional<double> available_memory(const std::filesystem::path& root = "/");

/// What is made of a configuration.
enum class MemoryUse {
  model,       ///< parameters and buffers
  experiment,  ///< and the optimiser's state
  training     ///< and gradients, batches, and what is kept for the backward pass
};

/// A part of the memory, with the keys that make it as large as it is.
struct MemoryPart {
  std::string what;
  double bytes = 0;
};

/// What this rank of `ranks` needs at least, in bytes, by part: the sum is never above what is
/// taken and, for runs of more than some megabytes, not far below it.
std::vector<MemoryPart> memory_need(const Config& config, const TaskSize& task, MemoryUse use,
                                    int ranks = 1);
double total_bytes(const std::vector<MemoryPart>& parts);

/// Throws ConfigError that says what would be needed and available, and for what, where the need is
/// more than there is.
void require_memory(const std::vector<MemoryPart>& need,
                    const std::optional<double>& available = available_memory());

}  // namespace mobius
