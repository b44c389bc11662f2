// What the lanes of a warp do together: shfl, vote, match, redux, activemask, elect.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/warp_sync.h"

namespace mobius::ptx {

namespace {

enum class Shuffle { up, down, butterfly, index };

struct Source {
  std::uint32_t lane;
  bool is_inside;  // its segment
};

// The lane to read from: `clamp` holds the segment mask in bits 8-12 and the bound in bits 0-4.
template <Shuffle kShuffle>
Source source_lane(std::uint32_t lane, std::uint32_t b, std::uint32_t clamp) {
  const std::uint32_t segment = clamp >> 8 & 31;
  const std::uint32_t low = lane & segment;
  const std::uint32_t high = low | (clamp & 31 & ~segment);
  b &= 31;
  switch (kShuffle) {
    case Shuffle::up: {
      const auto from = static_cast<std::int32_t>(lane) - static_cast<std::int32_t>(b);
      return {static_cast<std::uint32_t>(from), from >= static_cast<std::int32_t>(high)};
    }
    case Shuffle::down:
      return {lane + b, lane + b <= high};
    case Shuffle::butterfly:
      return {lane ^ b, (lane ^ b) <= high};
    case Shuffle::index: {
      const std::uint32_t from = low | (b & ~segment);
      return {from, from <= high};
    }
  }
  return {lane, false};
}

template <Shuffle kShuffle>
void run_shuffle(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = gather(warp, instruction, active);
  if (active == 0) return;
  std::uint32_t* const d = warp.lanes_of<std::uint32_t>(instruction.destination);
  const std::uint32_t* const a = warp.lanes_of<std::uint32_t>(instruction.a);
  const std::uint32_t* const b = warp.lanes_of<std::uint32_t>(instruction.b);
  const std::uint32_t* const c = warp.lanes_of<std::uint32_t>(instruction.c);
  std::uint32_t results[kLanes];
  LaneMask inside = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Source source = source_lane<kShuffle>(static_cast<std::uint32_t>(lane), b[lane], c[lane]);
    const std::uint32_t from = source.is_inside ? source.lane : static_cast<std::uint32_t>(lane);
    if ((active >> from & 1) == 0) {
      warp.fault(instruction, lane,
                 "reads from lane " + std::to_string(from) + ", which does not take part");
    }
    results[lane] = a[from];
    inside |= static_cast<LaneMask>(source.is_inside) << lane;
  }
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    d[lane] = results[lane];
  }
  if (instruction.count == 2)
    warp.set_predicate(static_cast<std::uint32_t>(instruction.immediate), active, inside);
}

// Reads "d|p".
void read_destinations(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  const auto destinations = split(decoder.operand(0), '|');
  instruction.destination = decoder.destination(destinations[0], 32);
  if (destinations.size() == 2) {
    instruction.count = 2;
    instruction.immediate = decoder.predicate_destination(destinations[1]);
  }
}

constexpr Type kU32 = {'u', 32, false};

void decode_shfl(Decoder& decoder) {
  if (!decoder.has("sync")) decoder.unknown();
  read_destinations(decoder);
  Instruction& instruction = decoder.instruction;
  instruction.a = decoder.source(decoder.operand(1), kU32);
  instruction.b = decoder.source(decoder.operand(2), kU32);
  instruction.c = decoder.source(decoder.operand(3), kU32);
  set_member_mask(decoder, decoder.operand(4));
  Run run = nullptr;
  if (decoder.has("up")) run = &run_shuffle<Shuffle::up>;
  if (decoder.has("down")) run = &run_shuffle<Shuffle::down>;
  if (decoder.has("bfly")) run = &run_shuffle<Shuffle::butterfly>;
  if (decoder.has("idx")) run = &run_shuffle<Shuffle::index>;
  finish(decoder, run, InstructionClass::control);
}

enum class Vote { all, any, uniform, ballot };

// Lanes vote among those that their own mask names.
template <Vote kVote>
void run_vote(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = gather(warp, instruction, active);
  if (active == 0) return;
  const LaneMask votes =
      warp.predicate(instruction.a) ^ static_cast<LaneMask>(instruction.immediate);
  LaneMask result = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const LaneMask members = member_mask(warp, instruction, lane) & active;
    const LaneMask yes = votes & members;
    if constexpr (kVote == Vote::ballot) {
      warp.lanes_of<std::uint32_t>(instruction.destination)[lane] = yes;
    } else {
      const bool outcome = kVote == Vote::all   ? yes == members
                           : kVote == Vote::any ? yes != 0
                                                : yes == members || yes == 0;
      result |= static_cast<LaneMask>(outcome) << lane;
    }
  }
  if constexpr (kVote != Vote::ballot) warp.set_predicate(instruction.destination, active, result);
}

