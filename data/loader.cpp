#include "data/loader.h"

#include <utility>

#include "core/error.h"

namespace mobius {

Prefetcher::Prefetcher(Make make, std::uint64_t begin, std::uint64_t end, std::size_t depth)
    : make_(std::move(make)), end_(end), depth_(depth), next_step_(begin) {
  if (depth == 0) throw Error("Prefetcher: depth must be positive");
  worker_ = std::jthread([this, begin](std::stop_token stop) { produce(std::move(stop), begin); });
}

Batch Prefetcher::next() {
  if (next_step_ >= end_) throw Error("Prefetcher: the batches end before step {}", end_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  ++next_step_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

void Prefetcher::produce(std::stop_token stop, std::uint64_t step) {
  try {
    for (; step < end_ && !stop.stop_requested(); ++step) {
      Batch batch = make_(step);
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return ready_.size() < depth_; })) return;
      ready_.push_back(std::move(batch));
      lock.unlock();
      changed_.notify_all();
    }
  } catch (...) {
    std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    changed_.notify_all();
  }
}

}  // namespace mobius
