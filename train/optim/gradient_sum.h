// Adds gradients up over the ranks while backward() is still busy with earlier layers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "train/optim/optimizer.h"

namespace mobius {

/// Gradients travel in buckets of about `bucket_bytes`, each as soon as all of it is ready. Buckets
/// hold the parameters in reverse order, which is about the order in which gradients become ready,
/// and start one after another, so that every rank starts the same. One rank alone sums nothing:
/// its gradients stay untouched.
///
/// Micro-batches before the last of a step only add to the gradients, without communication:
///
///   for (...) backward(loss);
///   sum.start();
///   backward(last_loss);
///   sum.finish();
class GradientSum {
 public:
  /// Both must outlive it. A parameter's gradient may be missing, but then on every rank.
  GradientSum(Communicator& communicator, const std::vector<TrainedParameter>& parameters,
              std::int64_t bucket_bytes);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  Communicator& communicator() const { return communicator_; }

  /// From here on a gradient that becomes ready is final.
  void start();
  /// Sends what is left, and waits: afterwards every gradient is the sum over the ranks. Also
  /// where this rank called no backward() after start(): what it has counts.
  void finish();

 private:
  struct Buckets;

  Communicator& communicator_;
  std::shared_ptr<Buckets> buckets_;  // shared with the parameters' hooks, which hold it weakly
};

}  // namespace mobius
