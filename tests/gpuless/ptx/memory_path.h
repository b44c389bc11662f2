#pragma once

#include <cstdint>

#include "tests/gpuless/ptx/global_access.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/shared_memory.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

// Accesses of one lane, of 1 to 16 bytes, checked: bounds, alignment, initialisation and races.
// They throw a Fault.

void read_global(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                 std::uint32_t bytes, void* value);
void write_global(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                  std::uint32_t bytes, const void* value);
void read_shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                 std::uint32_t bytes, void* value);
void write_shared(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                  std::uint32_t bytes, const void* value);
void read_local(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                std::uint32_t bytes, void* value);
void write_local(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                 std::uint32_t bytes, const void* value);
/// The parameters of the kernel, at their packed offset.
void read_parameter(Warp& warp, const Instruction& instruction, int lane, std::uint64_t offset,
                    std::uint32_t bytes, void* value);

// The same for generic addresses, which may lie in any space.
void read_generic(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                  std::uint32_t bytes, void* value);
void write_generic(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                   std::uint32_t bytes, const void* value);

/// Reads any number of bytes of global memory at any alignment.
void read_bytes(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                std::uint32_t bytes, void* value);
/// Takes shared memory for a copy in flight, and returns its offset.
std::uint32_t claim_shared(Warp& warp, const Instruction& instruction, int lane,
                           std::uint64_t offset, std::uint32_t bytes);

/// The place of an atomic's operand in global memory.
unsigned char* atomic_global(Warp& warp, const Instruction& instruction, int lane,
                             std::uint64_t address, std::uint32_t bytes);
/// The same in shared memory.
unsigned char* atomic_shared(Warp& warp, const Instruction& instruction, int lane,
                             std::uint64_t offset, std::uint32_t bytes);

/// An offset that is out of bounds if it does not fit 32 bits.
std::uint32_t shared_offset(std::uint64_t offset);
Accessor accessor_of(const Warp& warp, int lane);
void check_alignment(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address,
                     std::uint32_t bytes);
[[noreturn]] void report(Warp& warp, const Instruction& instruction, int lane,
                         const AccessFault& fault, std::uint32_t bytes, const char* verb);
[[noreturn]] void report(Warp& warp, const Instruction& instruction, int lane,
                         const SharedFault& fault, std::uint32_t bytes, const char* verb);

// Traffic of one request.

/// 32-byte sectors that the lanes touch, with accesses that lie in one sector each.
std::uint64_t count_sectors(const std::uint64_t* addresses, LaneMask active);
/// Passes that the 32 banks of 4 bytes need for the lanes' accesses.
std::uint64_t count_wavefronts(const std::uint64_t* offsets, LaneMask active, std::uint32_t bytes);

}  // namespace mobius::ptx
