// Batches made ahead of their use, on a thread of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <stop_token>
#include <thread>

#include "data/task.h"

namespace mobius {

/// Hands out make(begin), make(begin + 1), ..., make(end - 1), in this order, each made on a
/// background thread while the caller works on earlier ones:
///
///   Prefetcher batches([&](std::uint64_t step) { return task->batch(Split::train, step, 64); },
///                      first_step, last_step + 1);
///   while (...) train(batches.next());
///
/// At most `depth` batches wait, and one more is in the making; so much memory is used and no more.
/// The destructor stops the thread; it waits for the batch in the making, not for the others.
class Prefetcher {
 public:
  using Make = std::function<Batch(std::uint64_t step)>;
  static constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

  explicit Prefetcher(Make make, std::uint64_t begin = 0, std::uint64_t end = endless,
                      std::size_t depth = 2);

  /// The next batch; waits until it is there. What `make` threw comes out here, when the turn comes
  /// of the batch it was thrown for, and again on every later call. Throws Error past the end.
  /// To be called from one thread at a time.
  Batch next();

 private:
  void produce(std::stop_token stop, std::uint64_t step);

  const Make make_;
  const std::uint64_t end_;
  const std::size_t depth_;
  std::uint64_t next_step_;  // of the consumer alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;

  std::jthread worker_;  // declared last: it ends before what it uses is destroyed
};

}  // namespace mobius
