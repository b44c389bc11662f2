// Adds gradients up over the ranks while backward() is still busy with earlier layers.
#pragma once

#include <memory>

#include "core/comm/communicator.h"
#include "train/optim/arena.h"

namespace mobius {

/// What a rank gets of the sums.
enum class SumScope {
  whole,  ///< all of them
  shard   ///< those of its shard; its other gradients may then hold anything (ZeRO stage 1)
};

/// Gradients travel in the buckets of the arena, each as soon as all of it is ready: they are copied
/// into a buffer laid out like the arena, of which they become views. Buckets start one after
/// another, so that every rank starts the same. One rank alone sums nothing: its gradients stay
/// untouched, and there is no buffer.
///
/// Micro-batches before the last of a step only add to the gradients, without communication:
///
///   for (...) backward(loss);
///   sum.start();
///   backward(last_loss);
///   sum.finish();
class GradientSum {
 public:
  /// Both must outlive it. The arena is made for as many ranks as there are. A parameter's gradient
  /// may be missing, but then on every rank.
  GradientSum(Communicator& communicator, const ParameterArena& arena,
              SumScope scope = SumScope::whole);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  Communicator& communicator() const { return communicator_; }

  /// From here on a gradient that becomes ready is final.
  void start();
  /// Sends what is left, and waits: afterwards the gradients are the sums over the ranks. Also
  /// where this rank called no backward() after start(): what it has counts.
  void finish();

 private:
  struct Buckets;

  Communicator& communicator_;
  std::shared_ptr<Buckets> buckets_;  // shared with the parameters' hooks, which hold it weakly
};

}  // namespace mobius
