#include "nn/diagnostics.h"

#include <algorithm>
#include <numeric>

namespace mobius {

LayerDiagnostics& DiagnosticsSink::layer() {
  if (layers_.empty()) begin_layer();
  return layers_.back();
}

NamedNumbers DiagnosticsSink::summaries() const {
  NamedNumbers means;
  std::vector<double> counts;
  for (const LayerDiagnostics& layer : layers_) {
    for (const auto& [name, heads, summary] : layer.values) {
      if (summary.empty() || heads.empty()) continue;
      const auto same = [&key = summary](const auto& mean) { return mean.first == key; };
      const auto found = std::find_if(means.begin(), means.end(), same);
      const auto at = static_cast<std::size_t>(found - means.begin());
      if (found == means.end()) {
        means.emplace_back(summary, 0);
        counts.push_back(0);
      }
      means[at].second +=
          std::accumulate(heads.begin(), heads.end(), 0.0) / static_cast<double>(heads.size());
      ++counts[at];
    }
  }
  for (std::size_t i = 0; i < means.size(); ++i) means[i].second /= counts[i];
  return means;
}

}  // namespace mobius
