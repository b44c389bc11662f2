// Control: bra, brx, ret, exit, call, trap, and calls of functions that the device's system
// provides.

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/memory_path.h"
#include "tests/gpuless/ptx/system_calls.h"

namespace mobius::ptx {

namespace {

void run_branch(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.branch(instruction, active, instruction.target);
}

// Lanes go to the entry of the table that their index names.
void run_branch_table(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::uint32_t* const index = warp.lanes_of<std::uint32_t>(instruction.a);
  const std::uint32_t* const targets = warp.operands(instruction);
  for (LaneMask rest = active; rest != 0;) {
    const int lane = std::countr_zero(rest);
    if (index[lane] >= instruction.target)
      warp.fault(instruction, lane, "the index is beyond the table of targets");
    LaneMask same = 0;
    for (LaneMask others = rest; others != 0; others &= others - 1) {
      const int other = std::countr_zero(others);
      if (index[other] == index[lane]) same |= LaneMask{1} << other;
    }
    rest &= ~same;
    warp.branch(instruction, same, targets[index[lane]]);
    // All lanes have gone: none is left to branch further.
    if (rest == 0) return;
  }
}

void run_return(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.leave(instruction, active);
}
void run_exit(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.exit(instruction, active);
}

void run_trap(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.fault(instruction, std::countr_zero(active), "trap");
}

void run_nothing(Warp&, const Instruction&, LaneMask) {}

void run_call(Warp& warp, const Instruction& instruction, LaneMask active) {
  warp.call(instruction, active, instruction.target);
}

// Lanes may hold pointers to different functions.
void run_indirect_call(Warp& warp, const Instruction& instruction, LaneMask active) {
  const std::uint64_t* const pointer = warp.lanes_of<std::uint64_t>(instruction.a);
  const int lane = std::countr_zero(active);
  LaneMask same = 0;
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int other = std::countr_zero(rest);
    if (pointer[other] == pointer[lane]) same |= LaneMask{1} << other;
  }
  const auto& functions = warp.block().launch().program.functions;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    if (functions[i]->address != pointer[lane]) continue;
    if (same != active) warp.repeat_for(active & ~same);
    warp.call(instruction, same, i);
    return;
  }
  warp.fault(instruction, lane, "calls an address where no function is");
}

void decode_bra(Decoder& decoder) {
  decoder.branch_to(decoder.operand(0));
  finish(decoder, &run_branch, InstructionClass::control);
}

void decode_brx(Decoder& decoder) {
  decoder.instruction.a = decoder.source(decoder.operand(0), {'u', 32, false});
  decoder.branch_by_table(decoder.operand(1));
  finish(decoder, &run_branch_table, InstructionClass::control);
}

template <Run kRun>
void decode_plain(Decoder& decoder) {
  finish(decoder, kRun, InstructionClass::control);
}

std::vector<std::string_view> names_in(std::string_view parentheses) {
  const std::string_view inside = trimmed(parentheses.substr(1, parentheses.size() - 2));
  return inside.empty() ? std::vector<std::string_view>{} : split(inside, ',');
}

// call (result), function, (arguments), prototype; -- results and arguments may be missing.
void decode_call(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  std::size_t place = 0;
  std::vector<std::string_view> results;
  std::vector<std::string_view> arguments;
  if (decoder.operand(0).starts_with('(')) results = names_in(decoder.operand(place++));
  const std::string_view function = decoder.operand(place++);
  if (place < decoder.operand_count() && decoder.operand(place).starts_with('(')) {
    arguments = names_in(decoder.operand(place++));
  }
  std::vector<std::uint32_t> places = {static_cast<std::uint32_t>(arguments.size()),
                                       static_cast<std::uint32_t>(results.size())};
  for (const auto& names : {arguments, results}) {
    for (const std::string_view name : names) {
      const auto symbol = decoder.find(name);
      if (!symbol || symbol->kind != Symbol::Kind::parameter)
        decoder.unknown("unknown argument of a call");
      places.push_back(symbol->offset);
    }
  }
  instruction.operands = decoder.add_operands(places);
  if (const Run system = system_call(function))
    return finish(decoder, system, InstructionClass::control);
  if (const auto symbol = decoder.find(function)) {
    decoder.symbols().add_addressable();
    instruction.a = symbol->offset;
    return finish(decoder, &run_indirect_call, InstructionClass::control);
  }
  const auto index = decoder.symbols().function(function);
  if (!index) decoder.unknown("call of an unknown function");
  instruction.target = *index;
  finish(decoder, &run_call, InstructionClass::control);
}

}  // namespace

void add_control(DecodeTable& table) {
  table["bra"] = decode_bra;
  table["brx"] = decode_brx;
  table["ret"] = decode_plain<&run_return>;
  table["exit"] = decode_plain<&run_exit>;
  table["trap"] = decode_plain<&run_trap>;
  table["brkpt"] = decode_plain<&run_trap>;
  table["nanosleep"] = decode_plain<&run_nothing>;
  table["call"] = decode_call;
}

}  // namespace mobius::ptx
