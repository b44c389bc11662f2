// The device that a process computes on.
#pragma once

#include <string>
#include <vector>

#include "core/device.h"
#include "core/gpus.h"
#include "train/config/config.h"

namespace mobius {

/// Returns the device that `option`, a value of train.device, stands for. Each rank of a machine
/// takes a GPU of its own; auto takes one where any can be used. Throws ConfigError where cuda
/// finds none, and where there are fewer than ranks.
Device device_for(const std::string& option, int local_rank, const GpuReport& gpus = find_gpus());
/// Returns the device of this process as it was launched.
Device device_of(const Config& config);

/// Lets the configuration of a checkpoint stand for any device, unless `overrides` name one: where
/// a model was trained does not matter to what uses it.
void allow_any_device(Config& config, const std::vector<std::string>& overrides = {});

/// "NVIDIA H200 (cuda:0)"; empty for the CPU.
std::string name_of_device(const Device& device);
/// On what the bits of results depend: the instruction set of a CPU, the kind of GPU.
std::string computed_by(const Device& device);
/// Why a configuration of device auto leaves a GPU unused that is there; empty if it does not.
std::string unused_gpu(const Config& config);

}  // namespace mobius
