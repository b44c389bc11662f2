#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gpuless/ptx/global_access.h"
#include "tests/gpuless/ptx/launch.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/shared_memory.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

/// What all blocks of a launch have in common.
struct LaunchState {
  LaunchState(const Kernel& of, DeviceMemory& device, const LaunchConfig& with,
              const LaunchTags& own)
      : kernel(of), program(*of.program), memory(device), config(with), tags(own) {}

  const Kernel& kernel;
  const Program& program;
  DeviceMemory& memory;
  const LaunchConfig& config;
  LaunchTags tags;
  LaunchOrder order;
  std::uint32_t threads = 0;       // of a block
  std::uint32_t dynamic_base = 0;  // where dynamic shared memory starts
  std::uint32_t shared_bytes = 0;
  std::atomic<bool> is_stopped{false};
};

/// A block while it runs. One object runs many blocks, one after the other.
class Block {
 public:
  explicit Block(LaunchState& launch);

  /// Runs the block of this number to its end. Throws a Fault.
  void run(std::uint64_t number);

  LaunchState& launch() { return launch_; }
  const LaunchState& launch() const { return launch_; }
  const Dim3& id() const { return id_; }
  std::uint64_t number() const { return number_; }
  std::uint64_t serial() const { return serial_; }
  GlobalAccess& global() { return global_; }
  SharedMemory& shared() { return shared_; }
  LaunchCounters& counters() { return counters_; }
  /// Counts down to a fault, so that a kernel that never ends is found.
  std::uint64_t& branches_left() { return branches_left_; }

 private:
  struct Waiting {
    Warp* warp;
    Group* group;
  };
  void run_warps();
  bool release_barriers();
  bool release_barrier(std::uint32_t barrier, const std::vector<Waiting>& waiting);
  void reduce(const std::vector<Waiting>& waiting);
  void check_alignment(Warp& warp);
  [[noreturn]] void report_barrier();

  LaunchState& launch_;
  Dim3 id_;
  std::uint64_t number_ = 0;
  std::uint64_t serial_ = 0;
  GlobalAccess global_;
  SharedMemory shared_;
  LaunchCounters counters_;
  std::vector<std::unique_ptr<Warp>> warps_;
  std::vector<std::uint32_t> warp_order_;
  std::minstd_rand random_;
  std::array<std::uint32_t, 16> arrived_{};  // threads that bar.arrive announced
  std::uint64_t branches_left_ = 0;

 public:
  void arrive(std::uint32_t barrier, std::uint32_t threads) { arrived_.at(barrier) += threads; }
};

}  // namespace mobius::ptx
