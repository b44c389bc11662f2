#include "train/optim/arena.h"

#include <algorithm>
#include <utility>

#include "core/backend.h"
#include "core/error.h"
#include "core/round.h"

namespace mobius {

namespace {

constexpr std::int64_t alignment = 256;  // bytes

void require_alike(const std::vector<TrainedParameter>& parameters) {
  for (const auto& [name, value, decayed] : parameters) {
    const Variable& first = parameters.front().value;
    if (value.dtype() == first.dtype() && value.device() == first.device()) continue;
    throw Error("parameters: '{}' is {} on {}, but '{}' is {} on {}", name, name_of(value.dtype()),
                to_string(value.device()), parameters.front().name, name_of(first.dtype()),
                to_string(first.device()));
  }
}

}  // namespace

std::vector<TrainedParameter> trained_parameters(const Module& model) {
  std::vector<TrainedParameter> trained;
  for (const Module::NamedParameter& parameter : model.parameters()) {
    trained.push_back({parameter.name, parameter.value, parameter.value.ndim() >= 2});
  }
  return trained;
}

ParameterArena::ParameterArena(std::vector<TrainedParameter> parameters, int ranks,
                               std::int64_t bucket_bytes)
    : parameters_(std::move(parameters)), places_(parameters_.size()), ranks_(ranks) {
  if (parameters_.empty()) return;
  require_alike(parameters_);
  const Variable first = parameters_.front().value;
  const auto element = static_cast<std::int64_t>(size_of(first.dtype()));
  const std::int64_t unit = alignment / element;
  std::int64_t end = 0;
  const auto close_bucket = [&] {
    if (!buckets_.empty()) buckets_.back().end = end = round_up(end, unit * ranks);
  };
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const std::int64_t size = round_up(parameters_[i].value.numel(), unit);
    if (buckets_.empty() || (end + size - buckets_.back().begin) * element > bucket_bytes) {
      close_bucket();
      buckets_.push_back({.begin = end, .end = end, .parameters = {}});
    }
    buckets_.back().parameters.push_back(i);
    places_[i] = {buckets_.size() - 1, end};
    end += size;
  }
  close_bucket();

  values_ = Tensor::zeros({end}, first.dtype(), first.device());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor view = parameter(values_, i);
    view.copy_from(parameters_[i].value.data());
    parameters_[i].value.mutable_data() = std::move(view);
  }
  allocator_for(first.device()).release_cache();  // where the values were
}

Tensor ParameterArena::zeros(const Shard& shard) const {
  return Tensor::zeros({values_.numel() / shard.count}, values_.dtype(), values_.device());
}

Tensor ParameterArena::bucket(const Tensor& buffer, std::size_t bucket) const {
  return buffer.slice(0, buckets_[bucket].begin, buckets_[bucket].end);
}

Tensor ParameterArena::parameter(const Tensor& buffer, std::size_t parameter) const {
  const std::int64_t begin = places_[parameter].begin;
  const Variable& value = parameters_[parameter].value;
  return buffer.slice(0, begin, begin + value.numel()).reshape(value.shape());
}

ParameterArena::Piece ParameterArena::piece(std::size_t parameter, const Shard& shard) const {
  const auto [index, begin] = places_[parameter];
  const Bucket& bucket = buckets_[index];
  const Share part = share_of(bucket.end - bucket.begin, shard.index, shard.count);
  const std::int64_t end = begin + parameters_[parameter].value.numel();
  const std::int64_t first = std::max(begin, bucket.begin + part.begin);
  const std::int64_t last = std::max(first, std::min(end, bucket.begin + part.end));
  if (first == last) return {};
  return {{first - begin, last - begin},
          bucket.begin / shard.count + first - bucket.begin - part.begin};
}

Tensor ParameterArena::piece_of(const Tensor& dense, std::size_t parameter,
                                const Shard& shard) const {
  if (shard.is_whole()) return dense;
  const Share elements = piece(parameter, shard).elements;
  return dense.reshape({-1}).slice(0, elements.begin, elements.end);
}

Tensor ParameterArena::piece_in(const Tensor& buffer, std::size_t parameter,
                                const Shard& shard) const {
  if (shard.is_whole()) return this->parameter(buffer, parameter);
  const Piece piece = this->piece(parameter, shard);
  return buffer.slice(0, piece.begin, piece.begin + piece.elements.size());
}

}  // namespace mobius
