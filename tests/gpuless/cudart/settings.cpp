#include "tests/gpuless/cudart/settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace mobius::gpuless {
namespace {

[[noreturn]] void reject(const char* variable, std::string_view value, const char* expected) {
  std::fprintf(stderr, "gpuless: %s: expected %s, got '%.*s'\n", variable, expected,
               static_cast<int>(value.size()), value.data());
  std::abort();
}

std::optional<std::uint64_t> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return std::nullopt;
  const std::string_view value = text;
  std::uint64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error != std::errc{} || end != value.data() + value.size())
    reject(variable, value, "a whole number");
  return result;
}

cudaError_t unavailable() {
  const char* text = std::getenv("MOBIUS_GPULESS_FAIL");
  if (!text) return cudaSuccess;
  const std::string_view value = text;
  if (value == "no-driver") return cudaErrorInsufficientDriver;
  if (value == "no-device") return cudaErrorNoDevice;
  reject("MOBIUS_GPULESS_FAIL", value, "no-driver or no-device");
}

Settings read() {
  Settings result;
  result.unavailable = unavailable();
  if (const auto n = number("MOBIUS_GPULESS_DEVICES")) result.devices = static_cast<int>(*n);
  if (const auto n = number("MOBIUS_GPULESS_MEMORY")) result.memory_bytes = *n;
  if (const auto n = number("MOBIUS_GPULESS_CAPABILITY")) {
    if (*n != 80 && *n != 90)
      reject("MOBIUS_GPULESS_CAPABILITY", std::getenv("MOBIUS_GPULESS_CAPABILITY"), "80 or 90");
    result.capability = static_cast<int>(*n);
  }
  if (const auto n = number("MOBIUS_GPULESS_MULTIPROCESSORS"))
    result.multiprocessors = static_cast<int>(*n);
  if (const auto n = number("MOBIUS_GPULESS_SEED")) result.seed = *n;
  if (const auto n = number("MOBIUS_GPULESS_ABORT")) result.aborts = *n != 0;
  result.lose_after = number("MOBIUS_GPULESS_LOSE_AFTER");
  if (const char* report = std::getenv("MOBIUS_GPULESS_REPORT")) result.report = report;
  return result;
}

}  // namespace

const Settings& settings() {
  // Never destroyed: the report is written when everything else is gone.
  static const Settings* const result = new Settings(read());
  return *result;
}

}  // namespace mobius::gpuless
