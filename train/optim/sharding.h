// An optimiser whose state is spread over the ranks (ZeRO stage 1, Rajbhandari et al. 2020): each
// rank updates its part of every bucket of parameters.
#pragma once

#include <vector>

#include "core/comm/communicator.h"
#include "train/optim/optimizer.h"

namespace mobius {

/// After every rank's step(): gives each the whole parameters.
void gather_parameters(const Optimizer& optimizer, Communicator& communicator);

/// The state of all shards together, as an optimiser that is not sharded has it: what a checkpoint
/// holds, so that any number of ranks goes on from it. To be called by all ranks; empty on all but
/// the root.
std::vector<NamedTensor> gather_state(const Optimizer& optimizer, Communicator& communicator);

/// Tensors for the whole state, to be filled from a checkpoint; the optimiser's own where it is not
/// sharded.
std::vector<NamedTensor> whole_state(const Optimizer& optimizer);
/// Takes the optimiser's shard from them.
void set_state(const Optimizer& optimizer, const std::vector<NamedTensor>& whole);

}  // namespace mobius
