// Loads and stores: ld, ldu, st, prefetch, in every space.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/memory_path.h"
#include "tests/gpuless/ptx/memory_requests.h"

namespace mobius::ptx {

namespace {

enum class Space { generic, global, shared, local, parameter };

using ReadLane = void (*)(Warp&, const Instruction&, int, std::uint64_t, std::uint32_t, void*);
using WriteLane = void (*)(Warp&, const Instruction&, int, std::uint64_t, std::uint32_t,
                           const void*);

void load_lanes(Warp& warp, const Instruction& instruction, LaneMask active,
                const Addresses& addresses, ReadLane read) {
  alignas(16) unsigned char value[16];
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    read(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes_of(instruction),
         value);
    deliver(warp, instruction, lane, value);
  }
}

void store_lanes(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses, WriteLane write) {
  alignas(16) unsigned char value[16];
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    collect(warp, instruction, lane, value);
    write(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes_of(instruction),
          value);
  }
}

bool is_all_global(const Addresses& addresses, LaneMask active) {
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const std::uint64_t address = addresses[static_cast<std::size_t>(std::countr_zero(rest))];
    if ((address & DeviceMemory::kDeviceBit) != 0 && index_of(address) < kFirstAllocation)
      return false;
  }
  return true;
}

template <Space kSpace>
void run_load(Warp& warp, const Instruction& instruction, LaneMask active) {
  Addresses addresses;
  compute_addresses(warp, instruction, addresses);
  if constexpr (kSpace == Space::global) {
    load_global(warp, instruction, active, addresses);
  } else if constexpr (kSpace == Space::shared) {
    load_shared(warp, instruction, active, addresses);
  } else if constexpr (kSpace == Space::local) {
    load_lanes(warp, instruction, active, addresses, read_local);
  } else if constexpr (kSpace == Space::parameter) {
    load_lanes(warp, instruction, active, addresses, read_generic);
  } else if (is_all_global(addresses, active)) {
    load_global(warp, instruction, active, addresses);
  } else {
    load_lanes(warp, instruction, active, addresses, read_generic);
  }
}

template <Space kSpace>
void run_store(Warp& warp, const Instruction& instruction, LaneMask active) {
  Addresses addresses;
  compute_addresses(warp, instruction, addresses);
  if constexpr (kSpace == Space::global) {
    store_global(warp, instruction, active, addresses);
  } else if constexpr (kSpace == Space::shared) {
    store_shared(warp, instruction, active, addresses);
  } else if constexpr (kSpace == Space::local) {
    store_lanes(warp, instruction, active, addresses, write_local);
  } else if (is_all_global(addresses, active)) {
    store_global(warp, instruction, active, addresses);
  } else {
    store_lanes(warp, instruction, active, addresses, write_generic);
  }
}

// A parameter of the kernel at a constant offset is the same for all lanes.
void run_load_parameter(Warp& warp, const Instruction& instruction, LaneMask active) {
  alignas(16) unsigned char value[16];
  read_parameter(warp, instruction, std::countr_zero(active),
                 static_cast<std::uint64_t>(instruction.immediate), bytes_of(instruction), value);
  if (active == kAllLanes) return deliver(warp, instruction, Stretch{0, kLanes, true}, value);
  for_lanes(active, [&](int lane) { deliver(warp, instruction, lane, value); });
}

// Parameters of functions lie in the frame: `a` is where, `immediate` the offset, `target` the
// bytes of a lane.
void run_load_argument(Warp& warp, const Instruction& instruction, LaneMask active) {
  const unsigned char* const place = warp.lanes_of<unsigned char>(instruction.a);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    deliver(warp, instruction, lane,
            place + static_cast<std::size_t>(lane) * instruction.target +
                static_cast<std::size_t>(instruction.immediate));
  }
}

void run_store_argument(Warp& warp, const Instruction& instruction, LaneMask active) {
  unsigned char* const place = warp.lanes_of<unsigned char>(instruction.a);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    collect(warp, instruction, lane,
            place + static_cast<std::size_t>(lane) * instruction.target +
                static_cast<std::size_t>(instruction.immediate));
  }
}

Space space_of(const Decoder& decoder) {
  if (decoder.has("global") || decoder.has("const")) return Space::global;
  if (decoder.has("shared") || decoder.has("shared::cta")) return Space::shared;
  if (decoder.has("local")) return Space::local;
  if (decoder.has("param")) return Space::parameter;
  return Space::generic;
}

