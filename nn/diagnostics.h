// Diagnostics: named numbers that layers report about themselves.
//
// A caller passes a DiagnosticsSink in the ForwardContext. Without one, layers count nothing and
// read nothing back from the device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mobius {

/// One number per head, or per key/value head.
struct Diagnostic {
  std::string name;  // such as "alpha" or "entropy"
  std::vector<double> heads;
  /// The name under which the mean over heads and layers is reported beside the loss; empty if it
  /// is not reported.
  std::string summary = {};
};

/// The diagnostics of one layer.
struct LayerDiagnostics {
  std::vector<Diagnostic> values = {};
  Tensor weights = {};  // [H, N, N] of the first sequence; undefined unless they were asked for
};

/// What a sink asks for. From `entropy` on, attention layers form their weights, which is too slow
/// for every training step.
enum class Diagnosis {
  summary,  ///< values with a summary, at almost no cost
  entropy,  ///< also parameters and the mean entropy of the weights, in memory linear in N
  weights   ///< also all weights on the first sequence, N^2 per head, for short sequences
};

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Collects the diagnostics of one forward pass.
class DiagnosticsSink {
 public:
  explicit DiagnosticsSink(Diagnosis diagnosis = Diagnosis::summary) : diagnosis_(diagnosis) {}

  bool asks_for(Diagnosis diagnosis) const { return diagnosis_ >= diagnosis; }

  /// Starts the diagnostics of the next layer. A layer that runs alone needs no such call.
  void begin_layer() { layers_.emplace_back(); }
  void tell(Diagnostic value) { layer().values.push_back(std::move(value)); }
  void tell_weights(Tensor weights) { layer().weights = std::move(weights); }

  /// One entry per layer in the order of the model, even if the layer reported nothing.
  const std::vector<LayerDiagnostics>& layers() const { return layers_; }
  /// Returns the mean of every value with a summary over the heads of each layer, then over the
  /// layers that reported it.
  NamedNumbers summaries() const;

 private:
  LayerDiagnostics& layer();

  Diagnosis diagnosis_;
  std::vector<LayerDiagnostics> layers_;
};

}  // namespace mobius
