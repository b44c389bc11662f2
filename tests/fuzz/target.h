// What a fuzzer tries: a kind of file, and the parts of Mobius that read it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.h"

namespace mobius {

/// Found by a check: a file that should have been refused was taken.
inline std::string nonsense(const std::string& what) { return "taken, but " + what; }

class FuzzTarget {
 public:
  virtual ~FuzzTarget() = default;

  /// A file of the kind, mostly damaged. Depends on the random numbers alone.
  virtual std::string make(FuzzRandom& random) = 0;

  /// Reads the file in every way that Mobius does. Throws Error where it is refused. Returns "", or
  /// what is wrong with having taken it. Called in a process of its own.
  virtual std::string read(const std::filesystem::path& file) const = 0;

  /// The arguments of a command of `mobius` that reads the file.
  virtual std::vector<std::string> command(const std::filesystem::path& file) const = 0;
};

/// Good files that they need are written to the folder.
std::unique_ptr<FuzzTarget> make_yaml_target(const std::filesystem::path& folder);
std::unique_ptr<FuzzTarget> make_checkpoint_target(const std::filesystem::path& folder);
std::unique_ptr<FuzzTarget> make_safetensors_target(const std::filesystem::path& folder);
std::unique_ptr<FuzzTarget> make_tokens_target(const std::filesystem::path& folder);

/// The configuration of a run that takes milliseconds.
inline constexpr const char* fuzz_config = R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 4}
model: {d_model: 8, n_layers: 1, n_heads: 1}
train: {max_steps: 1, batch_size: 2, threads: 1, log_every: 1}
eval: {every: 0}
)";

}  // namespace mobius
