// One more token after a long context: what a layer of each kind does for it, apart from the
// projections. The studies and the benchmark of decoding time these.
//
// Legend: H heads, n keys of the context, d dimension of a head.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/attention/conformal/far_field.h"
#include "nn/attention/conformal/kv_tree.h"

namespace mobius {

struct DecodingSizes {
  std::int64_t n_heads = 1;
  std::int64_t head_dim = 64;  // of keys and values
  std::int64_t window = 64;    // of the tree
  std::int64_t block = 64;     // keys of a leaf of the tree
  std::int64_t degree = 1;     // of the features of keys in the tree
};

enum class DecodingKind {
  tree,             // hierarchical conformal attention
  conformal,        // exact, over all keys
  conformal_fused,  // the same by the fused kernel
  softmax,          // over all keys
  softmax_fused,    // the same by the fused kernel
  recurrent         // linear attention
};

/// "tree", "conformal_fused", ...
std::string name_of(DecodingKind kind);
std::vector<DecodingKind> all_decoding_kinds();

/// A layer's state after a context of random keys and values in f32, and one more token.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Reads one more token and returns the attention of its query, [1, H, 1, d]. The tree and the
  /// sums grow by the token; a cache of all keys always has it follow the same context.
  virtual Tensor decode() = 0;
  /// Memory of the state.
  virtual std::size_t bytes() const = 0;
  /// Tokens after which the costs repeat: the tree does some work once in a block.
  virtual std::int64_t period() const { return 1; }
};

/// Makes the state of a context of n keys, n >= 1.
std::unique_ptr<Decoder> make_decoder(DecodingKind kind, const DecodingSizes& sizes, std::int64_t n,
                                      std::uint64_t seed);

/// The far field of degrees, which is the default of a layer.
std::shared_ptr<const FarField> far_field_of(const DecodingSizes& sizes);

/// Calls read(k, v) for consecutive pieces of a random sequence of n keys and values,
/// [1, H, n_piece, d] in f32.
void for_random_keys(const DecodingSizes& sizes, std::int64_t n, std::uint64_t seed,
                     const std::function<void(const Tensor& k, const Tensor& v)>& read);

/// Returns the times of calls in microseconds, ascending. Makes at least `least` calls, for at
/// least `seconds`.
std::vector<double> times_of(const std::function<void()>& call, double seconds, std::size_t least);
/// Of sorted numbers, at least one.
inline double median_of(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

/// The cost of a decoder.
struct DecodingCost {
  double microseconds = 0, least_microseconds = 0;  // of a token: of the median and of the fastest
                                                    // period
  std::size_t bytes = 0;                            // of the state
};
/// Makes a decoder, and times it for at least `seconds` and five periods.
DecodingCost cost_of(DecodingKind kind, const DecodingSizes& sizes, std::int64_t n,
                     std::uint64_t seed, double seconds);

}  // namespace mobius
