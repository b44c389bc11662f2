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

namespace mobius::ptx {

namespace {

enum class Space { generic, global, shared, local, parameter };

// The fields of an access: `b` is the bytes of an element in memory, `c` those of its register,
// `count` the elements, `operands` their registers, and `a` the base register.
constexpr std::uint16_t kSignExtend = 1;
constexpr std::uint16_t kNarrowBase = 2;  // the base register has 32 bits

using Addresses = std::array<std::uint64_t, kLanes>;

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

/// Neighbouring lanes with neighbouring addresses.
struct Stretch {
  int first = 0;
  int count = 0;  // 0 if the lanes or addresses have gaps
};

Stretch find_run(const Addresses& addresses, LaneMask active, std::uint32_t bytes) {
  const int first = std::countr_zero(active);
  const int count = std::popcount(active);
  if ((active >> first) != (count == kLanes ? kAllLanes : (LaneMask{1} << count) - 1)) return {};
  const std::uint64_t start = addresses[static_cast<std::size_t>(first)];
  bool is_run = true;
  for (int i = 0; i < count; ++i) {
    is_run &= addresses[static_cast<std::size_t>(first + i)] ==
              start + static_cast<std::uint64_t>(i) * bytes;
  }
  if (!is_run) return {};
  return {first, count};
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

// Gives a lane's bytes to its registers, and back.
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

// The same for a run of lanes whose elements have the width of their registers.
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

void deliver_run(Warp& warp, const Instruction& instruction, Stretch run,
                 const unsigned char* bytes) {
  if (instruction.b == instruction.c) {
    if (instruction.b == 4) return deliver_run<std::uint32_t>(warp, instruction, run, bytes);
    if (instruction.b == 2) return deliver_run<std::uint16_t>(warp, instruction, run, bytes);
    if (instruction.b == 8) return deliver_run<std::uint64_t>(warp, instruction, run, bytes);
  }
  for (int lane = 0; lane < run.count; ++lane) {
    deliver(warp, instruction, run.first + lane,
            bytes + static_cast<std::uint32_t>(lane) * instruction.b * instruction.count);
  }
}

void collect_run(Warp& warp, const Instruction& instruction, Stretch run, unsigned char* bytes) {
  if (instruction.b == instruction.c) {
    if (instruction.b == 4) return collect_run<std::uint32_t>(warp, instruction, run, bytes);
    if (instruction.b == 2) return collect_run<std::uint16_t>(warp, instruction, run, bytes);
    if (instruction.b == 8) return collect_run<std::uint64_t>(warp, instruction, run, bytes);
  }
  for (int lane = 0; lane < run.count; ++lane) {
    collect(warp, instruction, run.first + lane,
            bytes + static_cast<std::uint32_t>(lane) * instruction.b * instruction.count);
  }
}

std::uint32_t bytes_of(const Instruction& instruction) { return instruction.b * instruction.count; }

void count(GlobalTraffic& traffic, const Addresses& addresses, LaneMask active, Stretch run,
           std::uint32_t bytes) {
  ++traffic.requests;
  traffic.bytes += static_cast<std::uint64_t>(std::popcount(active)) * bytes;
  if (run.count > 0) {
    const std::uint64_t start = addresses[static_cast<std::size_t>(run.first)];
    traffic.sectors +=
        (start + static_cast<std::uint64_t>(run.count) * bytes - 1) / 32 - start / 32 + 1;
  } else {
    traffic.sectors += count_sectors(addresses.data(), active);
  }
}

void count(SharedTraffic& traffic, const Addresses& offsets, LaneMask active, Stretch run,
           std::uint32_t bytes) {
  ++traffic.requests;
  const std::uint64_t ideal =
      (static_cast<std::uint64_t>(std::popcount(active)) * bytes + 127) / 128;
  traffic.ideal_wavefronts += ideal;
  const bool is_full = run.count == kLanes;
  traffic.wavefronts += is_full ? ideal : count_wavefronts(offsets.data(), active, bytes);
}

// A run of lanes is checked at once. Anything wrong with it shows again lane by lane, where it is
// reported.
template <Access kAccess>
unsigned char* access_run(Warp& warp, const Addresses& addresses, Stretch run,
                          std::uint32_t bytes) {
  if (run.count == 0) return nullptr;
  const std::uint64_t start = addresses[static_cast<std::size_t>(run.first)];
  if ((start & (bytes - 1)) != 0) return nullptr;
  AccessFault fault;
  return warp.block().global().access<kAccess>(start, static_cast<std::uint32_t>(run.count) * bytes,
                                               fault);
}

void load_global(Warp& warp, const Instruction& instruction, LaneMask active,
                 const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  const Stretch run = find_run(addresses, active, bytes);
  count(warp.block().counters().global_reads, addresses, active, run, bytes);
  if (const unsigned char* const place = access_run<Access::read>(warp, addresses, run, bytes)) {
    deliver_run(warp, instruction, run, place);
    return;
  }
  alignas(16) unsigned char value[16];
  if (is_uniform(addresses, active)) {
    const int first = std::countr_zero(active);
    read_global(warp, instruction, first, addresses[static_cast<std::size_t>(first)], bytes, value);
    for (LaneMask rest = active; rest != 0; rest &= rest - 1)
      deliver(warp, instruction, std::countr_zero(rest), value);
    return;
  }
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    read_global(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes, value);
    deliver(warp, instruction, lane, value);
  }
}

void store_global(Warp& warp, const Instruction& instruction, LaneMask active,
                  const Addresses& addresses) {
  const std::uint32_t bytes = bytes_of(instruction);
  const Stretch run = find_run(addresses, active, bytes);
  count(warp.block().counters().global_writes, addresses, active, run, bytes);
  if (unsigned char* const place = access_run<Access::write>(warp, addresses, run, bytes)) {
    collect_run(warp, instruction, run, place);
    return;
  }
  alignas(16) unsigned char value[16];
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    collect(warp, instruction, lane, value);
    write_global(warp, instruction, lane, addresses[static_cast<std::size_t>(lane)], bytes, value);
  }
}

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
    count(warp.block().counters().shared_reads, addresses, active,
          find_run(addresses, active, bytes_of(instruction)), bytes_of(instruction));
    load_lanes(warp, instruction, active, addresses, read_shared);
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
    count(warp.block().counters().shared_writes, addresses, active,
          find_run(addresses, active, bytes_of(instruction)), bytes_of(instruction));
    store_lanes(warp, instruction, active, addresses, write_shared);
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
