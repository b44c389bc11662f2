#include "tests/guarded/guarded_device.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "core/backend.h"
#include "core/error.h"
#include "core/ops/copy.h"

namespace mobius::testing {
namespace {

// Address space alone: pages come with their first use.
constexpr std::size_t arena_bytes = std::size_t{64} << 30;
// The arena is opened and closed up to a multiple of this, the size of a huge page.
constexpr std::size_t opening_step = std::size_t{2} << 20;

// A range of addresses that is handed out from its beginning and never taken back. The part in use
// is readable and writable while at least one kernel runs.
class Arena {
 public:
  Arena() {
    void* const start = mmap(nullptr, arena_bytes + opening_step, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) throw Error("guarded device: no {} bytes of addresses", arena_bytes);
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(start) % opening_step;
    start_ = static_cast<std::byte*>(start) + (opening_step - beyond) % opening_step;
    // Opening and closing takes time for every page: with 4 KiB ones, tests ran 20 times as long.
    madvise(start_, arena_bytes, MADV_HUGEPAGE);
  }

  // nullptr when the arena is used up.
  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > arena_bytes - used_) return nullptr;
    void* const block = start_ + used_;
    used_ += bytes;
    if (running_ > 0) open();
    return block;
  }

  void begin_kernel() {
    const std::lock_guard lock(mutex_);
    if (running_++ == 0) open();
  }

  void end_kernel() {
    const std::lock_guard lock(mutex_);
    if (--running_ > 0) return;
    protect(opened_, PROT_NONE);
    opened_ = 0;
  }

  bool contains(const void* address) const {
    return address >= start_ && address < start_ + arena_bytes;
  }

 private:
  void open() {
    if (used_ <= opened_) return;
    opened_ = (used_ + opening_step - 1) / opening_step * opening_step;
    protect(opened_, PROT_READ | PROT_WRITE);
  }

  void protect(std::size_t bytes, int access) {
    if (bytes != 0 && mprotect(start_, bytes, access) != 0) std::abort();
  }

  std::mutex mutex_;
  std::byte* start_ = nullptr;
  std::size_t used_ = 0, opened_ = 0;
  int running_ = 0;
};

class GuardedAllocator final : public CachingAllocator {
 public:
  Arena arena;

  // The size of the block that holds the address, 0 where none does. For the handler of a crash: it
  // takes no lock.
  std::size_t size_around(const void* address) const {
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return 0;
    const auto& [block, bytes] = *std::prev(after);
    return address < static_cast<const std::byte*>(block) + bytes ? bytes : 0;
  }

 protected:
  void* system_allocate(std::size_t bytes) override { return arena.allocate(bytes); }
  void system_deallocate(void* block, std::size_t bytes) noexcept override {
    // Whole pages of the block go back to the system, its addresses do not.
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    const std::uintptr_t first = (address + page - 1) / page * page;
    const std::uintptr_t last = (address + bytes) / page * page;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }

  void mark_usable(void* block, std::size_t used, std::size_t /*capacity*/) noexcept override {
    if (used == 0)
      blocks_.erase(block);
    else
      blocks_[block] = used;
  }

 private:
  std::map<const void*, std::size_t> blocks_;  // in use; behind the lock of Allocator
};

// The CPU's, counted.
class GuardedCopy final : public CopyKernels {
 public:
  explicit GuardedCopy(const Arena& arena) : arena_(arena) {}

  void copy(const Tensor& source, const Tensor& out) override { cpu().copy(source, out); }
  void fill(const Tensor& out, double value) override { cpu().fill(out, value); }
  void arange(const Tensor& out) override { cpu().arange(out); }

  void copy_to_host(const Tensor& source, void* host) override {
    ++copies_to_host;
    require_host("copy_to_host", host);
    cpu().copy_to_host(source, host);
  }

  void copy_from_host(const void* host, const Tensor& out) override {
    ++copies_from_host;
    require_host("copy_from_host", host);
    cpu().copy_from_host(host, out);
  }

