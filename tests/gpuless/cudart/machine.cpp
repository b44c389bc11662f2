#include "tests/gpuless/cudart/machine.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/gpuless/cudart/library.h"
#include "tests/gpuless/cudart/settings.h"
#include "tests/gpuless/ptx/fault.h"

namespace mobius::gpuless {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t error_of_thread = cudaSuccess;
thread_local bool in_host_function = false;

/// Runs `body`; what it throws becomes a failure of the machine. `where` begins the message.
void report_faults(Machine& machine, const std::string& where, const std::function<void()>& body) {
  try {
    body();
  } catch (const Misuse& misuse) {
    machine.fail(where + ": " + misuse.what(), misuse.code);
  } catch (const ptx::Fault& fault) {
    machine.fail(where + ": " + fault.what(), cudaErrorIllegalAddress);
  } catch (const std::exception& error) {
    machine.fail(where + ": " + error.what(), cudaErrorLaunchFailure);
  }
}

std::string name_of(const Stream& stream) {
  std::string name = stream.id == 0 ? "the default stream" : "stream " + std::to_string(stream.id);
  if (settings().devices > 1) name += " of device " + std::to_string(stream.device);
  return name;
}

/// At exit; the program's own ends have run by then.
[[gnu::destructor]] void write_report() {
  if (settings().report.empty()) return;
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.counters.write(settings().report);
}

}  // namespace

Machine::Machine() : allocations(settings().devices) { scheduler.set_seed(settings().seed); }

Machine& Machine::get() {
  static Machine* const machine = new Machine;
  return *machine;
}

void Machine::fail(const std::string& message, cudaError_t code) {
  std::fprintf(stderr, "gpuless: %s\n", message.c_str());
  std::fflush(stderr);
  if (settings().aborts) std::abort();
  auto none = cudaSuccess;
  sticky_.compare_exchange_strong(none, code);
  scheduler.drop_all();
}

std::shared_ptr<Stream> Machine::stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy)
    return scheduler.default_stream(current_device());
  if (handle == cudaStreamPerThread)
    throw Misuse(cudaErrorNotSupported, "cudaStreamPerThread is not imitated");
  auto result = streams.find(handle);
  if (!result)
    throw Misuse(cudaErrorInvalidResourceHandle, "not a stream, or one that was destroyed");
  return result;
}

std::shared_ptr<Event> Machine::event(cudaEvent_t handle) {
  auto result = events.find(handle);
  if (!result)
    throw Misuse(cudaErrorInvalidResourceHandle, "not an event, or one that was destroyed");
  return result;
}

void Machine::enqueue(const std::shared_ptr<Stream>& stream, Operation operation,
                      Scheduler::Lock& lock) {
  operation.run = [this, where = operation.what + " on " + name_of(*stream),
                   work = std::move(operation.run)] { report_faults(*this, where, work); };
  scheduler.enqueue(stream, std::move(operation), lock);
}

bool Machine::lost_at_this_launch() {
  const auto& limit = settings().lose_after;
  if (!limit || launches_++ < *limit) return false;
  auto none = cudaSuccess;
  if (sticky_.compare_exchange_strong(none, cudaErrorLaunchFailure))
    std::fprintf(stderr, "gpuless: the device is lost, as MOBIUS_GPULESS_LOSE_AFTER asks\n");
  scheduler.drop_all();
  return true;
}

void Machine::wait(const Point& point, Scheduler::Lock& lock) {
  if (!point.passed()) ++counters.totals.host_waits;
  scheduler.run_until(point, lock);
}

void Machine::wait_for_device(int device, Scheduler::Lock& lock) {
  if (!scheduler.idle(device)) ++counters.totals.host_waits;
  scheduler.run_all(device, lock);
  Pool& pool = allocations.pool(device);
  if (pool.reserved > pool.release_threshold) pool.trim(pool.release_threshold);
}

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }
cudaError_t last_error() { return error_of_thread; }
void set_last_error(cudaError_t error) { error_of_thread = error; }

void run_host_function(cudaHostFn_t function, void* data) {
  in_host_function = true;
  function(data);
  in_host_function = false;
}

cudaError_t call(const char* name, const CallBody& body) {
  Machine& machine = Machine::get();
  const auto finish = [](cudaError_t error) {
    if (error != cudaSuccess) set_last_error(error);
    return error;
  };
  if (in_host_function) {
    machine.fail(std::string(name) + ": called by a function that a stream runs on the host",
                 cudaErrorNotPermitted);
    return finish(cudaErrorNotPermitted);
  }
  if (settings().unavailable != cudaSuccess) return finish(settings().unavailable);

  Scheduler::Lock lock(machine.mutex);
  if (machine.sticky_error() != cudaSuccess) return finish(machine.sticky_error());
  cudaError_t result = cudaSuccess;
  report_faults(machine, name, [&] { result = body(machine, lock); });
  if (machine.sticky_error() != cudaSuccess) result = machine.sticky_error();
  return finish(result);
}

cudaError_t enqueue_library_call(cudaStream_t stream, std::string what,
                                 std::function<void(ptx::DeviceMemory&)> work) {
  return call("a library", [&](Machine& machine, Scheduler::Lock& lock) {
    const auto run = [&machine, work = std::move(work)] {
      if (machine.lost_at_this_launch()) return;
      ++machine.counters.totals.library_calls;
      work(machine.memory);
    };
    machine.enqueue(machine.stream(stream), {.what = std::move(what), .after = {}, .run = run},
                    lock);
    return cudaSuccess;
  });
}

}  // namespace mobius::gpuless
