#include "tests/gpuless/ptx/counters.h"

namespace mobius::ptx {

namespace {

GlobalTraffic& operator+=(GlobalTraffic& sum, const GlobalTraffic& other) {
  sum.requests += other.requests;
  sum.sectors += other.sectors;
  sum.bytes += other.bytes;
  return sum;
}

SharedTraffic& operator+=(SharedTraffic& sum, const SharedTraffic& other) {
  sum.requests += other.requests;
  sum.wavefronts += other.wavefronts;
  sum.ideal_wavefronts += other.ideal_wavefronts;
  return sum;
}

}  // namespace

std::uint64_t LaunchCounters::warp_instructions() const {
  std::uint64_t sum = 0;
  for (const InstructionCount& count : instructions) sum += count.warps;
  return sum;
}

std::uint64_t LaunchCounters::lane_instructions() const {
  std::uint64_t sum = 0;
  for (const InstructionCount& count : instructions) sum += count.lanes;
  return sum;
}

LaunchCounters& LaunchCounters::operator+=(const LaunchCounters& other) {
  for (std::size_t i = 0; i < kInstructionClasses; ++i) {
    instructions[i].warps += other.instructions[i].warps;
    instructions[i].lanes += other.instructions[i].lanes;
  }
  global_reads += other.global_reads;
  global_writes += other.global_writes;
  shared_reads += other.shared_reads;
  shared_writes += other.shared_writes;
  atomics += other.atomics;
  matrix_loads += other.matrix_loads;
  asynchronous_copies += other.asynchronous_copies;
  block_barriers += other.block_barriers;
  blocks += other.blocks;
  return *this;
}

}  // namespace mobius::ptx
