// Streams as queues, and the order in which their work runs.
//
// Work is queued by the host and runs later: when the host waits for it, asks about it, or when
// much is queued. Of the orders that streams and events allow, a seed chooses one, so that an order
// that the program needs but did not ask for shows as wrong data, or as a use of freed memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace mobius::gpuless {

struct Stream;

/// The moment at which the first `count` operations of a stream are done. An empty point (no
/// stream) has always passed.
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t count = 0;

  bool passed() const;
};

struct Operation {
  std::string what;          // for messages: "kernel softmax", "copy of 12 bytes to the host"
  std::vector<Point> after;  // besides the operations before it in its own stream
  std::function<void()> run;
  /// Runs without the lock, as a function of the host may wait for other threads.
  bool on_host = false;
};

struct Stream {
  int id = 0;
  int device = 0;
  /// Ordered with the device's default stream (no cudaStreamNonBlocking).
  bool blocking = true;
  unsigned flags = 0;
  int priority = 0;

  std::deque<Operation> queue;
  std::uint64_t queued = 0;  // operations ever queued, and done
  std::uint64_t done = 0;
  bool busy = false;  // its first operation is running without the lock

  bool idle() const { return queued == done; }
};

/// All functions are called with the lock that is passed to them held.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;

  std::shared_ptr<Stream> create(int device, unsigned flags, int priority);
  /// The stream 0 of a device. Its work comes after all that blocking streams of the device hold
  /// when it is queued, and theirs after it.
  std::shared_ptr<Stream> default_stream(int device);

  void enqueue(const std::shared_ptr<Stream>& stream, Operation operation, Lock& lock);
  /// The point after everything that the stream holds.
  static Point now(const std::shared_ptr<Stream>& stream) { return {stream, stream->queued}; }

  void run_until(const Point& point, Lock& lock);
  void run_all(int device, Lock& lock);
  /// Runs a little of what is queued anywhere: a host that polls sees work progress.
  void run_some(Lock& lock);
  bool idle(int device) const;
  /// Forgets all that is queued, on every device: it failed.
  void drop_all();

  void set_seed(std::uint64_t seed) { random_.seed(seed); }
  /// A number for the order of what runs at once within an operation.
  std::uint64_t draw() { return random_(); }

 private:
  using Streams = std::vector<std::shared_ptr<Stream>>;

  std::vector<Point> implicit_order(const Stream& stream) const;
  bool runnable(const Stream& stream) const;
  /// The stream whose first operation must run next for the point to pass.
  std::shared_ptr<Stream> needed(const Point& point) const;
  std::shared_ptr<Stream> any_runnable();
  void run_first(const std::shared_ptr<Stream>& stream, Lock& lock);
  void forget_destroyed();

  Streams streams_;  // default streams too
  std::vector<std::shared_ptr<Stream>> default_streams_;
  std::size_t waiting_operations_ = 0;
  int next_id_ = 1;
  std::mt19937_64 random_;
  std::condition_variable host_function_done_;
};

/// A mark in a stream, and the time at which it was passed.
struct Event {
  int device = 0;
  bool has_time = true;
  bool recorded = false;
  Point point;  // of the last record
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

}  // namespace mobius::gpuless
