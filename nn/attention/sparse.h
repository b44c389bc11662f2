// Softmax attention over a part of the keys (docs/MATH.md, section 4). For a query at position p,
// of the keys j that the mask lets it see:
//
//   local    |p - j| < window
//   strided  local, or (p - j) mod stride = 0, or j < n_global
//   topk     the topk largest scores; ties: the smaller j
#pragma once

#include <memory>
#include <optional>

#include "nn/attention/softmax.h"

namespace mobius {

enum class SparsePattern { local, strided, topk };

struct SparseSelection {
  SparsePattern pattern = SparsePattern::local;
  std::int64_t window = 64;   // of local and strided
  std::int64_t stride = 64;   // of strided
  std::int64_t n_global = 0;  // of strided
  std::int64_t topk = 32;     // of topk

  void describe(Schema& schema);
};

/// softmax_call() over the selection, which for topk has no gradient. It is by the product of query
/// and key: a distance bias acts on what was selected, and not on the selection. A selection of
/// nothing, or of less than nothing, throws ConfigError.
AttentionCall sparse_call(const HeadInputs& in, const SparseSelection& selection,
                          std::optional<double> scale = {});

class SparseOptions : public AttentionOptions {
 public:
  SparseSelection selection;
  std::optional<double> scale;  // null: 1 / sqrt(head dimension)

  std::string kind() const override { return "sparse"; }
  void describe(Schema& schema) override;

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override;
};

}  // namespace mobius
