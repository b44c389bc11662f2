#include "tests/gpuless/ptx/decoder.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <tuple>

#include "tests/gpuless/ptx/allocation.h"

namespace mobius::ptx {

namespace {

const DecodeTable& decode_table() {
  static const DecodeTable table = [] {
    DecodeTable families;
    for (const auto add :
         {add_arithmetic, add_special_functions, add_integer, add_bits, add_comparison, add_moves,
          add_conversion, add_control, add_memory, add_atomics, add_warp_operations, add_barriers,
          add_tensor, add_asynchronous_copies}) {
      add(families);
    }
    return families;
  }();
  return table;
}

std::optional<Special> special_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Special> names = {
      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%smid", Special::smid},
      {"%nsmid", Special::nsmid},
      {"%gridid", Special::gridid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%dynamic_smem_size", Special::dynamic_shared_size},
      {"%total_smem_size", Special::total_shared_size},
  };
  const auto place = names.find(name);
  return place == names.end() ? std::nullopt : std::optional(place->second);
}

std::uint64_t float_bits(double value, Type type) {
  return type.bits == 64 ? std::bit_cast<std::uint64_t>(value)
                         : std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return is_negative ? 0 - value : value;
}

}  // namespace

std::optional<std::uint64_t> parse_immediate(std::string_view text, Type type) {
  if (text == "WARP_SZ") return kLanes;
  if (text.starts_with("0f") || text.starts_with("0F") || text.starts_with("0d") ||
      text.starts_with("0D")) {
    std::uint64_t bits = 0;
    std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    const bool is_double = text[1] == 'd' || text[1] == 'D';
    if (is_double == (type.bits == 64)) return bits;
    return float_bits(
        is_double ? std::bit_cast<double>(bits)
                  : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))),
        type);
  }
  if (text.find('.') != std::string_view::npos &&
      (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'))) {
    return float_bits(std::strtod(std::string(text).c_str(), nullptr), type);
  }
  return parse_integer(text);
}

Decoder::Decoder(Function& function, const FunctionText& text, std::string_view module_text,
                 SymbolResolver& symbols)
    : function_(function), text_(text), module_text_(module_text), symbols_(symbols) {
  function_.name = text.name;
  function_.is_entry = text.is_entry;
  function_.frame_bytes = 64;  // holds the predicate that is always true
  scopes_.emplace_back();
  declare_parameters(text);
}

void Decoder::decode() {
  StatementReader reader(text_.body);
  while (reader.next(statement_)) {
    switch (statement_.kind) {
      case Statement::Kind::open:
        scopes_.emplace_back();
        break;
      case Statement::Kind::close:
        if (scopes_.size() > 1) scopes_.pop_back();
        break;
      case Statement::Kind::label:
        read_label(statement_.text);
        break;
      case Statement::Kind::directive:
        read_directive(statement_.text);
        break;
      case Statement::Kind::instruction:
        read_instruction();
        break;
    }
  }
  // A body may end without ret.
  statement_.opcode = {"ret"};
  statement_.operands.clear();
  statement_.guard = {};
  statement_.text = text_.body.substr(text_.body.size());
  read_instruction();
  resolve_labels();
}