// Reads the elements: registers of a load, or sources of a store.
void read_elements(Decoder& decoder, std::string_view text, const Type& type, bool is_load) {
  Instruction& instruction = decoder.instruction;
  const auto names = decoder.elements(text);
  int bits = std::max(type.register_bits(), 16);
  for (const std::string_view name : names) {
    if (const auto symbol = decoder.find(name)) bits = symbol->bits;
  }
  std::vector<std::uint32_t> places;
  for (const std::string_view name : names) {
    places.push_back(is_load ? decoder.destination(name, bits)
                             : decoder.source(name, {type.kind, bits, false}));
  }
  instruction.count = static_cast<std::uint8_t>(names.size());
  instruction.b = static_cast<std::uint32_t>(type.register_bits() / 8);
  instruction.c = static_cast<std::uint32_t>(bits / 8);
  instruction.operands = decoder.add_operands(places);
  if (type.is_signed()) instruction.flags |= kSignExtend;
  if (instruction.b * instruction.count > 16) decoder.unknown();
}

// Reads the address. Returns true if it names a parameter of a function, which lies in the frame.
bool read_address(Decoder& decoder, std::string_view text, bool& is_kernel_parameter) {
  Instruction& instruction = decoder.instruction;
  const AddressOperand address = decoder.address(text);
  const auto symbol = decoder.find(address.base);
  instruction.immediate = address.offset;
  if (symbol && symbol->kind == Symbol::Kind::kernel_parameter) {
    instruction.immediate += symbol->offset;
    is_kernel_parameter = true;
    return false;
  }
  if (symbol && symbol->kind == Symbol::Kind::parameter) {
    instruction.a = symbol->offset;
    instruction.target = symbol->bytes;
    return true;
  }
  const int bits = symbol && symbol->kind == Symbol::Kind::reg ? symbol->bits : 64;
  if (bits == 32) instruction.flags |= kNarrowBase;
  instruction.a = decoder.source(address.base, {'u', bits, false});
  return false;
}

template <template <Space> class Family>
Run pick_space(Space space) {
  switch (space) {
    case Space::global:
      return Family<Space::global>::run;
    case Space::shared:
      return Family<Space::shared>::run;
    case Space::local:
      return Family<Space::local>::run;
    case Space::parameter:
      return Family<Space::parameter>::run;
    case Space::generic:
      return Family<Space::generic>::run;
  }
  return nullptr;
}
template <Space kSpace>
struct Load {
  static constexpr Run run = &run_load<kSpace>;
};
template <Space kSpace>
struct Store {
  static constexpr Run run = &run_store<kSpace>;
};

void decode_ld(Decoder& decoder) {
  read_elements(decoder, decoder.operand(0), decoder.type(), true);
  bool is_kernel_parameter = false;
  const bool is_argument = read_address(decoder, decoder.operand(1), is_kernel_parameter);
  if (is_argument) return finish(decoder, &run_load_argument, InstructionClass::control);
  if (is_kernel_parameter) return finish(decoder, &run_load_parameter, InstructionClass::integer);
  finish(decoder, pick_space<Load>(space_of(decoder)), InstructionClass::memory);
}

void decode_st(Decoder& decoder) {
  read_elements(decoder, decoder.operand(1), decoder.type(), false);
  bool is_kernel_parameter = false;
  const bool is_argument = read_address(decoder, decoder.operand(0), is_kernel_parameter);
  if (is_argument) return finish(decoder, &run_store_argument, InstructionClass::control);
  if (is_kernel_parameter || decoder.has("const")) decoder.unknown("store to constant memory");
  finish(decoder, pick_space<Store>(space_of(decoder)), InstructionClass::memory);
}

void run_nothing(Warp&, const Instruction&, LaneMask) {}

void decode_hint(Decoder& decoder) { finish(decoder, &run_nothing, InstructionClass::memory); }

}  // namespace

void add_memory(DecodeTable& table) {
  table["ld"] = decode_ld;
  table["ldu"] = decode_ld;
  table["st"] = decode_st;
  table["prefetch"] = decode_hint;
  table["prefetchu"] = decode_hint;
  table["applypriority"] = decode_hint;
  table["discard"] = decode_hint;
}

}  // namespace mobius::ptx
