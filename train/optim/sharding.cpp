#include "train/optim/sharding.h"

namespace mobius {

namespace {

// Gathers a moment of all shards; the result is undefined except on the root.
Tensor gather(const Optimizer& optimizer, const Tensor& moment, Communicator& communicator) {
  const ParameterArena& arena = optimizer.arena();
  const Shard& shard = optimizer.shard();
  const Tensor whole = communicator.is_root() ? arena.zeros() : Tensor();
  for (std::size_t i = 0; i < arena.buckets().size(); ++i) {
    const auto [begin, end, parameters] = arena.buckets()[i];
    const Tensor parts = Tensor::empty({end - begin}, moment.dtype(), moment.device());
    const Share own = share_of(end - begin, shard.index, shard.count);
    parts.slice(0, own.begin, own.end)
        .copy_from(moment.slice(0, begin / shard.count, end / shard.count));
    communicator.start_all_gather(parts)->wait();
    if (communicator.is_root()) arena.bucket(whole, i).copy_from(parts);
  }
  return whole;
}

}  // namespace

void gather_parameters(const Optimizer& optimizer, Communicator& communicator) {
  if (optimizer.shard().is_whole()) return;
  const ParameterArena& arena = optimizer.arena();
  std::vector<std::unique_ptr<Pending>> pending;
  for (std::size_t i = 0; i < arena.buckets().size(); ++i) {
    pending.push_back(communicator.start_all_gather(arena.bucket(arena.values(), i)));
  }
  for (const auto& gathered : pending) gathered->wait();
}

std::vector<NamedTensor> gather_state(const Optimizer& optimizer, Communicator& communicator) {
  std::vector<NamedTensor> moments = optimizer.moments();
  if (!optimizer.shard().is_whole()) {
    for (auto& [name, value] : moments) value = gather(optimizer, value, communicator);
  }
  if (!communicator.is_root()) return {};
  return optimizer.by_parameter(moments, {});
}

std::vector<NamedTensor> whole_state(const Optimizer& optimizer) {
  std::vector<NamedTensor> moments = optimizer.moments();
  if (!optimizer.shard().is_whole()) {
    for (auto& [name, value] : moments) value = optimizer.arena().zeros();
  }
  return optimizer.by_parameter(moments, {});
}

void set_state(const Optimizer& optimizer, const std::vector<NamedTensor>& whole) {
  if (optimizer.shard().is_whole()) return;
  const std::size_t n_parameters = optimizer.parameters().size();
  std::vector<NamedTensor> state = optimizer.state();
  for (std::size_t i = 0; i < state.size(); ++i) {
    state[i].value.copy_from(
        optimizer.arena().piece_of(whole[i].value, i % n_parameters, optimizer.shard()));
  }
}

}  // namespace mobius
