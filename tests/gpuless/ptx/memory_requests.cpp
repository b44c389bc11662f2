#include "tests/gpuless/ptx/memory_requests.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/memory_path.h"

namespace mobius::ptx {

namespace {

template <typename T>
std::uint64_t extended(const unsigned char* bytes, bool is_signed) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  if (!is_signed) return value;
  return static_cast<std::uint64_t>(
      static_cast<std::int64_t>(static_cast<std::make_signed_t<T>>(value)));
}

std::uint64_t element(const unsigned char* bytes, std::uint32_t size, bool is_signed) {
  switch (size) {
    case 1:
      return extended<std::uint8_t>(bytes, is_signed);
    case 2:
      return extended<std::uint16_t>(bytes, is_signed);
    case 4:
      return extended<std::uint32_t>(bytes, is_signed);
    default:
      return extended<std::uint64_t>(bytes, is_signed);
  }
}

void put(Warp& warp, std::uint32_t place, std::uint32_t size, int lane, std::uint64_t value) {
  switch (size) {
    case 2:
      warp.lanes_of<std::uint16_t>(place)[lane] = static_cast<std::uint16_t>(value);
      return;
    case 4:
      warp.lanes_of<std::uint32_t>(place)[lane] = static_cast<std::uint32_t>(value);
      return;
    default:
      warp.lanes_of<std::uint64_t>(place)[lane] = value;
  }
}

std::uint64_t get(Warp& warp, std::uint32_t place, std::uint32_t size, int lane) {
  switch (size) {
    case 2:
      return warp.lanes_of<std::uint16_t>(place)[lane];
    case 4:
      return warp.lanes_of<std::uint32_t>(place)[lane];
    default:
      return warp.lanes_of<std::uint64_t>(place)[lane];
  }
}

template <typename T>
void deliver_run(Warp& warp, const Instruction& instruction, Stretch run,
                 const unsigned char* bytes) {
  const std::uint32_t* const places = warp.operands(instruction);
  if (instruction.count == 1) {
    std::memcpy(warp.lanes_of<T>(places[0]) + run.first, bytes,
                static_cast<std::size_t>(run.count) * sizeof(T));
    return;
  }
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    T* const to = warp.lanes_of<T>(places[i]) + run.first;
    for (int lane = 0; lane < run.count; ++lane) {
      std::memcpy(to + lane,
                  bytes + (static_cast<std::uint32_t>(lane) * instruction.count + i) * sizeof(T),
                  sizeof(T));
    }
  }
}

template <typename T>
void collect_run(Warp& warp, const Instruction& instruction, Stretch run, unsigned char* bytes) {
  const std::uint32_t* const places = warp.operands(instruction);
  if (instruction.count == 1) {
    std::memcpy(bytes, warp.lanes_of<T>(places[0]) + run.first,
                static_cast<std::size_t>(run.count) * sizeof(T));
    return;
  }
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    const T* const from = warp.lanes_of<T>(places[i]) + run.first;
    for (int lane = 0; lane < run.count; ++lane) {
      std::memcpy(bytes + (static_cast<std::uint32_t>(lane) * instruction.count + i) * sizeof(T),
                  from + lane, sizeof(T));
    }
  }
}

template <typename T>
void spread(Warp& warp, const Instruction& instruction, Stretch run, const unsigned char* bytes) {
  const std::uint32_t* const places = warp.operands(instruction);
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    T value;
    std::memcpy(&value, bytes + sizeof(T) * i, sizeof value);
    std::fill_n(warp.lanes_of<T>(places[i]) + run.first, run.count, value);
  }
}

void deliver_same(Warp& warp, const Instruction& instruction, Stretch run,
                  const unsigned char* bytes) {
  if (instruction.b == instruction.c) {
    if (instruction.b == 4) return spread<std::uint32_t>(warp, instruction, run, bytes);
    if (instruction.b == 8) return spread<std::uint64_t>(warp, instruction, run, bytes);
  }
  for (int lane = 0; lane < run.count; ++lane) deliver(warp, instruction, run.first + lane, bytes);
}

}  // namespace

void compute_addresses(Warp& warp, const Instruction& instruction, Addresses& addresses) {
  const auto offset = static_cast<std::uint64_t>(instruction.immediate);
  if ((instruction.flags & kNarrowBase) != 0) {
    const std::uint32_t* const base = warp.lanes_of<std::uint32_t>(instruction.a);
    // Addresses of 32 bits wrap.
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      addresses[lane] = static_cast<std::uint32_t>(base[lane] + static_cast<std::uint32_t>(offset));
    }
  } else {
    const std::uint64_t* const base = warp.lanes_of<std::uint64_t>(instruction.a);
    for (std::size_t lane = 0; lane < kLanes; ++lane) addresses[lane] = base[lane] + offset;
  }
}

