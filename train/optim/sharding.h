// Shards the state of an optimiser over the ranks (ZeRO stage 1, Rajbhandari et al. 2020). Each
// rank updates its part of every bucket of parameters.
#pragma once

#include <vector>

#include "core/comm/communicator.h"
#include "train/optim/optimizer.h"

namespace mobius {

/// Gives every rank all parameters. Must be called after each step().
void gather_parameters(const Optimizer& optimizer, Communicator& communicator);

/// Returns the state of all shards together, like that of an optimiser that is not sharded, so that
/// any number of ranks can resume from a checkpoint. All ranks must call it; the result is empty on
/// all but the root.
std::vector<NamedTensor> gather_state(const Optimizer& optimizer, Communicator& communicator);

/// Returns tensors for the whole state, to be filled from a checkpoint. They are the optimiser's
/// own if it is not sharded.
std::vector<NamedTensor> whole_state(const Optimizer& optimizer);
/// Copies the optimiser's shard from these tensors.
void set_state(const Optimizer& optimizer, const std::vector<NamedTensor>& whole);

}  // namespace mobius
