// Names and texts of errors, and the error that a thread saw last.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "tests/gpuless/cudart/machine.h"
#include "tests/gpuless/cudart/settings.h"

namespace mobius::gpuless {
namespace {

struct ErrorText {
  cudaError_t code;
  const char* name;
  const char* text;
};

// Those that these libraries return, in the words of the real one.
constexpr ErrorText error_texts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
};

const ErrorText* find(cudaError_t error) {
  const auto* found = std::ranges::find(error_texts, error, &ErrorText::code);
  return found == std::end(error_texts) ? nullptr : found;
}

}  // namespace
}  // namespace mobius::gpuless

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const auto* entry = mobius::gpuless::find(error);
  return entry ? entry->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* entry = mobius::gpuless::find(error);
  return entry ? entry->text : "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() {
  const auto sticky = mobius::gpuless::Machine::get().sticky_error();
  return sticky != cudaSuccess ? sticky : mobius::gpuless::last_error();
}

cudaError_t cudaGetLastError() {
  const auto error = cudaPeekAtLastError();
  mobius::gpuless::set_last_error(cudaSuccess);
  return error;
}

}  // extern "C"
