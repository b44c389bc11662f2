#include "tests/gpuless/cudart/scheduler.h"

#include <driver_types.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace mobius::gpuless {
namespace {

// A queue longer than this runs without being waited for. It bounds the memory that waits to be
// freed, and is long enough for a step of training to pile up.
constexpr std::size_t longest_queue = 512;

}  // namespace

bool Point::passed() const { return !stream || stream->done >= count; }

std::shared_ptr<Stream> Scheduler::create(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->id = next_id_++;
  stream->device = device;
  stream->flags = flags;
  stream->blocking = !(flags & cudaStreamNonBlocking);
  stream->priority = priority;
  streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Scheduler::default_stream(int device) {
  const auto index = static_cast<std::size_t>(device);
  if (default_streams_.size() <= index) default_streams_.resize(index + 1);
  std::shared_ptr<Stream>& stream = default_streams_[index];
  if (!stream) {
    stream = create(device, cudaStreamDefault, 0);
    stream->id = 0;
  }
  return stream;
}

std::vector<Point> Scheduler::implicit_order(const Stream& stream) const {
  std::vector<Point> result;
  const auto index = static_cast<std::size_t>(stream.device);
  const Stream* first = index < default_streams_.size() ? default_streams_[index].get() : nullptr;
  if (!stream.blocking || !first) return result;
  for (const auto& other : streams_) {
    const bool ordered = other->device == stream.device && other->blocking &&
                         (&stream == first || other.get() == first);
    if (ordered && other.get() != &stream && !other->idle()) result.push_back(now(other));
  }
  return result;
}

void Scheduler::enqueue(const std::shared_ptr<Stream>& stream, Operation operation, Lock& lock) {
  for (Point& point : implicit_order(*stream)) operation.after.push_back(std::move(point));
  stream->queue.push_back(std::move(operation));
  ++stream->queued;
  if (++waiting_operations_ <= longest_queue) return;
  while (waiting_operations_ > longest_queue / 2) {
    const auto next = any_runnable();
    if (!next) return;  // a function of the host runs, and the rest waits for it
    run_first(next, lock);
  }
}

bool Scheduler::runnable(const Stream& stream) const {
  return !stream.queue.empty() && !stream.busy &&
         std::ranges::all_of(stream.queue.front().after, &Point::passed);
}

std::shared_ptr<Stream> Scheduler::needed(const Point& point) const {
  const Point* wanted = &point;
  while (true) {
    const auto& queue = wanted->stream->queue;
    if (wanted->stream->busy) return wanted->stream;
    const auto& after = queue.front().after;
    const auto obstacle = std::ranges::find_if_not(after, &Point::passed);
    if (obstacle == after.end()) return wanted->stream;
    wanted = &*obstacle;
  }
}

std::shared_ptr<Stream> Scheduler::any_runnable() {
  Streams candidates;
  std::ranges::copy_if(streams_, std::back_inserter(candidates),
                       [&](const auto& stream) { return runnable(*stream); });
  if (candidates.empty()) return nullptr;
  return candidates[random_() % candidates.size()];
}

void Scheduler::run_first(const std::shared_ptr<Stream>& stream, Lock& lock) {
  if (stream->busy) {
    host_function_done_.wait(lock, [&] { return !stream->busy; });
    return;
  }
  const Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  --waiting_operations_;
  if (operation.on_host) {
    stream->busy = true;
    lock.unlock();
    operation.run();
    lock.lock();
    stream->busy = false;
    host_function_done_.notify_all();
  } else {
    operation.run();
  }
  ++stream->done;
  forget_destroyed();
}

void Scheduler::run_until(const Point& point, Lock& lock) {
  // Either as little as possible runs, so that other streams are late, or anything may.
  const bool lazy = random_() % 2 == 0;
  while (!point.passed()) {
    auto next = lazy ? needed(point) : any_runnable();
    run_first(next ? next : needed(point), lock);
  }
}

void Scheduler::run_all(int device, Lock& lock) {
  std::vector<Point> points;
  for (const auto& stream : streams_)
    if (stream->device == device) points.push_back(now(stream));
  std::ranges::shuffle(points, random_);
  for (const Point& point : points) run_until(point, lock);
}

void Scheduler::run_some(Lock& lock) {
  for (auto left = random_() % 4; left > 0; --left) {
    const auto next = any_runnable();
    if (!next) return;
    run_first(next, lock);
  }
}

bool Scheduler::idle(int device) const {
  return std::ranges::all_of(
      streams_, [&](const auto& stream) { return stream->device != device || stream->idle(); });
}

void Scheduler::drop_all() {
  for (const auto& stream : streams_) {
    stream->queue.clear();
    stream->done = stream->queued;
  }
  waiting_operations_ = 0;
}

void Scheduler::forget_destroyed() {
  // Nobody but this list knows a stream that was destroyed and whose events are gone.
  std::erase_if(streams_,
                [](const auto& stream) { return stream.use_count() == 1 && stream->idle(); });
}

}  // namespace mobius::gpuless