void Decoder::declare_parameters(const FunctionText& text) {
  std::uint32_t offset = 0;
  for (const VariableText& parameter : text.parameters) {
    const auto bytes = static_cast<std::uint32_t>(parameter.bytes());
    if (text.is_entry) {
      offset = (offset + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
      scopes_[0].names[parameter.name] = {Symbol::Kind::kernel_parameter, 0, offset, bytes, false};
      function_.parameters.push_back({offset, bytes});
      offset += bytes;
    } else {
      const std::uint32_t place = slot(8, bytes);
      scopes_[0].names[parameter.name] = {Symbol::Kind::parameter, 0, place, bytes, false};
      function_.parameters.push_back({place, bytes});
    }
  }
  for (const VariableText& result : text.results) {
    const auto bytes = static_cast<std::uint32_t>(result.bytes());
    const std::uint32_t place = slot(8, bytes);
    scopes_[0].names[result.name] = {Symbol::Kind::parameter, 0, place, bytes, false};
    function_.results.push_back({place, bytes});
  }
}

void Decoder::read_directive(std::string_view text) {
  std::string_view rest = text;
  std::string_view word = take_word(rest);
  // `.reg.b32 x` is `.reg .b32 x`.
  if (word.starts_with(".reg") && word.size() > 4) {
    rest = text.substr(4);
    word = ".reg";
  }
  if (word == ".reg") {
    declare_registers(rest);
  } else if (word == ".local") {
    declare_local(read_variable(text));
  } else if (word == ".shared") {
    const VariableText variable = read_variable(text);
    const SymbolResolver::Shared place = symbols_.declare_shared(variable);
    scopes_.back().names[variable.name] = {Symbol::Kind::shared, 0, place.offset,
                                           static_cast<std::uint32_t>(variable.bytes()),
                                           place.is_dynamic};
  } else if (word == ".param") {
    const VariableText variable = read_variable(text);
    const auto bytes = static_cast<std::uint32_t>(variable.bytes());
    scopes_.back().names[variable.name] = {Symbol::Kind::parameter, 0, slot(8, bytes), bytes,
                                           false};
  } else if (word == ".branchtargets") {
    tables_[last_label_] = split(rest, ',');
  } else if (word != ".callprototype" && word != ".pragma") {
    throw Fault("unknown directive in PTX: " + std::string(text));
  }
}

void Decoder::declare_registers(std::string_view text) {
  Type type;
  if (!parse_type(take_word(text).substr(1), type))
    throw Fault("unknown register type: " + std::string(text));
  const int bits = type.kind == 'p' ? 1 : std::max(type.register_bits(), 16);
  for (const std::string_view name : split(text, ',')) {
    ++function_.register_count;
    const std::size_t bracket = name.find('<');
    if (bracket == std::string_view::npos) {
      scopes_.back().names[name] = {Symbol::Kind::reg, bits, slot(bits), 0, false};
      continue;
    }
    const auto count = static_cast<std::uint32_t>(
        parse_integer(name.substr(bracket + 1, name.size() - bracket - 2)).value());
    function_.register_count += count - 1;
    scopes_.back().ranges[name.substr(0, bracket)] = {bits, count, slot(bits, count)};
  }
}

void Decoder::declare_local(const VariableText& variable) {
  const std::uint32_t alignment = variable.alignment;
  const std::uint32_t offset = (function_.local_bytes + alignment - 1) / alignment * alignment;
  const auto bytes = static_cast<std::uint32_t>(variable.bytes());
  scopes_.back().names[variable.name] = {Symbol::Kind::local, 0, offset, bytes, false};
  function_.local_bytes = offset + bytes;
}

void Decoder::read_label(std::string_view name) {
  labels_[name] = static_cast<std::uint32_t>(function_.code.size());
  last_label_ = name;
}

void Decoder::read_instruction() {
  instruction = Instruction{};
  instruction.line = static_cast<std::uint32_t>(function_.lines.size());
  function_.lines.push_back(
      {static_cast<std::uint32_t>(statement_.text.data() - module_text_.data()),
       static_cast<std::uint32_t>(statement_.text.size())});
  if (!statement_.guard.empty()) {
    const PredicateOperand guard = predicate(statement_.guard);
    instruction.guard = guard.offset;
    instruction.guard_flip = guard.is_negated ? kAllLanes : 0;
  }
  const auto place = decode_table().find(statement_.opcode[0]);
  if (place == decode_table().end()) unknown();
  place->second(*this);
  function_.code.push_back(instruction);
}

void Decoder::resolve_labels() {
  const auto target_of = [&](std::string_view label) {
    const auto place = labels_.find(label);
    if (place == labels_.end())
      throw Fault("PTX branches to an unknown label: " + std::string(label));
    return place->second;
  };
  for (const auto& [place, label] : branches_) function_.code[place].target = target_of(label);
  for (const auto& [place, name] : table_uses_) {
    std::vector<std::uint32_t> targets;
    for (const std::string_view label : tables_.at(name)) targets.push_back(target_of(label));
    function_.code[place].target = static_cast<std::uint32_t>(targets.size());
    function_.code[place].operands = add_operands(targets);
  }
}

void Decoder::branch_to(std::string_view label) {
  branches_.emplace_back(static_cast<std::uint32_t>(function_.code.size()), label);
}

void Decoder::branch_by_table(std::string_view name) {
  table_uses_.emplace_back(static_cast<std::uint32_t>(function_.code.size()), name);
}

void Decoder::unknown(std::string_view what) const {
  throw Fault("kernel " + function_.name + ": " + std::string(what) + ": " +
              std::string(statement_.text));
}

bool Decoder::has(std::string_view part) const {
  return std::find(statement_.opcode.begin() + 1, statement_.opcode.end(), part) !=
         statement_.opcode.end();
}

std::string_view Decoder::operand(std::size_t index) const {
  if (index >= statement_.operands.size()) unknown("missing operand");
  return statement_.operands[index];
}

std::vector<Type> Decoder::types() const {
  std::vector<Type> found;
  Type type;
  for (const std::string_view part : statement_.opcode) {
    if (parse_type(part, type)) found.push_back(type);
  }
  return found;
}

Type Decoder::type() const {
  const std::vector<Type> found = types();
  if (found.empty()) unknown("instruction without a type");
  return found.back();
}

std::uint32_t Decoder::slot(int bits, std::uint32_t count) {
  const std::uint32_t bytes =
      bits == 1 ? sizeof(LaneMask) : static_cast<std::uint32_t>(kLanes * bits / 8);
  const std::uint32_t offset = (function_.frame_bytes + 63) / 64 * 64;
  function_.frame_bytes = offset + bytes * count;
  return offset;
}

std::optional<Symbol> Decoder::find(std::string_view name) const {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto place = scope->names.find(name); place != scope->names.end())
      return place->second;
    if (digits == name.size()) continue;
    const auto range = scope->ranges.find(name.substr(0, digits));
    if (range == scope->ranges.end()) continue;
    const auto [bits, count, offset] = range->second;
    const std::uint64_t index = parse_integer(name.substr(digits)).value();
    if (index >= count) continue;
    const std::uint32_t bytes =
        bits == 1 ? sizeof(LaneMask) : static_cast<std::uint32_t>(kLanes * bits / 8);
    return Symbol{Symbol::Kind::reg, bits, offset + static_cast<std::uint32_t>(index) * bytes, 0,
                  false};
  }
  return std::nullopt;
}

