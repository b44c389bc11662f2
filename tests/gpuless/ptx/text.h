#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mobius::ptx {

/// A type suffix such as .f32 or .bf16x2.
struct Type {
  char kind = 'b';         // f, s, u, b, p(redicate), B(bfloat16), t(f32)
  int bits = 32;           // of one element
  bool is_packed = false;  // two elements in 32 bits

  bool is_float() const { return kind == 'f' || kind == 'B' || kind == 't'; }
  bool is_signed() const { return kind == 's'; }
  int register_bits() const { return is_packed ? 32 : bits; }
};

/// Whether the text, without its dot, is a type; sets `type` if so.
bool parse_type(std::string_view text, Type& type);

/// A variable declaration of any space but registers: `.shared .align 16 .b8 tile[128]`.
struct VariableText {
  std::string_view space;  // global, const, shared, local, param
  std::string_view name;
  Type type;
  std::uint32_t alignment = 1;
  std::uint64_t elements = 1;
  bool is_extern = false;
  bool is_unsized = false;
  std::string_view initialiser;  // with its braces, or empty

  std::uint64_t bytes() const { return elements * static_cast<std::uint64_t>(type.bits / 8); }
};

/// A .func or .entry.
struct FunctionText {
  bool is_entry = false;
  std::string_view name;
  std::vector<VariableText> results;
  std::vector<VariableText> parameters;
  std::uint32_t max_threads = 1024;
  std::string_view body;  // between the braces; empty for a declaration
};

/// The items of a module, found without looking into function bodies.
struct ModuleText {
  std::map<std::string_view, FunctionText> functions;
  std::map<std::string_view, VariableText> variables;
};

ModuleText read_module(std::string_view text);

/// Parses a declaration without its semicolon.
VariableText read_variable(std::string_view text);

/// One statement of a function body.
struct Statement {
  enum class Kind { instruction, directive, label, open, close } kind = Kind::instruction;
  std::string_view text;  // all of it; the name for a label
  // Of an instruction:
  std::string_view guard;                  // of "@!%p1" the "!%p1"
  std::vector<std::string_view> opcode;    // split at dots
  std::vector<std::string_view> operands;  // split at commas outside brackets
};

/// Reads the statements of a body one by one.
class StatementReader {
 public:
  explicit StatementReader(std::string_view body) : rest_(body) {}
  /// Returns false at the end.
  bool next(Statement& statement);

 private:
  std::string_view rest_;
};

std::string_view trimmed(std::string_view text);
/// Splits at a separator outside of brackets and trims the pieces.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Removes and returns the first word, which ends at white space.
std::string_view take_word(std::string_view& text);

}  // namespace mobius::ptx
