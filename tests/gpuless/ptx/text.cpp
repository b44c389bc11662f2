#include "tests/gpuless/ptx/text.h"

#include <charconv>

#include "tests/gpuless/ptx/fault.h"

namespace mobius::ptx {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%' || c == '.';
}

// Skips white space and comments.
std::string_view skip_space(std::string_view text) {
  for (;;) {
    std::size_t i = 0;
    while (i < text.size() && is_space(text[i])) ++i;
    text.remove_prefix(i);
    if (text.starts_with("//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.starts_with("/*")) {
      const std::size_t end = text.find("*/");
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      return text;
    }
  }
}

std::string_view skip_line(std::string_view text) {
  text.remove_prefix(std::min(text.find('\n'), text.size()));
  return text;
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The length of a text up to the brace that closes the one before its start.
std::size_t body_length(std::string_view text) {
  int depth = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  throw Fault("PTX text ends inside braces");
}

std::vector<VariableText> read_parameters(std::string_view text) {
  std::vector<VariableText> parameters;
  if (trimmed(text).empty()) return parameters;
  for (const std::string_view one : split(text, ',')) parameters.push_back(read_variable(one));
  return parameters;
}

// Removes and returns what is between a pair of parentheses at the start.
std::string_view take_parentheses(std::string_view& text) {
  text = skip_space(text);
  if (!text.starts_with('(')) return {};
  const std::size_t end = text.find(')');
  const std::string_view inside = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  return inside;
}

std::uint32_t product(std::string_view numbers) {
  std::uint64_t threads = 1;
  for (const std::string_view one : split(numbers, ',')) threads *= number(one);
  return static_cast<std::uint32_t>(threads);
}

// Reads the directives between the parameters and the body: `.maxntid 256, 1, 1 .minnctapersm 2`.
void read_limits(std::string_view text, FunctionText& function) {
  while (!(text = skip_space(text)).empty()) {
    const std::size_t next = text.find('.', 1);
    std::string_view directive = text.substr(0, next);
    text.remove_prefix(directive.size());
    const std::string_view word = take_word(directive);
    if (word == ".maxntid" || word == ".reqntid") function.max_threads = product(directive);
  }
}

// Reads from behind .func or .entry to the brace or semicolon; returns what follows that.
std::string_view read_function(std::string_view text, bool is_entry, ModuleText& module) {
  FunctionText function;
  function.is_entry = is_entry;
  function.results = read_parameters(take_parentheses(text));
  text = skip_space(text);
  std::size_t length = 0;
  while (length < text.size() && is_name(text[length])) ++length;
  function.name = text.substr(0, length);
  text.remove_prefix(length);
  function.parameters = read_parameters(take_parentheses(text));
  const std::size_t end = text.find_first_of("{;");
  if (end == std::string_view::npos) throw Fault("PTX text ends inside a function");
  read_limits(text.substr(0, end), function);
  const bool has_body = text[end] == '{';
  text.remove_prefix(end + 1);
  if (has_body) {
    function.body = text.substr(0, body_length(text));
    text.remove_prefix(function.body.size() + 1);
  }
  FunctionText& known = module.functions[function.name];
  if (has_body || known.name.empty()) known = function;
  return text;
}

}  // namespace

bool parse_type(std::string_view text, Type& type) {
  if (text == "pred") {
    type = {'p', 1, false};
  } else if (text == "bf16" || text == "bf16x2") {
    type = {'B', 16, text.size() > 4};
  } else if (text == "f16x2") {
    type = {'f', 16, true};
  } else if (text == "tf32") {
    type = {'t', 32, false};
  } else {
    if (text.size() < 2 || std::string_view("fsub").find(text[0]) == std::string_view::npos)
      return false;
    int bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), bits);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    type = {text[0], bits, false};
  }
  return true;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == separator && depth == 0) {
      pieces.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  pieces.push_back(trimmed(text.substr(begin)));
  return pieces;
}

std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  std::size_t length = 0;
  while (length < text.size() && !is_space(text[length])) ++length;
  const std::string_view word = text.substr(0, length);
  text = trimmed(text.substr(length));
  return word;
}

