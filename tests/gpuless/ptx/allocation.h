#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/gpuless/ptx/device_memory.h"

namespace mobius::ptx {

// An address is bit 62, the index of the allocation from bit 35 on, and below it half of the
// index's range, so that small negative offsets keep the index, plus the offset in the allocation.
// The first indices are windows of their own.
inline constexpr int kIndexShift = 35;
inline constexpr std::uint64_t kMiddle = std::uint64_t{1} << (kIndexShift - 1);
inline constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kIndexShift) - 1;

/// Generic addresses of the spaces that are not global memory.
enum class Window : std::uint64_t { shared = 1, local = 2, function = 3, parameter = 4 };
inline constexpr std::uint64_t kFirstAllocation = 16;

constexpr std::uint64_t address_at(std::uint64_t index) {
  return DeviceMemory::kDeviceBit | index << kIndexShift | kMiddle;
}
constexpr std::uint64_t window_base(Window window) {
  return address_at(static_cast<std::uint64_t>(window));
}
/// The index of an address that carries the device bit.
constexpr std::uint64_t index_of(std::uint64_t address) {
  return (address & ~DeviceMemory::kDeviceBit) >> kIndexShift;
}
constexpr bool is_in_window(std::uint64_t address, Window window) {
  return address >> kIndexShift == window_base(window) >> kIndexShift;
}

/// Shadow state of one 4-byte word, as the last access left it: who wrote it, and which of its
/// bytes were ever written. Tags name a block of a launch; see GlobalAccess.
///   writer: tag from bit 9, bit 8 whether by atomics, bits 4-7 bytes written under that tag, bits
///   0-3 bytes initialised reader: tag from bit 9, bits 4-7 bytes read under that tag
inline constexpr int kTagShift = 9;
inline constexpr std::uint32_t kTags = 1u << (32 - kTagShift);
inline constexpr std::uint32_t kAtomicBit = 1u << 8;
inline constexpr std::uint32_t kTouchedShift = 4;
inline constexpr std::uint32_t kInitialised = 0xF;

struct Allocation {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::unique_ptr<unsigned char[]> data;
  std::unique_ptr<std::uint32_t[]> writer;
  std::unique_ptr<std::uint32_t[]> reader;
  std::string label;

  std::uint64_t words() const { return (bytes + 3) / 4; }
};

}  // namespace mobius::ptx
