// Produces values, such as batches, ahead of their use on a background thread.
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
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace mobius {

/// Returns make(begin), make(begin + 1), ..., make(end - 1), in this order. A background thread
/// makes each while the caller works on earlier ones:
///
///   Prefetcher batches([&](std::uint64_t step) { return task->batch(Split::train, step, 64); },
///                      first_step, last_step + 1);
///   while (...) train(batches.next());
///
/// At most `depth` values wait while one more is being made, which bounds the memory. The
/// destructor stops the thread; it waits only for the value that is being made.
template <class T>
class Prefetcher {
 public:
  using Make = std::function<T(std::uint64_t step)>;
  static constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

  explicit Prefetcher(Make make, std::uint64_t begin = 0, std::uint64_t end = endless,
                      std::size_t depth = 2)
      : make_(std::move(make)), end_(end), depth_(depth), next_step_(begin) {
    if (depth == 0) throw Error("Prefetcher: depth must be positive");
    worker_ =
        std::jthread([this, begin](std::stop_token stop) { produce(std::move(stop), begin); });
  }

  /// Waits for the next value and returns it. Rethrows an exception of `make` in place of the value
  /// of its step, and again on every later call. Throws Error past the end. Must be called from one
  /// thread at a time.
  T next() {
    if (next_step_ >= end_) throw Error("Prefetcher: the batches end before step {}", end_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    T made = std::move(ready_.front());
    ready_.pop_front();
    ++next_step_;
    lock.unlock();
    changed_.notify_all();
    return made;
  }

 private:
  void produce(std::stop_token stop, std::uint64_t step) {
    try {
      for (; step < end_ && !stop.stop_requested(); ++step) {
        T made = make_(step);
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [this] { return ready_.size() < depth_; })) return;
        ready_.push_back(std::move(made));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const Make make_;
  const std::uint64_t end_;
  const std::size_t depth_;
  std::uint64_t next_step_;  // used only by the consumer

  std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::deque<T> ready_;
  std::exception_ptr failure_;

  std::jthread worker_;  // declared last: it ends before the members that it uses are destroyed
};

template <class F, class... Rest>
Prefetcher(F make, Rest...) -> Prefetcher<std::invoke_result_t<F, std::uint64_t>>;

}  // namespace mobius
