// What layers say about themselves: named numbers for a person to look at.
//
// Whoever wants them hands a DiagnosticsSink down with the ForwardContext. Without one, nothing is
// counted and nothing is read back from the device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mobius {

/// One number a head, or a key/value head where it belongs to those.
struct Diagnostic {
  std::string name;  // "alpha", "entropy", or any other that a layer gives
  std::vector<double> heads;
  /// The mean over the heads and layers of a model is worth a place beside its loss, by this name;
  /// empty: it is not.
  std::string summary = {};
};

/// What one layer said.
struct LayerDiagnostics {
  std::vector<Diagnostic> values = {};
  Tensor weights = {};  // [H, N, N] of the first sequence; undefined unless they were asked for
};

/// How much a sink asks for. Attention layers form their weights for it, which the passes of
/// training avoid: for a batch now and then.
enum class Diagnosis {
  summary,  ///< what has a summary: it costs a pass next to nothing
  entropy,  ///< and parameters, and the mean entropy of the weights, from a part of them at a time:
            ///< memory linear in N
  weights   ///< and all weights on the first sequence, N^2 a head, for short sequences
};

using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// Takes what the layers of a model say in one forward pass.
class DiagnosticsSink {
 public:
  explicit DiagnosticsSink(Diagnosis diagnosis = Diagnosis::summary) : diagnosis_(diagnosis) {}

  bool asks_for(Diagnosis diagnosis) const { return diagnosis_ >= diagnosis; }

  /// What is told from here on is another layer's. A layer that runs alone needs no such call.
  void begin_layer() { layers_.emplace_back(); }
  void tell(Diagnostic value) { layer().values.push_back(std::move(value)); }
  void tell_weights(Tensor weights) { layer().weights = std::move(weights); }

  /// In the order of the model; a layer that said nothing is there, too.
  const std::vector<LayerDiagnostics>& layers() const { return layers_; }
  /// The mean of every value with a summary, over the heads of each layer and then over the layers
  /// that told it.
  NamedNumbers summaries() const;

 private:
  LayerDiagnostics& layer();

  Diagnosis diagnosis_;
  std::vector<LayerDiagnostics> layers_;
};

}  // namespace mobius