Stretch find_stretch(const Addresses& addresses, LaneMask active, std::uint32_t bytes) {
  const int first = std::countr_zero(active);
  const int count = std::popcount(active);
  if ((active >> first) != (count == kLanes ? kAllLanes : (LaneMask{1} << count) - 1)) return {};
  const std::uint64_t start = addresses[static_cast<std::size_t>(first)];
  std::uint64_t difference = 0;
  for (int i = 0; i < count; ++i) {
    difference |= addresses[static_cast<std::size_t>(first + i)] ^
                  (start + static_cast<std::uint64_t>(i) * bytes);
  }
  if (difference != 0) return {};
  return {first, count, false};
}

Stretch take_stretch(const Addresses& addresses, LaneMask& lanes, std::uint32_t bytes) {
  const int first = std::countr_zero(lanes);
  const auto address = [&](int lane) { return addresses[static_cast<std::size_t>(lane)]; };
  const auto is_active = [&](int lane) { return lane < kLanes && (lanes >> lane & 1) != 0; };
  int count = 1;
  const bool is_same = is_active(first + 1) && address(first + 1) == address(first);
  const std::uint64_t step = is_same ? 0 : bytes;
  while (is_active(first + count) && address(first + count) == address(first + count - 1) + step)
    ++count;
  lanes &= ~((count == kLanes ? kAllLanes : (LaneMask{1} << count) - 1) << first);
  return {first, count, is_same};
}

bool is_uniform(const Addresses& addresses, LaneMask active) {
  const std::uint64_t first = addresses[static_cast<std::size_t>(std::countr_zero(active))];
  std::uint64_t difference = 0;
  if (active == kAllLanes) {
    for (const std::uint64_t address : addresses) difference |= address ^ first;
    return difference == 0;
  }
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    difference |= addresses[static_cast<std::size_t>(std::countr_zero(rest))] ^ first;
  }
  return difference == 0;
}

void deliver(Warp& warp, const Instruction& instruction, int lane, const unsigned char* bytes) {
  const std::uint32_t* const places = warp.operands(instruction);
  const bool is_signed = (instruction.flags & kSignExtend) != 0;
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    put(warp, places[i], instruction.c, lane,
        element(bytes + i * instruction.b, instruction.b, is_signed));
  }
}

void collect(Warp& warp, const Instruction& instruction, int lane, unsigned char* bytes) {
  const std::uint32_t* const places = warp.operands(instruction);
  for (std::uint32_t i = 0; i < instruction.count; ++i) {
    const std::uint64_t value = get(warp, places[i], instruction.c, lane);
    std::memcpy(bytes + i * instruction.b, &value, instruction.b);
  }
}

void deliver(Warp& warp, const Instruction& instruction, Stretch run, const unsigned char* bytes) {
  if (run.is_same) return deliver_same(warp, instruction, run, bytes);
  if (instruction.b == instruction.c) {
    if (instruction.b == 4) return deliver_run<std::uint32_t>(warp, instruction, run, bytes);
    if (instruction.b == 2) return deliver_run<std::uint16_t>(warp, instruction, run, bytes);
    if (instruction.b == 8) return deliver_run<std::uint64_t>(warp, instruction, run, bytes);
  }
  for (int lane = 0; lane < run.count; ++lane) {
    deliver(warp, instruction, run.first + lane,
            bytes + static_cast<std::uint32_t>(lane) * bytes_of(instruction));
  }
}

void collect(Warp& warp, const Instruction& instruction, Stretch run, unsigned char* bytes) {
  if (instruction.b == instruction.c) {
    if (instruction.b == 4) return collect_run<std::uint32_t>(warp, instruction, run, bytes);
    if (instruction.b == 2) return collect_run<std::uint16_t>(warp, instruction, run, bytes);
    if (instruction.b == 8) return collect_run<std::uint64_t>(warp, instruction, run, bytes);
  }
  for (int lane = 0; lane < run.count; ++lane) {
    collect(warp, instruction, run.first + lane,
            bytes + static_cast<std::uint32_t>(lane) * bytes_of(instruction));
  }
}

}  // namespace mobius::ptx
