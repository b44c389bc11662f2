#include "tests/gpuless/ptx/memory_path.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/block.h"

namespace mobius::ptx {

namespace {

std::string hexadecimal(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string bytes_of(std::uint32_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

std::string block_named(const LaunchState& launch, std::uint32_t tag) {
  if (tag == launch.tags.several) return "other blocks";
  const std::uint64_t number = tag - launch.tags.several - 1;
  const Dim3& grid = launch.config.grid;
  return "block (" + std::to_string(number % grid.x) + "," +
         std::to_string(number / grid.x % grid.y) + "," + std::to_string(number / grid.x / grid.y) +
         ")";
}

unsigned char* local_place(Warp& warp, const Instruction& instruction, int lane,
                           std::uint64_t offset, std::uint32_t bytes,
                           std::vector<unsigned char>& of, const char* verb) {
  check_alignment(warp, instruction, lane, offset, bytes);
  if (offset >= warp.local_used() || bytes > warp.local_used() - offset) {
    warp.fault(instruction, lane,
               std::string(verb) + " " + bytes_of(bytes) +
                   " of local memory out of bounds, at offset " +
                   std::to_string(static_cast<std::int64_t>(offset)) + " of " +
                   std::to_string(warp.local_used()));
  }
  return of.data() + static_cast<std::size_t>(lane) * warp.local().stride + offset;
}

}  // namespace

std::uint32_t shared_offset(std::uint64_t offset) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(offset, 0xFFFFFFFF));
}

Accessor accessor_of(const Warp& warp, int lane) { return {warp.thread_of(lane), warp.sync_epoch}; }

void check_alignment(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                     std::uint32_t bytes) {
  if ((address & (bytes - 1)) == 0) return;
  warp.fault(instruction, lane,
             "misaligned access of " + bytes_of(bytes) + " at " + hexadecimal(address) + ", " +
                 warp.block().launch().memory.describe(address));
}

void report(Warp& warp, const Instruction& instruction, int lane, const AccessFault& fault,
            std::uint32_t bytes, const char* verb) {
  const LaunchState& launch = warp.block().launch();
  const std::string place = launch.memory.describe(fault.address);
  const std::string what = std::string(verb) + " " + bytes_of(bytes);
  switch (fault.kind) {
    case AccessFault::Kind::unmapped:
      warp.fault(instruction, lane, what + " at " + hexadecimal(fault.address) + ", " + place);
    case AccessFault::Kind::uninitialised:
      warp.fault(instruction, lane, what + " of global memory that was never written: " + place);
    case AccessFault::Kind::read_after_write:
      warp.fault(instruction, lane,
                 "race: " + what + " that " + block_named(launch, fault.other) +
                     " wrote in this launch: " + place);
    case AccessFault::Kind::write_after_write:
      warp.fault(
          instruction, lane,
          "race: " + what + " that " + block_named(launch, fault.other) + " wrote too: " + place);
    default:
      warp.fault(instruction, lane,
                 "race: " + what + " that " + block_named(launch, fault.other) +
                     " read in this launch: " + place);
  }
}

void report(Warp& warp, const Instruction& instruction, int lane, const SharedFault& fault,
            std::uint32_t bytes, const char* verb) {
  const std::string what = std::string(verb) + " " + bytes_of(bytes) + " of shared memory";
  const std::string place = "offset " + std::to_string(fault.offset);
  const std::string other = "thread " + std::to_string(fault.other);
  switch (fault.kind) {
    case SharedFault::Kind::out_of_bounds:
      warp.fault(instruction, lane,
                 what + " out of bounds, at " + place + " of " +
                     std::to_string(warp.block().shared().bytes()));
    case SharedFault::Kind::uninitialised:
      warp.fault(instruction, lane, what + " that was never written, at " + place);
    case SharedFault::Kind::in_flight:
      warp.fault(instruction, lane,
                 what + " that cp.async of " + other + " still fills, at " + place);
    case SharedFault::Kind::read_after_write:
      warp.fault(instruction, lane,
                 "race: " + what + " that " + other + " wrote since the last barrier, at " + place);
    case SharedFault::Kind::write_after_write:
      warp.fault(
          instruction, lane,
          "race: " + what + " that " + other + " wrote too since the last barrier, at " + place);
    default:
      warp.fault(instruction, lane,
                 "race: " + what + " that " + other + " read since the last barrier, at " + place);
  }
}

void read_bytes(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                std::uint32_t bytes, void* value) {
  if (bytes == 0) return;
  AccessFault fault;
  const unsigned char* const place =
      warp.block().global().access<Access::read>(address, bytes, fault);
  if (place == nullptr) report(warp, instruction, lane, fault, bytes, "reads");
  std::memcpy(value, place, bytes);
}

std::uint32_t claim_shared(Warp& warp, const Instruction& instruction, int lane,
                           std::uint64_t offset, std::uint32_t bytes) {
  SharedFault fault;
  const std::uint32_t at = shared_offset(offset);
  if (!warp.block().shared().claim(at, bytes, accessor_of(warp, lane), fault)) {
    report(warp, instruction, lane, fault, bytes, "fills");
  }
  return at;
}

void read_global(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                 std::uint32_t bytes, void* value) {
  check_alignment(warp, instruction, lane, address, bytes);
  read_bytes(warp, instruction, lane, address, bytes, value);
}

void write_global(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                  std::uint32_t bytes, const void* value) {
  check_alignment(warp, instruction, lane, address, bytes);
  AccessFault fault;
  unsigned char* const place = warp.block().global().access<Access::write>(address, bytes, fault);
  if (place == nullptr) report(warp, instruction, lane, fault, bytes, "writes");
  std::memcpy(place, value, bytes);
}

unsigned char* atomic_global(Warp& warp, const Instruction& instruction, int lane,
                             std::uint64_t address, std::uint32_t bytes) {
  check_alignment(warp, instruction, lane, address, bytes);
  AccessFault fault;
  GlobalAccess& global = warp.block().global();
  global.order_at(address);
  unsigned char* const place = global.access<Access::atomic>(address, bytes, fault);
  if (place == nullptr) report(warp, instruction, lane, fault, bytes, "changes");
  return place;
}

void read_shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                 std::uint32_t bytes, void* value) {
  check_alignment(warp, instruction, lane, offset, bytes);
  SharedFault fault;
  SharedMemory& shared = warp.block().shared();
  const std::uint32_t at = shared_offset(offset);
  if (!shared.read(at, bytes, 1, accessor_of(warp, lane), fault))
    report(warp, instruction, lane, fault, bytes, "reads");
  std::memcpy(value, shared.data() + at, bytes);
}

