#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/gpuless/ptx/counters.h"
#include "tests/gpuless/ptx/lanes.h"

namespace mobius::ptx {

class Warp;
struct Instruction;
struct Function;

/// Executes one instruction for the active lanes, of which there is at least one.
using Run = void (*)(Warp&, const Instruction&, LaneMask active);

/// A decoded instruction. Operands are byte offsets into the frame of the function (see Function).
struct Instruction {
  Run run = nullptr;
  std::uint32_t guard = 0;  // the predicate under which it runs; offset 0 is always true
  LaneMask guard_flip = 0;  // all ones if the guard is negated
  std::uint32_t destination = 0;
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
  std::int64_t immediate = 0;  // an address offset, a truth table, a size: by instruction
  std::uint32_t operands = 0;  // where its further operands start in Function::operands
  std::uint32_t target = 0;    // a branch target, or the index of a called function
  std::uint16_t flags = 0;     // by instruction
  std::uint8_t count = 1;      // elements of a vector access
  InstructionClass kind = InstructionClass::integer;
  bool is_warp_barrier = false;  // bar.warp.sync
  std::uint32_t line = 0;        // index into Function::lines
};

/// Where the text of an instruction is.
struct Line {
  std::uint32_t begin;
  std::uint32_t length;
};

/// A value that a register slot holds from the start: an immediate operand, the same for all lanes.
struct Constant {
  std::uint32_t offset;
  std::uint32_t bytes;  // 2, 4 or 8 a lane
  std::uint64_t value;
};

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_shared_size,
  total_shared_size,
  dynamic_shared_base,
  local_base,
};

/// A special register, kept in a slot of the frame.
struct SpecialSlot {
  std::uint32_t offset;
  std::uint32_t bytes;
  Special special;
  std::uint64_t addend = 0;
};

/// A variable of the parameter space, kept lane by lane in the frame.
struct FrameParameter {
  std::uint32_t offset;
  std::uint32_t bytes;
};

/// A kernel's or device function's code. A frame holds all registers of one call: predicates as
/// lane masks of 4 bytes, other registers as 32 lanes of 2, 4 or 8 bytes. Offset 0 holds the
/// predicate that is always true.
struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Instruction> code;
  std::vector<std::uint32_t> operands;
  std::vector<Line> lines;
  std::vector<Constant> constants;
  std::vector<SpecialSlot> specials;
  std::vector<FrameParameter> parameters;
  std::vector<FrameParameter> results;
  std::uint32_t frame_bytes = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t register_count = 0;  // declared
  std::uint64_t address = 0;         // what a pointer to it holds
};

/// A kernel and all functions that it may call; functions[0] is the kernel.
struct Program {
  std::shared_ptr<const std::string> text;
  std::vector<std::unique_ptr<Function>> functions;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;

  std::string_view line_of(const Function& function, const Instruction& instruction) const {
    const Line line = function.lines[instruction.line];
    return std::string_view(*text).substr(line.begin, line.length);
  }
};

}  // namespace mobius::ptx
