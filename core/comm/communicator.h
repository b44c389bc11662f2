// What the processes of one run say to each other. Each process is a rank: 0, 1, ..., size() - 1.
//
// The operations below are collective: every rank calls the same ones in the same order, or all of
// them wait for ever. So no rank may skip one by a decision of its own; what only one knows (a
// signal, a bad number) is first made known to all, by any() or a sum. A rank that cannot go on
// calls abort().
//
// Sums are the same bits on every rank, from run to run with the same number of ranks, and whether
// start_sum() or start_reduce_scatter() made them.
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

/// An operation that was started and goes on in the background.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Moves the operation on, without waiting.
  virtual void advance() = 0;
  /// Orders what the caller does next with the tensor after the operation. In host memory that is
  /// to wait for it; work on a device is queued, and the host goes on. Every rank waits for its
  /// operations in the same order.
  virtual void wait() = 0;
};

/// Tensors are dense and on device(). Parts of a tensor are shares of its elements: rank r has
/// share_of(numel, r, size()). Operations that are started work in place, on fewer than 2^31
/// elements, which may not be touched until they are complete. They need calls into the
/// communicator to move on: advance() now and then.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Device& device() const { return device_; }
  /// Rank 0: the one that writes files and speaks to the user.
  bool is_root() const { return rank_ == 0; }

  /// Adds `values` (f32 or f64) up over the ranks.
  std::unique_ptr<Pending> start_sum(Tensor values) {
    return start(std::move(values), {true, true});
  }
  /// Leaves each rank the sum in its own part; the other parts may hold anything afterwards. The
  /// parts are of equal size: numel is a multiple of size().
  std::unique_ptr<Pending> start_reduce_scatter(Tensor values) {
    return start(std::move(values), {.reduces = true});
  }
  /// Gives every rank the parts of all; they are of equal size.
  std::unique_ptr<Pending> start_all_gather(Tensor values) {
    return start(std::move(values), {.gathers = true});
  }
  /// Adds up numbers in host memory, at once.
  virtual void sum(std::span<double> values) = 0;
  /// Whether it is true on any rank.
  bool any(bool value);
  /// Replaces `values` by those of the root.
  virtual void broadcast(Tensor values) = 0;
  /// The root's text.
  virtual std::string broadcast(const std::string& text) = 0;
  /// Returns once every rank has called it.
  virtual void barrier() = 0;
  /// Ends the processes of all ranks at once, with this exit code where the launcher passes it on.
  /// Not collective.
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

/// One process alone: every operation leaves things as they are.
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

/// The communicator among the processes that were launched together: OneRank for a single one, else
/// MPI's. It is destroyed at the end of the program, by all ranks. Throws ConfigError where MPI
/// sees other ranks than the launcher, or where this program was built without MPI.
std::unique_ptr<Communicator> make_communicator(const Launch& launch, Device device = {});
/// The communicator over MPI, whatever the number of ranks. Tensors that are not in host memory
/// travel by way of a copy there.
std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch, Device device);

}  // namespace mobius