void write_shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                  std::uint32_t bytes, const void* value) {
  check_alignment(warp, instruction, lane, offset, bytes);
  SharedFault fault;
  if (!warp.block().shared().write(shared_offset(offset), bytes, 1, accessor_of(warp, lane), value,
                                   fault)) {
    report(warp, instruction, lane, fault, bytes, "writes");
  }
}

unsigned char* atomic_shared(Warp& warp, const Instruction& instruction, int lane,
                             std::uint64_t offset, std::uint32_t bytes) {
  check_alignment(warp, instruction, lane, offset, bytes);
  SharedFault fault;
  SharedMemory& shared = warp.block().shared();
  if (!shared.atomic(shared_offset(offset), bytes, accessor_of(warp, lane), fault)) {
    report(warp, instruction, lane, fault, bytes, "changes");
  }
  return shared.data() + offset;
}

void read_local(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                std::uint32_t bytes, void* value) {
  Warp::Local& local = warp.local();
  const unsigned char* const place =
      local_place(warp, instruction, lane, offset, bytes, local.bytes, "reads");
  const unsigned char* const written = local.written.data() + (place - local.bytes.data());
  if (std::find(written, written + bytes, 0) != written + bytes) {
    warp.fault(instruction, lane,
               "reads local memory that was never written, at offset " + std::to_string(offset));
  }
  std::memcpy(value, place, bytes);
}

