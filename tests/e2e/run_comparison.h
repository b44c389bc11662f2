// Whether two runs are the same, to the bit.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "train/experiment.h"

namespace mobius {

/// The lines of metrics.jsonl without their timing.
inline std::vector<nlohmann::json> metrics_in(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(read_text(run / "metrics.jsonl"))) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("tokens_per_s");
  }
  return lines;
}

/// The same of one split.
inline std::vector<nlohmann::json> metrics_in(const std::filesystem::path& run,
                                              const std::string& split) {
  std::vector<nlohmann::json> lines = metrics_in(run);
  std::erase_if(lines, [&](const nlohmann::json& line) { return line.at("split") != split; });
  return lines;
}

/// Parameters, buffers, optimiser state and step counts, as bytes.
inline std::string state_in(const std::filesystem::path& checkpoint, const Registries& known = {}) {
  const CheckpointHeader header = read_checkpoint_header(checkpoint);
  const auto config = parse_config(header.config, checkpoint.string(), known);
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

inline void expect_same_run(const std::filesystem::path& a, const std::filesystem::path& b,
                            std::int64_t last_step, const Registries& known = {}) {
  EXPECT_EQ(metrics_in(a), metrics_in(b));
  EXPECT_TRUE(state_in(step_file(a, last_step), known) == state_in(step_file(b, last_step), known))
      << a << " and " << b << " end with different parameters or optimiser state";
}

}  // namespace mobius