std::uint32_t Decoder::constant(std::uint64_t value, int bits) {
  if (bits < 64) value &= (std::uint64_t{1} << bits) - 1;
  const auto [place, is_new] = constants_.try_emplace({value, bits}, 0);
  if (is_new) {
    place->second = slot(bits);
    function_.constants.push_back({place->second, static_cast<std::uint32_t>(bits / 8), value});
  }
  return place->second;
}

std::uint32_t Decoder::special(Special which, int bits, std::uint64_t addend) {
  const auto [place, is_new] = specials_.try_emplace({which, bits, addend}, 0);
  if (is_new) {
    place->second = slot(bits);
    function_.specials.push_back(
        {place->second, static_cast<std::uint32_t>(bits / 8), which, addend});
  }
  return place->second;
}

std::uint32_t Decoder::source(std::string_view text, Type type) {
  const int bits = std::max(type.register_bits(), 16);
  const std::optional<Symbol> symbol = find(text);
  if (symbol && symbol->kind == Symbol::Kind::reg) {
    if (symbol->bits != bits)
      unknown("operand " + std::string(text) + " has another width than the instruction");
    return symbol->offset;
  }
  if (const auto value = parse_immediate(text, type)) return constant(*value, bits);
  if (const auto which = special_named(text)) return special(*which, bits);
  const std::size_t plus = text.find('+');
  std::int64_t offset = 0;
  if (plus != std::string_view::npos) {
    offset = static_cast<std::int64_t>(parse_integer(trimmed(text.substr(plus + 1))).value_or(0));
  }
  return symbol_address(trimmed(text.substr(0, plus)), offset, bits);
}

