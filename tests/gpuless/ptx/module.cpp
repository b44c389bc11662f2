#include "tests/gpuless/ptx/module.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "tests/gpuless/ptx/allocation.h"
#include "tests/gpuless/ptx/decoder.h"
#include "tests/gpuless/ptx/fault.h"
#include "tests/gpuless/ptx/text.h"

namespace mobius::ptx {

struct Module::State {
  std::shared_ptr<const std::string> text;
  DeviceMemory& memory;
  ModuleText items;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const Kernel>, std::less<>> kernels;
  std::map<std::string_view, DeviceMemory::Range> placed;

  State(std::string all, DeviceMemory& device)
      : text(std::make_shared<const std::string>(std::move(all))), memory(device) {
    items = read_module(*text);
  }
  DeviceMemory::Range place(const VariableText& variable);
  std::uint64_t function_address(std::string_view name) const;
  std::optional<std::uint64_t> address(std::string_view name);
  void initialise(const VariableText& variable, std::vector<unsigned char>& bytes);
  std::uint64_t initial_value(std::string_view text, const Type& type);
  std::unique_ptr<const Kernel> decode(std::string_view name);
};

namespace {

/// Symbols as one kernel sees them: shared variables get room in its own layout.
class KernelSymbols : public SymbolResolver {
 public:
  KernelSymbols(Module::State& module, Program& program, bool& uses_dynamic)
      : module_(module), program_(program), uses_dynamic_(uses_dynamic) {}

  std::optional<Shared> shared(std::string_view name) override {
    const auto known = shared_.find(name);
    if (known != shared_.end()) return known->second;
    const auto variable = module_.items.variables.find(name);
    if (variable == module_.items.variables.end() || variable->second.space != "shared")
      return std::nullopt;
    return declare_shared(variable->second);
  }

  Shared declare_shared(const VariableText& variable) override {
    if (variable.is_unsized) {
      uses_dynamic_ = true;
      return shared_[variable.name] = {0, true};
    }
    const std::uint32_t alignment = std::max(variable.alignment, 1u);
    const std::uint32_t offset =
        (program_.static_shared_bytes + alignment - 1) / alignment * alignment;
    program_.static_shared_bytes = offset + static_cast<std::uint32_t>(variable.bytes());
    return shared_[variable.name] = {offset, false};
  }

  std::optional<std::uint64_t> address(std::string_view name) override {
    return module_.address(name);
  }

  std::optional<std::uint32_t> function(std::string_view name) override {
    const auto known = functions_.find(name);
    if (known != functions_.end()) return known->second;
    const auto text = module_.items.functions.find(name);
    if (text == module_.items.functions.end() || text->second.body.empty()) return std::nullopt;
    const auto index = static_cast<std::uint32_t>(program_.functions.size());
    functions_[name] = index;
    program_.functions.push_back(std::make_unique<Function>());
    // Decoding below may add functions: the reference to this one stays.
    Function& function = *program_.functions.back();
    Decoder(function, text->second, *program_.text, *this).decode();
    function.address = module_.function_address(name);
    return index;
  }

  /// All functions with a body whose address the module may store.
  void add_addressable() override {
    for (const auto& [name, text] : module_.items.functions) {
      if (!text.is_entry && !text.body.empty()) function(name);
    }
  }

