#include "tests/gpuless/ptx/system_calls.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/gpuless/ptx/memory_path.h"
#include "tests/gpuless/ptx/warp.h"

namespace mobius::ptx {

namespace {

template <typename T>
T argument(Warp& warp, const Instruction& instruction, std::size_t index, int lane) {
  const std::byte* const place = warp.lanes_of<std::byte>(warp.operands(instruction)[2 + index]);
  T value;
  std::memcpy(&value, place + static_cast<std::size_t>(lane) * sizeof(T), sizeof(T));
  return value;
}

std::string text_at(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address) {
  std::string text;
  for (char c = 1;; text += c) {
    read_generic(warp, instruction, lane, address + text.size(), 1, &c);
    if (c == 0) return text;
  }
}

/// The arguments of a printf, one behind the other at their alignment.
class PrintfArguments {
 public:
  PrintfArguments(Warp& warp, const Instruction& instruction, int lane, std::uint64_t address)
      : warp_(warp), instruction_(instruction), lane_(lane), address_(address) {}

  template <typename T>
  T take() {
    address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    read_generic(warp_, instruction_, lane_, address_, sizeof(T), &value);
    address_ += sizeof(T);
    return value;
  }

 private:
  Warp& warp_;
  const Instruction& instruction_;
  int lane_;
  std::uint64_t address_;
};

template <typename T>
std::string formatted(const std::string& directive, T value) {
  char text[512];
  std::snprintf(text, sizeof text, directive.c_str(), value);
  return text;
}

// Formats one directive, such as %5.2f, with the arguments that it takes.
std::string formatted(Warp& warp, const Instruction& instruction, int lane, std::string directive,
                      PrintfArguments& arguments) {
  const char conversion = directive.back();
  if (conversion == '%') return "%";
  for (std::size_t star; (star = directive.find('*')) != std::string::npos;) {
    directive.replace(star, 1, std::to_string(arguments.take<int>()));
  }
  if (std::strchr("fFeEgGaA", conversion) != nullptr)
    return formatted(directive, arguments.take<double>());
  if (conversion == 's') {
    return formatted(directive,
                     text_at(warp, instruction, lane, arguments.take<std::uint64_t>()).c_str());
  }
  if (conversion == 'p' || directive.find('l') != std::string::npos ||
      directive.find('z') != std::string::npos) {
    return formatted(directive, arguments.take<std::uint64_t>());
  }
  return formatted(directive, arguments.take<std::uint32_t>());
}

void print(Warp& warp, const Instruction& instruction, int lane) {
  const std::string format =
      text_at(warp, instruction, lane, argument<std::uint64_t>(warp, instruction, 0, lane));
  PrintfArguments arguments(warp, instruction, lane,
                            argument<std::uint64_t>(warp, instruction, 1, lane));
  std::string output;
  for (std::size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      output += format[i++];
      continue;
    }
    const std::size_t end = format.find_first_of("diuoxXcspfFeEgGaA%", i + 1);
    if (end == std::string::npos) break;
    output += formatted(warp, instruction, lane, format.substr(i, end + 1 - i), arguments);
    i = end + 1;
  }
  std::fputs(output.c_str(), stdout);
}

void run_printf(Warp& warp, const Instruction& instruction, LaneMask active) {
  for (LaneMask rest = active; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    print(warp, instruction, lane);
    const std::uint32_t* const places = warp.operands(instruction);
    if (places[1] != 0) warp.lanes_of<std::uint32_t>(places[2 + places[0]])[lane] = 0;
  }
}

void run_assertion_failure(Warp& warp, const Instruction& instruction, LaneMask active) {
  const int lane = std::countr_zero(active);
  const auto text = [&](std::size_t index) {
    return text_at(warp, instruction, lane,
                   argument<std::uint64_t>(warp, instruction, index, lane));
  };
  warp.fault(instruction, lane,
             "assertion `" + text(0) + "` failed at " + text(1) + ":" +
                 std::to_string(argument<std::uint32_t>(warp, instruction, 2, lane)));
}

}  // namespace

Run system_call(std::string_view name) {
  if (name == "vprintf") return &run_printf;
  if (name == "__assertfail") return &run_assertion_failure;
  return nullptr;
}

}  // namespace mobius::ptx
