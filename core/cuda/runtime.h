// The CUDA runtime as the kernels' host code sees it: the current device, its stream, errors that
// name what failed, and copies between host and device.
//
// All kernels of a device are queued on one stream, in the order of the calls: they and the memory
// that is freed behind them need no other order. The host waits only in download() and
// synchronize(), and in upload() when very much of what it copied is not yet on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "core/device.h"

namespace mobius::cuda {

/// Throws Error unless status is cudaSuccess. The message names `what` failed, on which device, and
/// what the user can do where that is known.
void check(cudaError_t status, std::string_view what);

/// What a user can do about an error, or else what it is; empty if there is none. Clears it.
std::string problem_of(cudaError_t status);
/// "13.0"; that of the driver is empty where there is none.
std::string runtime_version();
std::string driver_version();

/// The GPUs that this process may use. Throws Error if there is none, with the reason.
int device_count();
/// Makes a device current for the calling thread. Errors name `family` from now on.
void make_current(Device device, std::string_view family);

/// The index of the current device.
int current_device();
/// The stream of the current device, on which every kernel and copy is queued.
cudaStream_t stream();
/// Multiprocessors of the current device.
int multiprocessors();

/// Queues a copy of host memory, which may change as soon as the call returns.
void upload(const void* host, void* device, std::size_t bytes);
/// Copies device memory to the host, and waits for what was queued before.
void download(const void* device, void* host, std::size_t bytes);
/// Waits for everything that was queued on the current device.
void synchronize();

}  // namespace mobius::cuda
