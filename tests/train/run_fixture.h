// Folders and small runs for the tests of train/.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/error_of.h"
#include "tests/temporary_folder.h"
#include "train/run/trainer.h"

namespace mobius {

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

/// Trains to the end.
inline RunSummary train_in(const std::filesystem::path& folder, const Registries& known,
                           const std::vector<std::string>& overrides = {},
                           const std::string& resume = "", const std::string& text = kTinyRun) {
  return train_in(folder, known, StopSignal(), overrides, resume, text);
}

}  // namespace mobius
