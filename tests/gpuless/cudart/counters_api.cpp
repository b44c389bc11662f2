// What gpuless.h declares.
#include "tests/gpuless/cudart/gpuless.h"
#include "tests/gpuless/cudart/machine.h"

using mobius::gpuless::Machine;

extern "C" {

GpulessCounters gpuless_counters() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.counters.totals;
}

std::size_t gpuless_kernels(GpulessKernel* kernels, std::size_t capacity) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  return machine.counters.kernels(kernels, capacity);
}

void gpuless_reset_counters() {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.counters.reset();
}

void gpuless_set_seed(std::uint64_t seed) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  machine.scheduler.set_seed(seed);
}

}  // extern "C"
