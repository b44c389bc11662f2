// What the processes of one run say to each other. Each process is a rank: 0, 1, ..., size() - 1.
//
// The operations below are collective: every rank calls the same ones in the same order, or all of
// them wait for ever. So no rank may skip one by a decision of its own; what only one knows (a
// signal, a bad number) is first made known to all, by any() or a sum. A rank that cannot go on
// calls abort().
//
// Sums are the same bits on every rank, and from run to run with the same number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

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
  /// Returns when it is complete.
  virtual void wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Rank 0: the one that writes files and speaks to the user.
  bool is_root() const { return rank_ == 0; }

  /// Adds `values` (dense, f32 or f64, fewer than 2^31) up over the ranks, in place, on every rank;
  /// they may not be touched until the operation is complete. It needs calls into the communicator
  /// to move on: advance() now and then.
  virtual std::unique_ptr<Pending> start_sum(Tensor values) = 0;
  /// The same for numbers in host memory, at once.
  virtual void sum(std::span<double> values) = 0;
  /// Whether it is true on any rank.
  bool any(bool value);
  /// Replaces `values` (dense) by those of the root.
  virtual void broadcast(Tensor values) = 0;
  /// The root's text.
  virtual std::string broadcast(const std::string& text) = 0;
  /// Makes `whole` (dense) the same everywhere: rank r has its elements share_of(numel, r, size())
  /// and gets the others.
  virtual void all_gather(Tensor whole) = 0;
  /// The same for the root alone; `share` holds a rank's own elements. Other ranks may leave
  /// `whole` undefined.
  virtual void gather(const Tensor& share, Tensor whole) = 0;
  /// Returns once every rank has called it.
  virtual void barrier() = 0;
  /// Ends the processes of all ranks at once, with this exit code where the launcher passes it on.
  /// Not collective.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

/// One process alone: every operation leaves things as they are.
class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, 1) {}

  std::unique_ptr<Pending> start_sum(Tensor values) override;
  void sum(std::span<double>) override {}
  void broadcast(Tensor) override {}
  std::string broadcast(const std::string& text) override { return text; }
  void all_gather(Tensor) override {}
  void gather(const Tensor& share, Tensor whole) override;
  void barrier() override {}
  [[noreturn]] void abort(int exit_code) override;
};

/// The communicator among the processes that were launched together: OneRank for a single one, else
/// MPI's. It is destroyed at the end of the program, by all ranks. Throws ConfigError where MPI
/// sees other ranks than the launcher, or where this program was built without MPI.
std::unique_ptr<Communicator> make_communicator(const Launch& launch);
/// The same, over MPI whatever their number.
std::unique_ptr<Communicator> make_mpi_communicator(const Launch& launch);

}  // namespace mobius