  std::atomic<std::int64_t> copies_to_host = 0, copies_from_host = 0;

 private:
  static CopyKernels& cpu() { return *cpu_backend(0)->copy; }

  void require_host(std::string_view op, const void* address) const {
    if (arena_.contains(address)) throw Error("{}: {} is not host memory", op, address);
  }

  const Arena& arena_;
};

class GuardedDevice {
 public:
  GuardedAllocator allocator;
  GuardedCopy copy{allocator.arena};
  std::atomic<std::int64_t> kernels = 0;
  std::atomic<const char*> last_kernel = "none";
  Backend backend = make_backend();

 private:
  Backend make_backend();
};

// Never destroyed: a tensor of static lifetime may outlive everything that could own them.
std::array<GuardedDevice, 2>& guarded_devices() {
  static auto& devices = *new std::array<GuardedDevice, 2>;
  return devices;
}

GuardedDevice& at(Device device) {
  return guarded_devices().at(static_cast<std::size_t>(device.index));
}

void begin(Device device, std::string_view family) {
  GuardedDevice& guarded = at(device);
  ++guarded.kernels;
  guarded.last_kernel = family.data();
  guarded.allocator.arena.begin_kernel();
}

void end(Device device, bool /*kernel_threw*/) { at(device).allocator.arena.end_kernel(); }

Backend GuardedDevice::make_backend() {
  const Backend& cpu = *cpu_backend(0);
  return {.allocator = allocator,
          .has_bf16_products = cpu.has_bf16_products,
          .copy = &copy,
          .random = cpu.random,
          .elementwise = cpu.elementwise,
          .reduce = cpu.reduce,
          .matmul = cpu.matmul,
          .softmax = cpu.softmax,
          .attention = cpu.attention,
          .linear_attention = cpu.linear_attention,
          .norm = cpu.norm,
          .points = cpu.points,
          .ball = cpu.ball,
          .rope = cpu.rope,
          .rows = cpu.rows,
          .loss = cpu.loss,
          .special = cpu.special,
          .decomposition = cpu.decomposition,
          .optimizer = cpu.optimizer,
          .begin = begin,
          .end = end};
}

// ---- the crash with a name

struct sigaction previous_action;

void describe_crash(int /*signal*/, siginfo_t* info, void* /*context*/) {
  for (int index = 0; GuardedDevice & guarded : guarded_devices()) {
    const Device device{DeviceType::test, index++};
    if (!guarded.allocator.arena.contains(info->si_addr)) continue;
    std::array<char, 256> text;
    const auto written = fmt::format_to_n(
        text.data(), text.size(),
        "host dereferenced device memory at {}, in a block of {} bytes on {}; last kernel: {}\n",
        fmt::ptr(info->si_addr), guarded.allocator.size_around(info->si_addr),
        device.index == 0 ? "test" : "test:1", guarded.last_kernel.load());
    if (write(STDERR_FILENO, text.data(), std::min(written.size, text.size())) < 0) break;
  }
  sigaction(SIGSEGV, &previous_action, nullptr);  // which ends the program at the next attempt
}

void install_crash_handler() {
  struct sigaction action = {};
  action.sa_sigaction = describe_crash;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace

GuardedCounts guarded_counts(Device device) {
  const GuardedDevice& guarded = at(device);
  return {guarded.kernels, guarded.copy.copies_to_host, guarded.copy.copies_from_host};
}

void reset_guarded_counts(Device device) {
  GuardedDevice& guarded = at(device);
  guarded.kernels = guarded.copy.copies_to_host = guarded.copy.copies_from_host = 0;
}

}  // namespace mobius::testing

namespace mobius {

Backend* test_backend(int index) {
  static const bool installed = (testing::install_crash_handler(), true);
  auto& devices = testing::guarded_devices();
  const bool exists = installed && index >= 0 && static_cast<std::size_t>(index) < devices.size();
  return exists ? &devices[static_cast<std::size_t>(index)].backend : nullptr;
}

}  // namespace mobius
