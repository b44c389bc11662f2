// fuzz KIND SEED COUNT [FIRST]: reads COUNT damaged files of a kind, from number FIRST on.
//
// Each is read in a separate process, and one in 25 also by the program. Failures are: a crash,
// more than 20 seconds, more than 1 GiB of memory, an invalid file that was accepted, an exception
// other than Error, a message of more than one line or with the words of a library. The file of a
// failure is kept in the current folder as fuzz-KIND-SEED-NUMBER.
#include <fmt/core.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>

#include "core/isolated.h"
#include "core/parallel.h"
#include "tests/e2e/process.h"
#include "tests/fuzz/target.h"
#include "train/io/printable.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds most_time{20};
constexpr std::int64_t most_kib = 1 << 20;
constexpr std::size_t longest_line = 2000;
constexpr std::uint64_t program_every = 25;

using MakeTarget = std::unique_ptr<FuzzTarget> (*)(const fs::path& folder);

const std::map<std::string, MakeTarget> kinds = {{"yaml", make_yaml_target},
                                                 {"checkpoint", make_checkpoint_target},
                                                 {"safetensors", make_safetensors_target},
                                                 {"tokens", make_tokens_target}};

std::string fault_of_line(const std::string& line) {
  if (line.size() > longest_line)
    return fmt::format("a line of {} bytes: {}", line.size(), line.substr(0, 200));
  for (const char* words :
       {"json.exception", "yaml-cpp", "H5", "std::", "basic_string", "vector::"}) {
    if (line.find(words) != std::string::npos) return "the words of a library: " + line;
  }
  return "";
}

// Returns what is wrong with a message to the user about the file, or "". A configuration may have
// several faults, each on a separate line with its position.
std::string fault_of_message(const std::string& message, const fs::path& file) {
  const std::vector<std::string> lines = lines_of(message);
  if (lines.empty()) return "the message is empty";
  for (const std::string& line : lines) {
    if (const std::string fault = fault_of_line(line); !fault.empty()) return fault;
    if (lines.size() > 1 && !line.starts_with(file.string() + ":"))
      return "more than one line: " + message;
  }
  return "";
}

struct ReadOutcome {
  bool is_taken = false;
  std::string fault;  // "" if there is none
};

// Runs in the child. Returns the result of read(), and foreign exceptions as a fault.
std::string read_and_tell(const FuzzTarget& target, const fs::path& file) {
  try {
    return target.read(file);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    return std::string("an exception of a library: ") + error.what();
  }
}

ReadOutcome read_isolated(const FuzzTarget& target, const fs::path& file) {
  const IsolationLimits limits{
      .processor = most_time, .wall = 3 * most_time, .memory = std::size_t{4} << 30};
  try {
    const IsolatedResult result = run_isolated([&] { return read_and_tell(target, file); }, limits);
    if (!result.answer)
      return {false, fmt::format("the process died or took too long (signal {})", result.signal)};
    if (result.peak_kib > most_kib)
      return {true, fmt::format("it took {} MiB of memory", result.peak_kib / 1024)};
    return {true, *result.answer};
  } catch (const Error& error) {
    return {false, fault_of_message(printable_lines(error.what()), file)};
  }
}

// Returns what is wrong with the program's behaviour on the file, or "".
std::string run_program(const FuzzTarget& target, const fs::path& file) {
  Process process(mobius_command(target.command(file)));
  const auto deadline = std::chrono::steady_clock::now() + 3 * most_time;
  while (!process.has_ended()) {
    if (std::chrono::steady_clock::now() > deadline) return "the program takes too long";
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const Outcome outcome = process.wait();
  if (outcome.signal != 0) return fmt::format("the program died of signal {}", outcome.signal);
  if (outcome.peak_kib > most_kib)
    return fmt::format("the program took {} MiB of memory", outcome.peak_kib / 1024);
  if (outcome.exit_code == 0) return "";
  constexpr std::string_view prefix = "mobius: error: ";
  if (outcome.exit_code > 3 || !outcome.err.starts_with(prefix) || !outcome.err.ends_with('\n'))
    return fmt::format("exit code {}: {}", outcome.exit_code, outcome.err);
  return fault_of_message(outcome.err.substr(prefix.size()), file);
}

std::uint64_t number_of(const char* text) {
  std::uint64_t number = 0;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end()) throw Error("expected a number, got {}", text);
  return number;
}

int fuzz(const std::string& kind, std::uint64_t seed, std::uint64_t count, std::uint64_t first) {
  const auto found = kinds.find(kind);
  if (found == kinds.end()) throw Error("unknown kind {}", kind);
  set_num_threads(1);  // a forked child has only one thread
  const TemporaryFolder folder;
  const std::unique_ptr<FuzzTarget> target = found->second(folder.path());
  const fs::path file = folder / "input";
  std::uint64_t taken = 0, faults = 0;
  for (std::uint64_t index = first; index < first + count; ++index) {
    FuzzRandom random(seed, index);
    write_text(file, target->make(random));
    auto [is_taken, fault] = read_isolated(*target, file);
    if (fault.empty() && index % program_every == 0) fault = run_program(*target, file);
    taken += is_taken;
    if (fault.empty()) continue;
    ++faults;
    const std::string kept = fmt::format("fuzz-{}-{}-{}", kind, seed, index);
    fs::copy_file(file, kept, fs::copy_options::overwrite_existing);
    fmt::print("{}: {}\n", kept, printable(fault));
    std::fflush(stdout);
  }
  fmt::print("{}: {} files, of which {} were accepted; {} faults\n", kind, count, taken, faults);
  return faults == 0 ? 0 : 1;
}

}  // namespace

}  // namespace mobius

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fmt::print(stderr, "fuzz yaml|checkpoint|safetensors|tokens SEED COUNT [FIRST]\n");
    return 2;
  }
  try {
    return mobius::fuzz(argv[1], mobius::number_of(argv[2]), mobius::number_of(argv[3]),
                        argc == 5 ? mobius::number_of(argv[4]) : 0);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fuzz: {}\n", error.what());
    return 2;
  }
}
