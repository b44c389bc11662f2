// Communication between the processes of one run. Each process is a rank: 0, 1, ..., size() - 1.
//
// The operations are collective: every rank calls the same ones in the same order, or all ranks
// wait for ever. A rank must not skip one on its own: what only one rank knows (a signal, a bad
// number) is first shared by any() or a sum. A rank that cannot continue calls abort().
//
// Sums are equal to the bit on every rank, in every run with the same number of ranks, and for
// start_sum() and start_reduce_scatter().
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/comm/launch.h"
#include "core/comm/share.h"
#include "core/tensor.h"

namespace mobius {

/// An operation that continues in the background.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Makes progress without waiting.
  virtual void advance() = 0;
  /// Orders later work on the tensor after the operation: waits for it in host memory, and queues
  /// it on a device. Every rank must wait for its operations in the same order.
  virtual void wait() = 0;
};

/// Tensors are dense and on device(). Rank r owns the part share_of(numel, r, size()) of the
/// elements of a tensor. Started operations work in place on fewer than 2^31 elements, which the
/// caller must not touch until they are complete. They make progress only in calls such as
/// advance().
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Device& device() const { return device_; }
  /// Whether this is rank 0, which writes files and output.
  bool is_root() const { return rank_ == 0; }

  /// Sums `values` (f32 or f64) over the ranks.
  std::unique_ptr<Pending> start_sum(Tensor values) {
    return start(std::move(values), {true, true});
  }
  /// Gives each rank the sum in its own part; the other parts are undefined afterwards. numel must
  /// be a multiple of size().
  std::unique_ptr<Pending> start_reduce_scatter(Tensor values) {
    return start(std::move(values), {.reduces = true});
  }
  /// Gives every rank the parts of all ranks. numel must be a multiple of size().
  std::unique_ptr<Pending> start_all_gather(Tensor values) {
    return start(std::move(values), {.gathers = true});
  }
  /// Sums numbers in host memory and waits for the result.
  virtual void sum(std::span<double> values) = 0;
  /// Returns whether `value` is true on any rank.
  bool any(bool value);
  /// Replaces `values` with those of the root.
  virtual void broadcast(Tensor values) = 0;
  /// Returns the text of the root.
  virtual std::string broadcast(const std::string& text) = 0;
  /// Returns once every rank has called it.
  virtual void barrier() = 0;
  /// Ends the processes of all ranks at once, with this exit code if the launcher forwards it. Not
  /// collective.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  Communicator(int rank, int size, Device device) : rank_(rank), size_(size), device_(device) {}

  /// The two halves of an operation: parts are summed by their owners, and sent to all.
  struct Steps {
    bool reduces = false, gathers = false;
  };
  virtual std::unique_ptr<Pending> start(Tensor values, Steps steps) = 0;

 private:
  int rank_;
  int size_;
  Device device_;
};

/// A single process, for which every operation is the identity.
class OneRank final : public Communicator {
 public:
  explicit OneRank(Device device = {}) : Communicator(0, 1, device) {}

  void sum(std::span<double>) override {}
  void broadcast(Tensor) override {}
  std::string broadcast(const std::string& text) override { return text; }
  void barrier() override {}
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 protected:
  std::unique_ptr<Pending> start(Tensor, Steps) override;
};

/// Makes the communicator of the processes that were launched together: OneRank for a single one,
/// else that of MPI. All ranks must destroy it at the end of the program. Throws ConfigError if MPI
/// and the launcher disagree about the ranks, or if this program was built without MPI.
std::unique_ptr<Communicator> make_communicator(const Launch& launch, Device device = {});
/// Makes the MPI communicator for any number of ranks. It copies tensors on a device through host
/// memory.
std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch, Device device);

}  // namespace mobius
