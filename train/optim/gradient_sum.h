// Sums gradients over the ranks while backward() still computes those of earlier layers.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "train/optim/arena.h"

namespace mobius {

/// Which sums a rank gets.
enum class SumScope {
  whole,  ///< all sums
  shard   ///< those of its shard; its other gradients are then undefined (ZeRO stage 1)
};

/// Gradients are sent in the buckets of the arena, each bucket once all of it is ready. They are
/// copied into a buffer laid out like the arena and become views of it. Buckets start in order, so
/// that every rank starts the same ones. A single rank sums nothing and has no buffer.
///
/// Only the last micro-batch of a step communicates:
///
///   for (...) backward(loss);
///   sum.start();
///   backward(last_loss);
///   sum.finish();
class GradientSum {
 public:
  /// Both must outlive it. The arena must be made for this number of ranks. A parameter may lack a
  /// gradient only on every rank.
  GradientSum(Communicator& communicator, const ParameterArena& arena,
              SumScope scope = SumScope::whole);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  Communicator& communicator() const { return communicator_; }

  /// Gradients that become ready after this call are final.
  void start();
  /// Sends the remaining buckets and waits. Afterwards the gradients are the sums over the ranks,
  /// even if this rank called no backward() after start().
  void finish();

 private:
  struct Buckets;

  Communicator& communicator_;
  std::shared_ptr<Buckets> buckets_;  // shared with the parameters' hooks, which hold it weakly
};

}  // namespace mobius
