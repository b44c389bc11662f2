// The targets of the fuzzer: a kind of file, and the parts of Mobius that read it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/mutation.h"

namespace mobius {

/// Describes a file that was accepted, but should have been refused.
inline std::string nonsense(const std::string& what) { return "accepted, but " + what; }

class FuzzTarget {
 public:
  virtual ~FuzzTarget() = default;

  /// Makes a file of the kind, mostly damaged. Depends only on the random numbers.
  virtual std::string make(FuzzRandom& random) = 0;

  /// Reads the file in every way that Mobius does. Throws Error if it is refused. Returns "", or
  /// why it should not have been accepted. Runs in a separate process.
  virtual std::string read(const std::filesystem::path& file) const = 0;

  /// Returns the arguments of a `mobius` command that reads the file.
  virtual std::vector<std::string> command(const std::filesystem::path& file) const = 0;
};

/// Make targets, which write the valid files that they need to the folder.
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