void decode_vote(Decoder& decoder) {
  if (!decoder.has("sync")) decoder.unknown();
  Instruction& instruction = decoder.instruction;
  const bool ballot = decoder.has("ballot");
  instruction.destination = ballot ? decoder.destination(decoder.operand(0), 32)
                                   : decoder.predicate_destination(decoder.operand(0));
  const PredicateOperand votes = decoder.predicate(decoder.operand(1));
  instruction.a = votes.offset;
  instruction.immediate = votes.is_negated ? kAllLanes : 0;
  set_member_mask(decoder, decoder.operand(2));
  Run run = nullptr;
  if (ballot) run = &run_vote<Vote::ballot>;
  if (decoder.has("all")) run = &run_vote<Vote::all>;
  if (decoder.has("any")) run = &run_vote<Vote::any>;
  if (decoder.has("uni")) run = &run_vote<Vote::uniform>;
  finish(decoder, run, InstructionClass::control);
}

template <typename T, bool kAll>
void run_match(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = gather(warp, instruction, active);
  if (active == 0) return;
  const T* const a = warp.lanes_of<T>(instruction.a);
  LaneMask same_for_all = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const LaneMask members = member_mask(warp, instruction, lane) & active;
    LaneMask same = 0;
    for (LaneMask others = members; others != 0; others &= others - 1) {
      const int other = std::countr_zero(others);
      if (a[other] == a[lane]) same |= LaneMask{1} << other;
    }
    if (same == members) same_for_all |= LaneMask{1} << lane;
    warp.lanes_of<std::uint32_t>(instruction.destination)[lane] =
        kAll ? (same == members ? members : 0) : same;
  }
  if (instruction.count == 2)
    warp.set_predicate(static_cast<std::uint32_t>(instruction.immediate), active, same_for_all);
}

void decode_match(Decoder& decoder) {
  const Type type = decoder.type();
  read_destinations(decoder);
  decoder.instruction.a = decoder.source(decoder.operand(1), type);
  set_member_mask(decoder, decoder.operand(2));
  const bool all = decoder.has("all");
  finish(decoder,
         pick_unsigned(type.bits,
                       [=](auto zero) -> Run {
                         using T = decltype(zero);
                         return all ? &run_match<T, true> : &run_match<T, false>;
                       }),
         InstructionClass::control);
}

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  template <typename T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T apply(T a, T b) {
    return a ^ b;
  }
};

template <typename T, typename Op>
void run_reduction(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = gather(warp, instruction, active);
  if (active == 0) return;
  const T* const a = warp.lanes_of<T>(instruction.a);
  T results[kLanes];
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    LaneMask members = member_mask(warp, instruction, lane) & active;
    T result = a[std::countr_zero(members)];
    for (members &= members - 1; members != 0; members &= members - 1) {
      result = Op::apply(result, a[std::countr_zero(members)]);
    }
    results[lane] = result;
  }
  T* const d = warp.lanes_of<T>(instruction.destination);
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    d[lane] = results[lane];
  }
}

template <typename Op>
Run pick_reduction(const Type& type) {
  return type.is_signed() ? &run_reduction<std::int32_t, Op> : &run_reduction<std::uint32_t, Op>;
}

void decode_redux(Decoder& decoder) {
  const Type type = decoder.type();
  decoder.operands(type, 1);
  set_member_mask(decoder, decoder.operand(2));
  Run run = nullptr;
  if (decoder.has("add")) run = pick_reduction<Add>(type);
  if (decoder.has("min")) run = pick_reduction<Minimum>(type);
  if (decoder.has("max")) run = pick_reduction<Maximum>(type);
  if (decoder.has("and")) run = pick_reduction<And>(type);
  if (decoder.has("or")) run = pick_reduction<Or>(type);
  if (decoder.has("xor")) run = pick_reduction<Xor>(type);
  finish(decoder, type.is_float() ? nullptr : run, InstructionClass::control);
}

void run_active_mask(Warp& warp, const Instruction& instruction, LaneMask active) {
  std::uint32_t* const d = warp.lanes_of<std::uint32_t>(instruction.destination);
  for_lanes(active, [=](int lane) { d[lane] = active; });
}

void decode_activemask(Decoder& decoder) {
  decoder.instruction.destination = decoder.destination(decoder.operand(0), 32);
  finish(decoder, &run_active_mask, InstructionClass::control);
}

// The lowest lane that a mask names is chosen.
void run_elect(Warp& warp, const Instruction& instruction, LaneMask active) {
  active = gather(warp, instruction, active);
  if (active == 0) return;
  LaneMask chosen = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const int leader = std::countr_zero(member_mask(warp, instruction, lane));
    warp.lanes_of<std::uint32_t>(instruction.destination)[lane] =
        static_cast<std::uint32_t>(leader);
    if (leader == lane) chosen |= LaneMask{1} << lane;
  }
  warp.set_predicate(static_cast<std::uint32_t>(instruction.immediate), active, chosen);
}

void decode_elect(Decoder& decoder) {
  read_destinations(decoder);
  set_member_mask(decoder, decoder.operand(1));
  finish(decoder, decoder.instruction.count == 2 ? &run_elect : nullptr, InstructionClass::control);
}

}  // namespace

void add_warp_operations(DecodeTable& table) {
  table["shfl"] = decode_shfl;
  table["vote"] = decode_vote;
  table["match"] = decode_match;
  table["redux"] = decode_redux;
  table["activemask"] = decode_activemask;
  table["elect"] = decode_elect;
}

}  // namespace mobius::ptx
