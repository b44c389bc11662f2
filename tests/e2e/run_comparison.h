// Compares two runs bit for bit.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "train/run/experiment.h"

namespace mobius {

/// Returns the lines of metrics.jsonl without their timing.
inline std::vector<nlohmann::json> metrics_in(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(read_text(run / "metrics.jsonl"))) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("tokens_per_s");
  }
  return lines;
}

/// Returns the lines of one split.
inline std::vector<nlohmann::json> metrics_in(const std::filesystem::path& run,
                                              const std::string& split) {
  std::vector<nlohmann::json> lines = metrics_in(run);
  std::erase_if(lines, [&](const nlohmann::json& line) { return line.at("split") != split; });
  return lines;
}

/// Returns parameters, buffers, optimiser state and step counts, as bytes.
inline std::string state_in(const std::filesystem::path& checkpoint, const Registries& known = {}) {
  const CheckpointHeader header = read_checkpoint_header(checkpoint);
  const auto config = parse_config(header.config, checkpoint.string(), known);
  config->train.device = "cpu";  // wherever it was trained
  const Experiment experiment = build_experiment(*config);
  const CheckpointTensors tensors = tensors_of(*experiment.model, *experiment.optimizer);
  load_checkpoint(checkpoint, tensors);
  std::string state = fmt::format("{} {}\n", header.step, header.optimizer_steps);
  for (const auto* group : {&tensors.parameters, &tensors.buffers, &tensors.optimizer}) {
    for (const NamedTensor& tensor : *group) {
      state += tensor.name;
      state.append(static_cast<const char*>(tensor.value.raw()), tensor.value.bytes());
    }
  }
  return state;
}

inline std::filesystem::path step_file(const std::filesystem::path& run, std::int64_t step) {
  return checkpoint_path(run / "checkpoints", step);
}

/// Returns summary.json without values that differ between processes.
inline nlohmann::json summary_of(const std::filesystem::path& run) {
  nlohmann::json summary = nlohmann::json::parse(read_text(run / "summary.json"));
  for (const char* key : {"train_seconds", "step_ms", "tokens_per_s", "peak_bytes", "threads"}) {
    summary.erase(key);
  }
  return summary;
}

/// The results of a run, except for times.
struct RunEnd {
  std::vector<nlohmann::json> metrics;
  nlohmann::json summary;
  std::string last_state;
  std::string best_state;

  bool operator==(const RunEnd&) const = default;
};

inline RunEnd end_of_run(const std::filesystem::path& run, std::int64_t last_step,
                         const Registries& known = {}) {
  return {metrics_in(run), summary_of(run), state_in(step_file(run, last_step), known),
          state_in(run / "checkpoints" / "best.h5", known)};
}

/// Prints it for gtest, with hashes of the states.
inline void PrintTo(const RunEnd& end, std::ostream* out) {
  *out << end.summary << " with states " << std::hash<std::string>()(end.last_state) << " and "
       << std::hash<std::string>()(end.best_state) << " and metrics";
  for (const nlohmann::json& line : end.metrics) *out << "\n" << line;
}

inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b,
                            std::int64_t last_step, const Registries& known = {}) {
  EXPECT_EQ(end_of_run(a, last_step, known), end_of_run(b, last_step, known)) << a << " and " << b;
}

}  // namespace mobius
