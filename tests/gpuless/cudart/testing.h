// For tests of the stand-ins: memory of devices and of the host, and processes with an environment.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace mobius::gpuless_test {

inline void expect_success(cudaError_t error, const char* what) {
  EXPECT_EQ(error, cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

/// n elements of device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(int n) : n_(n) {
    void* memory = nullptr;
    expect_success(cudaMalloc(&memory, bytes()), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<int>(values.size())) {
    expect_success(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> result(static_cast<std::size_t>(n_));
    expect_success(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }

 private:
  T* data_ = nullptr;
  int n_;
};

/// n floats of page-locked memory of the host.
class PinnedArray {
 public:
  explicit PinnedArray(int n) {
    void* memory = nullptr;
    expect_success(cudaHostAlloc(&memory, static_cast<std::size_t>(n) * sizeof(float), 0),
                   "cudaHostAlloc");
    data_ = static_cast<float*>(memory);
  }
  ~PinnedArray() { cudaFreeHost(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    expect_success(cudaStreamCreateWithFlags(&stream_, flags), "cudaStreamCreateWithFlags");
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { expect_success(cudaStreamSynchronize(stream_), "synchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  TestEvent() { expect_success(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Sets a variable for processes that are started while it lives.
class Environment {
 public:
  Environment(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Environment() { ::unsetenv(name_.c_str()); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
};

/// Tests whose body runs in a process of its own, as faults end the process, and as the environment
/// is read once.
class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// The end of a body that runs in a process of its own.
[[noreturn]] inline void exit_with_result() {
  std::exit(::testing::Test::HasFailure() ? EXIT_FAILURE : EXIT_SUCCESS);
}

}  // namespace mobius::gpuless_test
