#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/program.h"
#include "tests/gpuless/ptx/text.h"

namespace mobius::ptx {

/// Where the symbols of a module are. Implemented by the module, for one kernel at a time.
class SymbolResolver {
 public:
  virtual ~SymbolResolver() = default;
  struct Shared {
    std::uint32_t offset;  // behind the dynamic base if is_dynamic
    bool is_dynamic;
  };
  /// The place of a shared variable, which is given room in the kernel if it had none.
  virtual std::optional<Shared> shared(std::string_view name) = 0;
  /// Gives room to a shared variable that a function declares.
  virtual Shared declare_shared(const VariableText& variable) = 0;
  /// The address of a global or constant variable, or of a function.
  virtual std::optional<std::uint64_t> address(std::string_view name) = 0;
  /// The index in Program::functions of a device function.
  virtual std::optional<std::uint32_t> function(std::string_view name) = 0;
  /// Adds every function that a pointer may lead to.
  virtual void add_addressable() = 0;
};

/// What a name stands for in a function.
struct Symbol {
  enum class Kind { reg, parameter, kernel_parameter, local, shared } kind = Kind::reg;
  int bits = 0;              // of a register
  std::uint32_t offset = 0;  // in the frame, the parameters, or the local depot
  std::uint32_t bytes = 0;
  bool is_dynamic = false;
};

/// A predicate operand and whether it is negated.
struct PredicateOperand {
  std::uint32_t offset;
  bool is_negated;
};

/// An operand in brackets: a base and a constant offset.
struct AddressOperand {
  std::string_view base;
  std::int64_t offset = 0;
};

/// The bits of a literal: an integer, 0f3F800000, 0d3FF0000000000000, or 1.5.
std::optional<std::uint64_t> parse_immediate(std::string_view text, Type type);

/// Decodes the statements of one function. Family files (decode_*.cpp) get it with a statement, and
/// fill in `instruction` by way of the helpers here.
class Decoder {
 public:
  Decoder(Function& function, const FunctionText& text, std::string_view module_text,
          SymbolResolver& symbols);
  /// Decodes the whole body. Throws a Fault that quotes the line for anything unknown.
  void decode();

  // The statement at hand.
  Instruction instruction;
  const std::vector<std::string_view>& opcode() const { return statement_.opcode; }
  bool has(std::string_view part) const;
  /// The operand at a place; throws if there is none.
  std::string_view operand(std::size_t index) const;
  std::size_t operand_count() const { return statement_.operands.size(); }
  /// The types in the opcode, in order.
  std::vector<Type> types() const;
  /// The last type in the opcode.
  Type type() const;
  [[noreturn]] void unknown(std::string_view what = "unknown instruction") const;

  // Operands to offsets. `bits` is the width that a lane of the register must have.
  std::uint32_t source(std::string_view operand, Type type);
  std::uint32_t destination(std::string_view operand, int bits);
  PredicateOperand predicate(std::string_view operand);
  std::uint32_t predicate_destination(std::string_view operand);
  /// The register of this name, if it is one.
  std::optional<Symbol> find(std::string_view name) const;
  std::uint32_t constant(std::uint64_t value, int bits);
  std::uint32_t special(Special special, int bits, std::uint64_t addend = 0);
  AddressOperand address(std::string_view operand) const;
  /// The elements between braces, or the operand alone.
  std::vector<std::string_view> elements(std::string_view operand) const;
  /// Appends to Function::operands and returns the place.
  std::uint32_t add_operands(const std::vector<std::uint32_t>& offsets);
  std::uint32_t scratch(int bits);
  /// The predicate that holds the carry of add.cc and the like.
  std::uint32_t carry();

  /// Sets the destination and up to three sources, which all have the type's width.
  void operands(Type type, int sources);

  Function& function() { return function_; }
  SymbolResolver& symbols() { return symbols_; }
  void branch_to(std::string_view label);
  /// Branches to one of the labels of a .branchtargets directive.
  void branch_by_table(std::string_view name);

 private:
  struct RegisterRange {
    int bits;
    std::uint32_t count;
    std::uint32_t offset;
  };
  struct Scope {
    std::unordered_map<std::string_view, Symbol> names;
    std::map<std::string_view, RegisterRange, std::less<>> ranges;
  };

  void declare_parameters(const FunctionText& text);
  void read_directive(std::string_view text);
  void declare_registers(std::string_view text);
  void declare_local(const VariableText& variable);
  void read_label(std::string_view name);
  void read_instruction();
  void resolve_labels();
  std::uint32_t slot(int bits, std::uint32_t count = 1);
  std::uint32_t symbol_address(std::string_view name, std::int64_t offset, int bits);

  Function& function_;
  const FunctionText& text_;
  std::string_view module_text_;
  SymbolResolver& symbols_;
  Statement statement_;
  std::vector<Scope> scopes_;
  std::map<std::pair<std::uint64_t, int>, std::uint32_t> constants_;
  std::map<std::tuple<Special, int, std::uint64_t>, std::uint32_t> specials_;
  std::unordered_map<std::string_view, std::uint32_t> labels_;
  std::unordered_map<std::string_view, std::vector<std::string_view>> tables_;
  std::vector<std::pair<std::uint32_t, std::string_view>> branches_;    // instruction, label
  std::vector<std::pair<std::uint32_t, std::string_view>> table_uses_;  // instruction, table
  std::string_view last_label_;
  std::optional<std::uint32_t> carry_;
};

/// A function that decodes the instructions whose opcode starts with a word.
using DecodeFunction = void (*)(Decoder&);
using DecodeTable = std::unordered_map<std::string_view, DecodeFunction>;

// What each family adds to the table.
void add_arithmetic(DecodeTable& table);
void add_special_functions(DecodeTable& table);
void add_integer(DecodeTable& table);
void add_bits(DecodeTable& table);
void add_comparison(DecodeTable& table);
void add_moves(DecodeTable& table);
void add_conversion(DecodeTable& table);
void add_control(DecodeTable& table);
void add_memory(DecodeTable& table);
void add_atomics(DecodeTable& table);
void add_warp_operations(DecodeTable& table);
void add_barriers(DecodeTable& table);
void add_tensor(DecodeTable& table);
void add_asynchronous_copies(DecodeTable& table);

}  // namespace mobius::ptx