 private:
  Module::State& module_;
  Program& program_;
  bool& uses_dynamic_;
  std::map<std::string_view, Shared> shared_;
  std::map<std::string_view, std::uint32_t> functions_;
};

std::uint32_t end_of(const std::vector<FrameParameter>& parameters) {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
}

}  // namespace

std::unique_ptr<const Kernel> Module::State::decode(std::string_view name) {
  const auto text_of = items.functions.find(name);
  if (text_of == items.functions.end() || !text_of->second.is_entry) {
    throw Fault("the module has no kernel " + std::string(name));
  }
  auto kernel = std::make_unique<Kernel>();
  auto program = std::make_shared<Program>();
  program->text = text;
  KernelSymbols symbols(*this, *program, kernel->uses_dynamic_shared);
  symbols.function(name);
  const Function& entry = *program->functions[0];
  kernel->name = name;
  for (const FrameParameter& parameter : entry.parameters) {
    kernel->parameters.push_back({parameter.offset, parameter.bytes});
  }
  kernel->parameter_bytes = program->parameter_bytes = end_of(entry.parameters);
  kernel->static_shared_bytes = program->static_shared_bytes;
  kernel->max_threads = text_of->second.max_threads;
  kernel->registers = entry.register_count;
  kernel->program = std::move(program);
  return kernel;
}

DeviceMemory::Range Module::State::place(const VariableText& variable) {
  const auto [known, is_new] = placed.try_emplace(variable.name);
  if (!is_new) return known->second;
  std::vector<unsigned char> bytes(variable.bytes(), 0);
  known->second = {memory.allocate(bytes.size(), variable.name), bytes.size()};
  if (!variable.initialiser.empty()) initialise(variable, bytes);
  // Variables without an initialiser start as zeros.
  memory.copy_from_host(known->second.address, bytes.data(), bytes.size());
  return known->second;
}

void Module::State::initialise(const VariableText& variable, std::vector<unsigned char>& bytes) {
  std::string_view list = variable.initialiser;
  if (list.starts_with('{')) list = list.substr(1, list.rfind('}') - 1);
  const auto size = static_cast<std::size_t>(variable.type.bits / 8);
  std::size_t offset = 0;
  for (std::string_view one : split(list, ',')) {
    // Nested braces of arrays of arrays follow each other in memory.
    while (one.starts_with('{')) one = trimmed(one.substr(1));
    while (one.ends_with('}')) one = trimmed(one.substr(0, one.size() - 1));
    const std::uint64_t value = initial_value(one, variable.type);
    if (offset + size > bytes.size())
      throw Fault("too many initial values for " + std::string(variable.name));
    std::memcpy(bytes.data() + offset, &value, size);
    offset += size;
  }
}

std::uint64_t Module::State::initial_value(std::string_view text_of, const Type& type) {
  if (const auto value = parse_immediate(text_of, type)) return *value;
  // Of `generic(table)+4` and `generic(table+4)` the parentheses say nothing that addresses do not.
  std::string plain(text_of);
  std::erase_if(plain, [](char c) { return c == ')'; });
  text_of = plain;
  if (text_of.starts_with("generic(")) text_of.remove_prefix(8);
  const std::size_t plus = text_of.find('+');
  std::uint64_t offset = 0;
  if (plus != std::string_view::npos) {
    offset = parse_immediate(trimmed(text_of.substr(plus + 1)), type).value_or(0);
  }
  const auto base = address(trimmed(text_of.substr(0, plus)));
  if (!base) throw Fault("unknown initial value in PTX: " + std::string(text_of));
  return *base + offset;
}

std::uint64_t Module::State::function_address(std::string_view name) const {
  const auto place_of = items.functions.find(name);
  return window_base(Window::function) +
         16 * static_cast<std::uint64_t>(std::distance(items.functions.begin(), place_of));
}

std::optional<std::uint64_t> Module::State::address(std::string_view name) {
  const auto variable = items.variables.find(name);
  if (variable != items.variables.end() && variable->second.space != "shared")
    return place(variable->second).address;
  if (items.functions.contains(name)) return function_address(name);
  return std::nullopt;
}

Module::Module(std::string text, DeviceMemory& memory)
    : state_(std::make_unique<State>(std::move(text), memory)) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;

const Kernel& Module::kernel(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  const auto known = state_->kernels.find(name);
  if (known != state_->kernels.end()) return *known->second;
  return *(state_->kernels[std::string(name)] = state_->decode(name));
}

bool Module::has_kernel(std::string_view name) const {
  const auto known = state_->items.functions.find(name);
  return known != state_->items.functions.end() && known->second.is_entry;
}

std::vector<std::string> Module::kernel_names() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : state_->items.functions) {
    if (function.is_entry && !function.body.empty()) names.emplace_back(name);
  }
  return names;
}

DeviceMemory::Range Module::symbol(std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  const auto variable = state_->items.variables.find(name);
  if (variable == state_->items.variables.end() || variable->second.space == "shared") {
    throw Fault("the module has no variable " + std::string(name));
  }
  return state_->place(variable->second);
}

}  // namespace mobius::ptx