std::uint32_t Decoder::symbol_address(std::string_view name, std::int64_t offset, int bits) {
  const auto addend = static_cast<std::uint64_t>(offset);
  if (const auto symbol = find(name)) {
    switch (symbol->kind) {
      case Symbol::Kind::local:
        return special(Special::local_base, bits, symbol->offset + addend);
      case Symbol::Kind::shared:
        if (symbol->is_dynamic)
          return special(Special::dynamic_shared_base, bits, symbol->offset + addend);
        return constant(symbol->offset + addend, bits);
      case Symbol::Kind::kernel_parameter:
        return constant(window_base(Window::parameter) + symbol->offset + addend, bits);
      default:
        unknown("the address of " + std::string(name) + " is taken");
    }
  }
  if (const auto shared = symbols_.shared(name)) {
    if (shared->is_dynamic)
      return special(Special::dynamic_shared_base, bits, shared->offset + addend);
    return constant(shared->offset + addend, bits);
  }
  if (const auto address = symbols_.address(name)) return constant(*address + addend, bits);
  unknown("unknown operand " + std::string(name));
}

std::uint32_t Decoder::destination(std::string_view text, int bits) {
  bits = std::max(bits, 16);
  if (text == "_") return scratch(bits);
  const std::optional<Symbol> symbol = find(text);
  if (!symbol || symbol->kind != Symbol::Kind::reg) unknown("destination is no register");
  if (symbol->bits != bits) unknown("destination has another width than the instruction");
  return symbol->offset;
}

std::uint32_t Decoder::scratch(int bits) { return slot(bits); }

std::uint32_t Decoder::carry() {
  if (!carry_) carry_ = slot(1);
  return *carry_;
}

PredicateOperand Decoder::predicate(std::string_view text) {
  const bool is_negated = text.starts_with('!');
  if (is_negated) text.remove_prefix(1);
  if (const auto value = parse_integer(text)) return {0, (*value == 0) != is_negated};
  return {predicate_destination(text), is_negated};
}

std::uint32_t Decoder::predicate_destination(std::string_view text) {
  if (text == "_") return scratch(1);
  const std::optional<Symbol> symbol = find(text);
  if (!symbol || symbol->kind != Symbol::Kind::reg || symbol->bits != 1)
    unknown("operand is no predicate");
  return symbol->offset;
}

AddressOperand Decoder::address(std::string_view text) const {
  if (!text.starts_with('[') || !text.ends_with(']')) unknown("operand is no address");
  text = trimmed(text.substr(1, text.size() - 2));
  const std::size_t plus = text.find('+');
  if (plus == std::string_view::npos) return {text, 0};
  const auto offset = parse_integer(trimmed(text.substr(plus + 1)));
  if (!offset) unknown("unknown offset of an address");
  return {trimmed(text.substr(0, plus)), static_cast<std::int64_t>(*offset)};
}

std::vector<std::string_view> Decoder::elements(std::string_view text) const {
  if (!text.starts_with('{')) return {text};
  return split(text.substr(1, text.rfind('}') - 1), ',');
}

std::uint32_t Decoder::add_operands(const std::vector<std::uint32_t>& offsets) {
  const auto place = static_cast<std::uint32_t>(function_.operands.size());
  function_.operands.insert(function_.operands.end(), offsets.begin(), offsets.end());
  return place;
}

void Decoder::operands(Type type, int sources) {
  instruction.destination = destination(operand(0), type.register_bits());
  std::uint32_t* const places[] = {&instruction.a, &instruction.b, &instruction.c};
  for (int i = 0; i < sources; ++i)
    *places[i] = source(operand(static_cast<std::size_t>(i) + 1), type);
}

}  // namespace mobius::ptx
