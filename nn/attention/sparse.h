// Softmax attention over some of the keys (docs/MATH.md, section 4). A query at position p sees,
// of the keys j that the mask allows:
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

/// softmax_call() over the selection. The selection of topk has no gradient and depends only on the
/// products of query and key, not on a distance bias. Throws ConfigError if a number of the
/// selection is out of range.
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
