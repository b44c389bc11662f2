#include "train/optim/sharding.h"

namespace mobius {

namespace {

// state() holds the parameters' tensors in their order, moment after moment.
Tensor empty_whole(const Optimizer& optimizer, std::size_t state_index) {
  const auto& parameters = optimizer.parameters();
  return parameters[state_index % parameters.size()].value.data().empty_like();
}

}  // namespace

void gather_parameters(const Optimizer& optimizer, Communicator& communicator) {
  if (optimizer.shard().is_whole()) return;
  for (const TrainedParameter& parameter : optimizer.parameters()) {
    communicator.all_gather(parameter.value.data());
  }
}

std::vector<NamedTensor> gather_state(const Optimizer& optimizer, Communicator& communicator) {
  std::vector<NamedTensor> state = optimizer.state();
  if (!optimizer.shard().is_whole()) {
    for (std::size_t i = 0; i < state.size(); ++i) {
      const Tensor whole = communicator.is_root() ? empty_whole(optimizer, i) : Tensor();
      communicator.gather(state[i].value, whole);
      state[i].value = whole;
    }
  }
  if (!communicator.is_root()) state.clear();
  return state;
}

std::vector<NamedTensor> whole_state(const Optimizer& optimizer) {
  std::vector<NamedTensor> state = optimizer.state();
  if (optimizer.shard().is_whole()) return state;
  for (std::size_t i = 0; i < state.size(); ++i) state[i].value = empty_whole(optimizer, i);
  return state;
}

void set_state(const Optimizer& optimizer, const std::vector<NamedTensor>& whole) {
  const Shard& shard = optimizer.shard();
  if (shard.is_whole()) return;
  std::vector<NamedTensor> state = optimizer.state();
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Share share = share_of(whole[i].value.numel(), shard.index, shard.count);
    state[i].value.copy_from(whole[i].value.reshape({-1}).slice(0, share.begin, share.end));
  }
}

}  // namespace mobius
