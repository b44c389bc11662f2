// Folders and small runs for the tests of train/.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/error_of.h"
#include "train/trainer.h"

namespace mobius {

/// Where temporary folders are made: in memory where the system offers that, for a run writes to
/// the disk for good and does not go on before.
inline std::filesystem::path temporary_root() {
  const std::filesystem::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
}

/// A folder that is gone at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (temporary_root() / "mobius-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// A run that takes milliseconds: 6 steps of 8 short sequences.
constexpr const char* kTinyRun = R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2, dropout: 0.1}
train: {max_steps: 6, batch_size: 8, accumulation_steps: 2, threads: 1, log_every: 1}
eval: {every: 3}
checkpoint: {every: 2}
)";

inline std::unique_ptr<Config> config_of(const std::string& text,
                                         const std::vector<std::string>& overrides,
                                         const Registries& known) {
  ConfigDocument document = ConfigDocument::from_text(text, "tiny.yaml");
  for (const std::string& assignment : overrides) document.override_with(assignment);
  return make_config(document, known);
}

/// Trains in `folder`, without a word, until `stop` asks to end.
inline RunSummary train_in(const std::filesystem::path& folder, const Registries& known,
                           const StopSignal& stop, const std::vector<std::string>& overrides,
                           const std::string& resume, const std::string& text = kTinyRun) {
  const auto config = config_of(text, overrides, known);
  config->output.dir = folder.string();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> quiet(std::tmpfile(), std::fclose);
  Progress progress(quiet.get());
  return run_training(*config, Resume::parse(resume), known, progress, stop);
}

/// The same to the end.
inline RunSummary train_in(const std::filesystem::path& folder, const Registries& known,
                           const std::vector<std::string>& overrides = {},
                           const std::string& resume = "", const std::string& text = kTinyRun) {
  return train_in(folder, known, StopSignal(), overrides, resume, text);
}

}  // namespace mobius