void write_local(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                 std::uint32_t bytes, const void* value) {
  Warp::Local& local = warp.local();
  unsigned char* const place =
      local_place(warp, instruction, lane, offset, bytes, local.bytes, "writes");
  std::memcpy(place, value, bytes);
  std::memset(local.written.data() + (place - local.bytes.data()), 1, bytes);
}

void read_parameter(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                    std::uint32_t bytes, void* value) {
  const auto& parameters = warp.block().launch().config.parameters;
  check_alignment(warp, instruction, lane, offset, bytes);
  if (offset > parameters.size() || bytes > parameters.size() - offset) {
    warp.fault(instruction, lane,
               "reads parameters out of bounds, at offset " + std::to_string(offset));
  }
  std::memcpy(value, parameters.data() + offset, bytes);
}

void read_generic(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                  std::uint32_t bytes, void* value) {
  if (is_in_window(address, Window::shared)) {
    read_shared(warp, instruction, lane, address - window_base(Window::shared), bytes, value);
  } else if (is_in_window(address, Window::local)) {
    read_local(warp, instruction, lane, address - window_base(Window::local), bytes, value);
  } else if (is_in_window(address, Window::parameter)) {
    read_parameter(warp, instruction, lane, address - window_base(Window::parameter), bytes, value);
  } else {
    read_global(warp, instruction, lane, address, bytes, value);
  }
}

void write_generic(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                   std::uint32_t bytes, const void* value) {
  if (is_in_window(address, Window::shared)) {
    write_shared(warp, instruction, lane, address - window_base(Window::shared), bytes, value);
  } else if (is_in_window(address, Window::local)) {
    write_local(warp, instruction, lane, address - window_base(Window::local), bytes, value);
  } else {
    write_global(warp, instruction, lane, address, bytes, value);
  }
}

std::uint64_t count_sectors(const std::uint64_t* addresses, LaneMask active) {
  std::array<std::uint64_t, kLanes> sectors;
  std::size_t count = 0;
  bool is_sorted = true;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    // Aligned accesses of up to 16 bytes lie in one sector.
    const std::uint64_t sector = addresses[std::countr_zero(rest)] / 32;
    if (count > 0 && sector == sectors[count - 1]) continue;
    is_sorted &= count == 0 || sector > sectors[count - 1];
    sectors[count++] = sector;
  }
  if (is_sorted) return count;
  std::sort(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count));
  return static_cast<std::uint64_t>(
      std::unique(sectors.begin(), sectors.begin() + static_cast<std::ptrdiff_t>(count)) -
      sectors.begin());
}

namespace {

// The lanes of one pass: the most distinct words that one bank has to give.
std::uint64_t passes(const std::uint64_t* offsets, LaneMask lanes, std::uint32_t bytes) {
  std::array<std::array<std::uint64_t, kLanes>, 32> words;
  std::array<std::uint8_t, 32> counts{};
  std::uint8_t most = 0;
  std::uint64_t last = ~std::uint64_t{0};
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    const std::uint64_t first = offsets[std::countr_zero(rest)] / 4;
    if (first == last) continue;
    last = first;
    const std::uint64_t end = first + std::max(bytes / 4, 1u);
    for (std::uint64_t word = first; word < end; ++word) {
      auto& bank = words[word % 32];
      std::uint8_t& count = counts[word % 32];
      if (std::find(bank.begin(), bank.begin() + count, word) != bank.begin() + count) continue;
      bank[count++] = word;
      most = std::max(most, count);
    }
  }
  return most;
}

}  // namespace

std::uint64_t count_wavefronts(const std::uint64_t* offsets, LaneMask active, std::uint32_t bytes) {
  // 8-byte accesses are served by half warps, 16-byte ones by quarters.
  const int lanes = bytes >= 16 ? 8 : bytes >= 8 ? 16 : 32;
  std::uint64_t sum = 0;
  for (int first = 0; first < kLanes; first += lanes) {
    const LaneMask part = lanes == 32 ? kAllLanes : ((LaneMask{1} << lanes) - 1) << first;
    sum += passes(offsets, active & part, bytes);
  }
  return sum;
}

}  // namespace mobius::ptx