VariableText read_variable(std::string_view text) {
  VariableText variable;
  if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
    variable.initialiser = trimmed(text.substr(equals + 1));
    text = text.substr(0, equals);
  }
  std::string_view name;
  while (!(text = trimmed(text)).empty()) {
    const std::string_view word = take_word(text);
    if (word == ".align") {
      const std::uint32_t alignment = static_cast<std::uint32_t>(number(take_word(text)));
      // `.ptr .global .align 4` says where a pointer parameter points.
      if (variable.space != "ptr") variable.alignment = alignment;
    } else if (word == ".extern") {
      variable.is_extern = true;
    } else if (word == ".ptr") {
      variable.space = "ptr";
    } else if (word.starts_with('.')) {
      if (!parse_type(word.substr(1), variable.type) && variable.space.empty()) {
        if (word != ".visible" && word != ".weak" && word != ".common" &&
            word != ".attribute(.managed)") {
          variable.space = word.substr(1);
        }
      }
    } else {
      name = word;
    }
  }
  const std::size_t bracket = name.find('[');
  variable.name = name.substr(0, bracket);
  while (name.find('[') != std::string_view::npos) {
    name.remove_prefix(name.find('[') + 1);
    variable.is_unsized |= name.starts_with(']');
    variable.elements *= number(name);
  }
  variable.alignment =
      std::max(variable.alignment, static_cast<std::uint32_t>(variable.type.bits / 8));
  return variable;
}

ModuleText read_module(std::string_view text) {
  ModuleText module;
  while (!(text = skip_space(text)).empty()) {
    std::string_view rest = text;
    std::string_view word = take_word(rest);
    while (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common")
      word = take_word(rest);
    if (word == ".entry" || word == ".func") {
      text = read_function(rest, word == ".entry", module);
    } else if (word == ".section") {
      const std::size_t open = rest.find('{') + 1;
      text = rest.substr(open + body_length(rest.substr(open)) + 1);
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      const std::size_t end = text.find(';');
      const VariableText variable = read_variable(text.substr(0, end));
      module.variables[variable.name] = variable;
      text.remove_prefix(end + 1);
    } else if (word == ".version" || word == ".target" || word == ".address_size" ||
               word == ".file") {
      text = skip_line(text);
    } else {
      throw Fault("unknown PTX at module scope: " + std::string(text.substr(0, text.find('\n'))));
    }
  }
  return module;
}

bool StatementReader::next(Statement& statement) {
  rest_ = skip_space(rest_);
  while (rest_.starts_with(".loc\t") || rest_.starts_with(".loc "))
    rest_ = skip_space(skip_line(rest_));
  if (rest_.empty()) return false;
  if (rest_[0] == '{' || rest_[0] == '}') {
    statement.kind = rest_[0] == '{' ? Statement::Kind::open : Statement::Kind::close;
    statement.text = rest_.substr(0, 1);
    rest_.remove_prefix(1);
    return true;
  }
  std::size_t length = 0;
  while (length < rest_.size() && is_name(rest_[length])) ++length;
  std::string_view behind = rest_.substr(length);
  while (!behind.empty() && (behind[0] == ' ' || behind[0] == '\t')) behind.remove_prefix(1);
  if (length > 0 && behind.starts_with(':') && !behind.starts_with("::")) {
    statement.kind = Statement::Kind::label;
    statement.text = rest_.substr(0, length);
    rest_ = behind.substr(1);
    return true;
  }
  const std::size_t end = rest_.find(';');
  if (end == std::string_view::npos)
    throw Fault("PTX statement without an end: " + std::string(rest_.substr(0, 80)));
  std::string_view text = trimmed(rest_.substr(0, end));
  rest_.remove_prefix(end + 1);
  statement.text = text;
  statement.kind =
      text.starts_with('.') ? Statement::Kind::directive : Statement::Kind::instruction;
  if (statement.kind == Statement::Kind::directive) return true;
  statement.guard = {};
  if (text.starts_with('@')) statement.guard = take_word(text).substr(1);
  statement.opcode = split(take_word(text), '.');
  statement.operands.clear();
  if (!text.empty()) statement.operands = split(text, ',');
  return true;
}

}  // namespace mobius::ptx
