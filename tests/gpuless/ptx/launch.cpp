#include "tests/gpuless/ptx/launch.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <thread>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/launch_scope.h"
#include "tests/gpuless/ptx/program.h"

namespace mobius::ptx {

namespace {

constexpr std::uint32_t kStaticSharedLimit = 48 * 1024;
constexpr std::uint32_t kSharedLimit = 227 * 1024;
constexpr std::uint32_t kDynamicAlignment = 128;
// Below this many threads in a launch, waking other threads costs more than they save.
constexpr std::uint64_t kSmallLaunch = 4096;

void check(const Kernel& kernel, const LaunchConfig& config) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) throw Fault("launch of kernel " + kernel.name + ": " + what);
  };
  const Dim3& grid = config.grid;
  const Dim3& block = config.block;
  require(grid.x > 0 && grid.y > 0 && grid.z > 0, "the grid is empty");
  require(grid.x <= 0x7FFFFFFF && grid.y <= 65535 && grid.z <= 65535, "the grid is too large");
  require(block.count() > 0, "the block is empty");
  require(block.x <= 1024 && block.y <= 1024 && block.z <= 64 && block.count() <= 1024,
          "a block has more than 1024 threads");
  require(block.count() <= kernel.max_threads, "a block has " + std::to_string(block.count()) +
                                                   " threads, the kernel allows " +
                                                   std::to_string(kernel.max_threads));
  require(kernel.static_shared_bytes <= kStaticSharedLimit,
          "more than 48 KiB of static shared memory");
  require(config.dynamic_shared_bytes <= config.dynamic_shared_limit,
          std::to_string(config.dynamic_shared_bytes) +
              " bytes of dynamic shared memory, and the limit was not raised " + "beyond " +
              std::to_string(config.dynamic_shared_limit));
  require(kernel.static_shared_bytes + config.dynamic_shared_bytes <= kSharedLimit,
          "more than 227 KiB of shared memory");
  require(config.parameters.size() == kernel.parameter_bytes,
          "got " + std::to_string(config.parameters.size()) +
              " bytes of parameters, the kernel takes " + std::to_string(kernel.parameter_bytes));
}

/// Hands out the numbers of blocks in an order that the seed chooses, and keeps the first
/// exception.
class BlockQueue {
 public:
  BlockQueue(LaunchState& launch, std::uint64_t count) : launch_(launch), count_(count) {
    std::minstd_rand random(static_cast<std::uint32_t>(launch.config.seed) + 1);
    start_ = random() % count;
    // A step without a common divisor visits every number once.
    stride_ = random() % count + 1;
    while (std::gcd(stride_, count) != 1) ++stride_;
  }

  /// Runs blocks until none is left.
  LaunchCounters work() {
    Block block(launch_);
    try {
      for (std::uint64_t i = next_++; i < count_ && !launch_.is_stopped; i = next_++) {
        block.run((start_ + i % count_ * stride_) % count_);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!launch_.is_stopped.exchange(true)) failure_ = std::current_exception();
    }
    return block.counters();
  }

  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  LaunchState& launch_;
  std::uint64_t count_;
  std::uint64_t start_ = 0;
  std::uint64_t stride_ = 1;
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

std::uint64_t thread_count(const LaunchConfig& config) {
  const std::uint64_t blocks = config.grid.count();
  if (config.threads == 0 && blocks * config.block.count() < kSmallLaunch) return 1;
  const std::uint64_t wanted = config.threads > 0 ? static_cast<std::uint64_t>(config.threads)
                                                  : std::thread::hardware_concurrency();
  return std::clamp<std::uint64_t>(wanted, 1, blocks);
}

}  // namespace

LaunchCounters launch(const Kernel& kernel, DeviceMemory& memory, const LaunchConfig& config) {
  check(kernel, config);
  const std::uint64_t blocks = config.grid.count();
  const LaunchScope scope(memory, blocks);
  const std::uint32_t dynamic_base =
      (kernel.static_shared_bytes + kDynamicAlignment - 1) / kDynamicAlignment * kDynamicAlignment;
  LaunchState state(kernel, memory, config, scope.tags());
  state.threads = static_cast<std::uint32_t>(config.block.count());
  state.dynamic_base = dynamic_base;
  state.shared_bytes = config.dynamic_shared_bytes == 0
                           ? kernel.static_shared_bytes
                           : dynamic_base + config.dynamic_shared_bytes;
  BlockQueue queue(state, blocks);
  std::mutex mutex;
  LaunchCounters sum;
  const auto work = [&] {
    const LaunchCounters counters = queue.work();
    const std::lock_guard lock(mutex);
    sum += counters;
  };
  std::vector<std::thread> helpers;
  for (std::uint64_t i = 1; i < thread_count(config); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  queue.rethrow();
  return sum;
}

}  // namespace mobius::ptx
