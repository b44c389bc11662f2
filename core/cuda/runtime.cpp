#include "core/cuda/runtime.h"

#include <cstdlib>
#include <mutex>
#include <string>

#include "core/cuda/upload_ring.h"
#include "core/error.h"

namespace mobius::cuda {
namespace {

// ---- errors

// What the calling thread does on which device; empty and -1 before it does anything.
thread_local std::string_view current_family;
thread_local int current_index = -1;

std::string version_name(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string driver_advice() {
  const std::string driver = driver_version(), runtime = runtime_version();
  if (driver.empty()) {
    return fmt::format(
        "no NVIDIA driver is installed, or it is too old for CUDA {}; device: cpu trains without "
        "one",
        runtime);
  }
  return fmt::format(
      "the NVIDIA driver is too old: it has CUDA {}, and this build needs {}; update it, or train "
      "with device: cpu",
      driver, runtime);
}

std::string no_device_advice() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return "there is no NVIDIA GPU; device: cpu trains without one";
  return fmt::format("CUDA_VISIBLE_DEVICES='{}' leaves no NVIDIA GPU to this process", visible);
}

std::string no_code_advice() {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, std::max(current_index, 0)) != cudaSuccess)
    return "this build has no code for this GPU";
  return fmt::format("this build has no code for {} (sm_{}{}); MOBIUS_CUDA_CODE of CMake adds it",
                     properties.name, properties.major, properties.minor);
}

// Errors behind which a process can do nothing more with the device. They come from any kernel that
// was queued, and show at a later call.
std::string lost_advice(cudaError_t status) {
  return fmt::format(
      "{}; the device is lost to this run, which its last checkpoint continues (--resume auto). "
      "Kernels run later than they are queued, so an earlier one may have failed; with "
      "CUDA_LAUNCH_BLOCKING=1 the error names it",
      cudaGetErrorString(status));
}

std::string advice(cudaError_t status) {
  switch (status) {
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return driver_advice();
    case cudaErrorNoDevice:
      return no_device_advice();
    case cudaErrorMemoryAllocation:
      return "out of memory; another process may hold it (nvidia-smi lists them)";
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorUnsupportedPtxVersion:
      return no_code_advice();
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return lost_advice(status);
    default:
      return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  }
}

// ---- devices

// What is known of one device. Made at its first use, and never destroyed: tensors of static
// lifetime are freed on its stream.
struct DeviceState {
  std::once_flag made;
  cudaStream_t stream = nullptr;
  int multiprocessors = 0;
  UploadRing uploads;
};

DeviceState& make(DeviceState& state, int index) {
  std::call_once(state.made, [&] {
    check(cudaSetDevice(index), "first use");
    // Unlike the default stream, it waits for no other and makes no other wait.
    check(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking), "first use");
    check(cudaDeviceGetAttribute(&state.multiprocessors, cudaDevAttrMultiProcessorCount, index),
          "first use");
  });
  return state;
}

DeviceState& state_of(int index) {
  static DeviceState* const states = new DeviceState[static_cast<std::size_t>(device_count())];
  return make(states[index], index);
}

DeviceState& current() { return state_of(current_index); }

}  // namespace

std::string problem_of(cudaError_t status) {
  if (status == cudaSuccess) return "";
  cudaGetLastError();  // it is reported here, and must not be by the next launch
  return advice(status);
}

std::string runtime_version() {
  int version = 0;
  problem_of(cudaRuntimeGetVersion(&version));
  return version_name(version);
}

std::string driver_version() {
  int version = 0;
  problem_of(cudaDriverGetVersion(&version));
  return version_name(version);
}

void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  const std::string device =
      current_index < 0 ? "cuda" : to_string({DeviceType::cuda, current_index});
  const std::string_view separator = current_family.empty() ? "" : ": ";
  throw Error("device {}{}{}: {}: {}", device, separator, current_family, what, problem_of(status));
}

int device_count() {
  static const int count = [] {
    int n = 0;
    check(cudaGetDeviceCount(&n), "looking for GPUs");
    return n;
  }();
  return count;
}

void make_current(Device device, std::string_view family) {
  current_family = family;
  if (device.index == current_index) return;
  current_index = device.index;  // which errors name
  try {
    state_of(device.index);
    check(cudaSetDevice(device.index), "making it current");
  } catch (...) {
    current_index = -1;
    throw;
  }
}

int current_device() { return current_index; }
cudaStream_t stream() { return current().stream; }
int multiprocessors() { return current().multiprocessors; }

void upload(const void* host, void* device, std::size_t bytes) {
  current().uploads.upload(host, device, bytes, stream());
}

void download(const void* device, void* host, std::size_t bytes) {
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream()), "copy to host");
  synchronize();
}

void synchronize() { check(cudaStreamSynchronize(stream()), "waiting for the device"); }

}  // namespace mobius::cuda
