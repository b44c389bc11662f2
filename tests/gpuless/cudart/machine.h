// All that the imitated devices are, and the frame of every call of the runtime.
//
// One lock guards everything. Faults of kernels, and what the program does wrong that a device
// would not notice or survive, end in Machine::fail(): a message, and the same error from every
// later call, as the real runtime does it; or the end of the process.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>

#include "tests/gpuless/cudart/allocations.h"
#include "tests/gpuless/cudart/counters.h"
#include "tests/gpuless/cudart/handles.h"
#include "tests/gpuless/cudart/registry.h"
#include "tests/gpuless/cudart/scheduler.h"
#include "tests/gpuless/ptx/device_memory.h"

namespace mobius::gpuless {

/// What only a wrong program asks for: a double free, a stale handle, a copy in the wrong
/// direction.
struct Misuse : std::runtime_error {
  Misuse(cudaError_t error, const std::string& message)
      : std::runtime_error(message), code(error) {}
  cudaError_t code;
};

class Machine {
 public:
  /// Never destroyed: the program's own start and end may call in any order.
  static Machine& get();

  std::mutex mutex;
  Scheduler scheduler;
  HandleTable<cudaStream_t, Stream> streams;
  HandleTable<cudaEvent_t, Event> events;
  ptx::DeviceMemory memory;  // of all devices
  Allocations allocations;
  Registry registry{memory};
  Counters counters;

  /// What every call returns since a fault, or success.
  cudaError_t sticky_error() const { return sticky_; }
  void fail(const std::string& message, cudaError_t code);

  /// Throws Misuse for a stale handle. The null handle is the default stream of the current device.
  std::shared_ptr<Stream> stream(cudaStream_t handle);
  std::shared_ptr<Event> event(cudaEvent_t handle);

  /// Queues an operation whose faults are reported with its name and stream.
  void enqueue(const std::shared_ptr<Stream>& stream, Operation operation, Scheduler::Lock& lock);
  /// Counts a launch, unless the environment asks that the device be lost at this one.
  bool lost_at_this_launch();

  /// Waits as a call of the host, which is counted if there is something to wait for.
  void wait(const Point& point, Scheduler::Lock& lock);
  void wait_for_device(int device, Scheduler::Lock& lock);

 private:
  Machine();

  std::atomic<cudaError_t> sticky_{cudaSuccess};
  std::uint64_t launches_ = 0;
};

/// The device that the calling thread chose.
int current_device();
void set_current_device(int device);

/// The error that cudaGetLastError() of this thread returns next.
cudaError_t last_error();
void set_last_error(cudaError_t error);

/// Runs a function of the host that a stream holds: it must not call the runtime.
void run_host_function(cudaHostFn_t function, void* data);

using CallBody = std::function<cudaError_t(Machine&, Scheduler::Lock&)>;

/// The frame of a call that needs a device: takes the lock, reports faults, and remembers errors
/// for cudaGetLastError().
cudaError_t call(const char* name, const CallBody& body);

}  // namespace mobius::gpuless
