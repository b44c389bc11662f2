// All parameters of a model in one buffer, divided among the ranks.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/comm/share.h"
#include "nn/module.h"

namespace mobius {

/// A parameter to be trained.
struct TrainedParameter {
  std::string name;
  Variable value;
  bool decayed;
};

/// Returns all parameters of a model. Weight decay acts on those with two dimensions or more, not
/// on norms, biases, or scales of attention heads.
std::vector<TrainedParameter> trained_parameters(const Module& model);

/// Part `index` of `count` of every bucket of an arena.
struct Shard {
  int index = 0;
  int count = 1;

  bool is_whole() const { return count == 1; }
};

/// Moves the values of parameters into one buffer; their Variables become views of it. Gradients
/// and moments may use buffers of the same layout:
///
///   The buffer is a sequence of buckets. The size of a bucket is a multiple of ranks x 256 bytes,
///   so that the ranks have equal parts that begin at multiples of 256 bytes. A bucket holds whole
///   parameters that begin at multiples of 256 bytes, in reverse order, which is about the order in
///   which gradients become ready.
///
/// A bucket takes parameters up to `bucket_bytes`, but at least one. Gaps hold zeros.
class ParameterArena {
 public:
  /// Throws Error unless all parameters have one type and one device.
  explicit ParameterArena(std::vector<TrainedParameter> parameters, int ranks = 1,
                          std::int64_t bucket_bytes = std::numeric_limits<std::int64_t>::max());
  ParameterArena(ParameterArena&&) = default;

  struct Bucket {
    std::int64_t begin = 0, end = 0;      ///< elements of the buffer
    std::vector<std::size_t> parameters;  ///< their indices, in the order of the buffer
  };

  const std::vector<TrainedParameter>& parameters() const { return parameters_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int ranks() const { return ranks_; }
  /// The buffer of the parameters.
  const Tensor& values() const { return values_; }
  /// Returns a new buffer of zeros for a shard: its parts of all buckets in order.
  Tensor zeros(const Shard& shard = {}) const;

  /// Returns the view of a bucket, or of a parameter in its shape, in a whole buffer.
  Tensor bucket(const Tensor& buffer, std::size_t bucket) const;
  Tensor parameter(const Tensor& buffer, std::size_t parameter) const;

  /// The part of a parameter that a shard owns.
  struct Piece {
    Share elements;          ///< of the flattened parameter
    std::int64_t begin = 0;  ///< in the shard's buffer
  };
  Piece piece(std::size_t parameter, const Shard& shard) const;
  /// Return a piece of a parameter's dense tensor, and of a shard's buffer. The piece is flat, but
  /// has the parameter's shape if the shard is the whole.
  Tensor piece_of(const Tensor& dense, std::size_t parameter, const Shard& shard) const;
  Tensor piece_in(const Tensor& buffer, std::size_t parameter, const Shard& shard) const;

 private:
  struct Place {
    std::size_t bucket = 0;
    std::int64_t begin = 0;  // in the buffer
  };

  std::vector<TrainedParameter> parameters_;
  std::vector<Place> places_;  // of the parameters
  std::vector<Bucket> buckets_;
  int ranks_;
  Tensor values_;
};

}  // namespace mobius
