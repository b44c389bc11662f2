// mov, also between one register and the parts of it, and conversions of addresses between spaces.

#include <chrono>
#include <cstdint>
#include <cstring>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/lane_loops.h"

namespace mobius::ptx {

namespace {

struct Same {
  template <typename T>
  static T apply(T a) {
    return a;
  }
};
struct ToGeneric {
  template <typename T>
  static std::uint64_t apply(T a, std::uint64_t window) {
    return a + window;
  }
};

// A full move copies the whole slot.
template <typename T>
void run_move(Warp& warp, const Instruction& instruction, LaneMask active) {
  if (active == kAllLanes) {
    std::memcpy(warp.lanes_of<T>(instruction.destination), warp.lanes_of<T>(instruction.a),
                kLanes * sizeof(T));
  } else {
    lane_unary<T, T, Same>(warp, instruction, active);
  }
}

void run_move_predicate(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.set_predicate(instruction.destination, active,
                     warp.predicate(instruction.a) ^ static_cast<LaneMask>(instruction.immediate));
}

// One register of type T is made of, or falls apart into, `count` parts of type P, the lowest
// first.
template <typename T, typename P>
void run_pack(Warp& warp, const Instruction& instruction, LaneMask active) {
  T* const d = warp.lanes_of<T>(instruction.destination);
  const std::uint32_t* parts = warp.operands(instruction);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    T value = 0;
    for (std::uint32_t i = 0; i < sizeof(T) / sizeof(P); ++i) {
      value = static_cast<T>(value | static_cast<T>(warp.lanes_of<P>(parts[i])[lane])
                                         << (8 * sizeof(P) * i));
    }
    d[lane] = value;
  }
}

template <typename T, typename P>
void run_unpack(Warp& warp, const Instruction& instruction, LaneMask active) {
  const T* const a = warp.lanes_of<T>(instruction.a);
  const std::uint32_t* parts = warp.operands(instruction);
  for (std::uint32_t i = 0; i < sizeof(T) / sizeof(P); ++i) {
    P* const part = warp.lanes_of<P>(parts[i]);
    for_lanes(active,
              [=](int lane) { part[lane] = static_cast<P>(a[lane] >> (8 * sizeof(P) * i)); });
  }
}

template <template <typename, typename> class Family>
Run pick_parts(int bits, std::size_t parts) {
  if (bits == 64 && parts == 2) return Family<std::uint64_t, std::uint32_t>::run;
  if (bits == 64 && parts == 4) return Family<std::uint64_t, std::uint16_t>::run;
  if (bits == 32 && parts == 2) return Family<std::uint32_t, std::uint16_t>::run;
  return nullptr;
}
template <typename T, typename P>
struct Pack {
  static constexpr Run run = &run_pack<T, P>;
};
template <typename T, typename P>
struct Unpack {
  static constexpr Run run = &run_unpack<T, P>;
};

void decode_pack(Decoder& decoder, const Type& type) {
  Instruction& instruction = decoder.instruction;
  const auto parts = decoder.elements(decoder.operand(1));
  const Type part = {'b', type.bits / static_cast<int>(parts.size()), false};
  instruction.destination = decoder.destination(decoder.operand(0), type.bits);
  std::vector<std::uint32_t> places;
  for (const std::string_view one : parts) places.push_back(decoder.source(one, part));
  instruction.operands = decoder.add_operands(places);
  finish(decoder, pick_parts<Pack>(type.bits, parts.size()), InstructionClass::integer);
}

void decode_unpack(Decoder& decoder, const Type& type) {
  Instruction& instruction = decoder.instruction;
  const auto parts = decoder.elements(decoder.operand(0));
  instruction.a = decoder.source(decoder.operand(1), type);
  std::vector<std::uint32_t> places;
  for (const std::string_view one : parts) {
    places.push_back(decoder.destination(one, type.bits / static_cast<int>(parts.size())));
  }
  instruction.operands = decoder.add_operands(places);
  finish(decoder, pick_parts<Unpack>(type.bits, parts.size()), InstructionClass::integer);
}

// Clocks tick in nanoseconds of the host.
template <typename T>
void run_clock(Warp& warp, const Instruction& instruction, LaneMask active) {
  const auto now = static_cast<T>(std::chrono::steady_clock::now().time_since_epoch().count());
  T* const d = warp.lanes_of<T>(instruction.destination);
  for_lanes(active, [=](int lane) { d[lane] = now; });
}

bool is_clock(std::string_view name) {
  return name == "%clock" || name == "%clock64" || name == "%clock_hi" || name == "%globaltimer";
}

void decode_mov(Decoder& decoder) {
  const Type type = decoder.type();
  Instruction& instruction = decoder.instruction;
  if (type.kind == 'p') {
    const PredicateOperand source = decoder.predicate(decoder.operand(1));
    instruction.destination = decoder.predicate_destination(decoder.operand(0));
    instruction.a = source.offset;
    instruction.immediate = source.is_negated ? kAllLanes : 0;
    return finish(decoder, &run_move_predicate, InstructionClass::integer);
  }
  if (decoder.operand(1).starts_with('{')) return decode_pack(decoder, type);
  if (decoder.operand(0).starts_with('{')) return decode_unpack(decoder, type);
  if (is_clock(decoder.operand(1))) {
    instruction.destination = decoder.destination(decoder.operand(0), type.bits);
    return finish(decoder, type.bits == 64 ? &run_clock<std::uint64_t> : &run_clock<std::uint32_t>,
                  InstructionClass::integer);
  }
  decoder.operands(type, 1);
  finish(decoder,
         pick_unsigned(type.register_bits(),
                       [](auto zero) -> Run { return &run_move<decltype(zero)>; }),
         InstructionClass::integer);
}

std::uint64_t window_of(const Decoder& decoder) {
  if (decoder.has("shared") || decoder.has("shared::cta")) return window_base(Window::shared);
  if (decoder.has("local")) return window_base(Window::local);
  return 0;  // global, const and param addresses are generic as they are
}

// Between generic addresses and those of a space: the window is added or taken away.
void decode_cvta(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  const std::uint64_t window = window_of(decoder);
  decoder.instruction.b = decoder.constant(decoder.has("to") ? 0 - window : window, 64);
  finish(decoder,
         type.bits == 64 ? &lane_binary<std::uint64_t, std::uint64_t, std::uint64_t, ToGeneric>
                         : nullptr,
         InstructionClass::integer);
}

template <Window kWindow>
void run_isspacep(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::uint64_t* const a = warp.lanes_of<std::uint64_t>(instruction.a);
  LaneMask result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    result |= static_cast<LaneMask>(is_in_window(a[lane], kWindow)) << lane;
  }
  warp.set_predicate(instruction.destination, active, result);
}

void run_is_global(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::uint64_t* const a = warp.lanes_of<std::uint64_t>(instruction.a);
  LaneMask result = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool is_device = (a[lane] & DeviceMemory::kDeviceBit) != 0;
    result |= static_cast<LaneMask>(is_device && index_of(a[lane]) >= kFirstAllocation) << lane;
  }
  warp.set_predicate(instruction.destination, active, result);
}

void decode_isspacep(Decoder& decoder) {
  decoder.instruction.destination = decoder.predicate_destination(decoder.operand(0));
  decoder.instruction.a = decoder.source(decoder.operand(1), {'u', 64, false});
  Run run = nullptr;
  if (decoder.has("global")) run = &run_is_global;
  if (decoder.has("shared")) run = &run_isspacep<Window::shared>;
  if (decoder.has("local")) run = &run_isspacep<Window::local>;
  finish(decoder, run, InstructionClass::integer);
}

}  // namespace

void add_moves(DecodeTable& table) {
  table["mov"] = decode_mov;
  table["cvta"] = decode_cvta;
  table["isspacep"] = decode_isspacep;
}

}  // namespace mobius::ptx
