// Streams, events, and functions of the host in streams.
#include <cuda_runtime_api.h>

#include "tests/gpuless/cudart/machine.h"

using mobius::gpuless::call;
using mobius::gpuless::Event;
using mobius::gpuless::Machine;
using mobius::gpuless::Scheduler;
using Clock = std::chrono::steady_clock;
using Lock = Scheduler::Lock;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call(__func__, [&](Machine& machine, Lock&) {
    if (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) return cudaErrorInvalidValue;
    *stream = machine.streams.add(
        machine.scheduler.create(mobius::gpuless::current_device(), flags, priority));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock&) {
    machine.stream(stream);
    machine.streams.remove(stream);  // its work is still done
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    machine.wait(Scheduler::now(machine.stream(stream)), lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    machine.scheduler.run_some(lock);
    return machine.stream(stream)->idle() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *flags = machine.stream(stream)->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *priority = machine.stream(stream)->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  return call(__func__, [&](Machine& machine, Lock&) {
    *device = machine.stream(stream)->device;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call(__func__, [&](Machine& machine, Lock&) {
    machine.stream(stream);
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    const auto point = machine.event(event)->point;
    machine.enqueue(machine.stream(stream),
                    {.what = "wait for an event", .after = {point}, .run = [] {}}, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    if (!function) return cudaErrorInvalidValue;
    machine.enqueue(machine.stream(stream),
                    {.what = "function of the host",
                     .after = {},
                     .run = [=] { mobius::gpuless::run_host_function(function, data); },
                     .on_host = true},
                    lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call(__func__, [&](Machine& machine, Lock&) {
    constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming;
    if (flags & ~known) return cudaErrorInvalidValue;
    auto object = std::make_shared<Event>();
    object->device = mobius::gpuless::current_device();
    object->has_time = !(flags & cudaEventDisableTiming);
    *event = machine.events.add(std::move(object));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(__func__, [&](Machine& machine, Lock&) {
    machine.event(event);
    machine.events.remove(event);  // who waits for it still does
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    const auto object = machine.event(event);
    const auto queue = machine.stream(stream);
    if (object->device != queue->device)
      throw mobius::gpuless::Misuse(cudaErrorInvalidResourceHandle,
                                    "an event of device " + std::to_string(object->device) +
                                        " on a stream of device " + std::to_string(queue->device));
    const auto time = std::make_shared<Clock::time_point>();
    machine.enqueue(queue, {.what = "event", .after = {}, .run = [=] { *time = Clock::now(); }},
                    lock);
    object->recorded = true;
    object->point = Scheduler::now(queue);
    object->time = time;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    machine.scheduler.run_some(lock);
    return machine.event(event)->point.passed() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(__func__, [&](Machine& machine, Lock& lock) {
    const auto point = machine.event(event)->point;
    machine.wait(point, lock);
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call(__func__, [&](Machine& machine, Lock&) {
    const auto first = machine.event(start);
    const auto last = machine.event(end);
    if (!first->has_time || !last->has_time || !first->recorded || !last->recorded ||
        first->device != last->device)
      return cudaErrorInvalidResourceHandle;
    if (!first->point.passed() || !last->point.passed()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*last->time - *first->time).count();
    return cudaSuccess;
  });
}

}  // extern "C"
