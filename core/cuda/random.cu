// Random fills and dropout: the words of Philox4x32-10 (core/rng.h) as on the CPU, a block of four
// a thread.
//
// Element i takes word i (f32) or words 2i and 2i + 1 (f64), low half first. Dropout takes word i
// for both types, so the mask does not depend on the type. Outputs are dense and overwritten (=).
#include <cmath>
#include <numbers>

#include "core/cuda/kernels.h"
#include "core/cuda/vector.cuh"
#include "core/ops/copy.h"
#include "core/ops/random.h"

namespace mobius::cuda {
namespace {

// ---- the words of an element

/// As many words of a block as an element takes, as an unsigned integer.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
/// Elements that take a block.
template <class T>
constexpr int of_block = 16 / static_cast<int>(sizeof(T));

template <class T>
__device__ Bits<T> bits_of(const std::array<std::uint32_t, 4>& words, int i) {
  if constexpr (sizeof(T) == 4) return words[i];
  return static_cast<Bits<T>>(words[2 * i] | std::uint64_t{words[2 * i + 1]} << 32);
}

/// Returns a multiple of 2^-24 or 2^-53 in [0, 1).
__device__ float unit_interval(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}
__device__ double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Returns (k + 1/2) 2^-b, in (0, 1], where k is the number in the highest b bits: 31 for f32, more
/// than it holds, to reach further into the tails; 53 for f64.
__device__ float open_unit(std::uint32_t bits) {
  return (static_cast<float>(bits >> 1) + 0.5f) * 0x1p-31f;
}
__device__ double open_unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

// ---- distributions

template <class T>
struct Uniform {
  T first, width, last;

  __device__ Pack<T, of_block<T>> operator()(const std::array<std::uint32_t, 4>& words) const {
    Pack<T, of_block<T>> values;
#pragma unroll
    for (int i = 0; i < of_block<T>; ++i)
      values[i] = min(std::fma(width, unit_interval(bits_of<T>(words, i)), first), last);
    return values;
  }
};

/// Box-Muller: the first of two elements' words gives the radius, the second's the angle of both.
template <class T>
struct Normal {
  T mean, stddev;

  __device__ Pack<T, of_block<T>> operator()(const std::array<std::uint32_t, 4>& words) const {
    constexpr T turn = static_cast<T>(2 * std::numbers::pi);
    Pack<T, of_block<T>> values;
#pragma unroll
    for (int i = 0; i < of_block<T>; i += 2) {
      const T radius = std::sqrt(-2 * std::log(open_unit(bits_of<T>(words, i))));
      T sine, cosine;
      sincos_of(turn * open_unit(bits_of<T>(words, i + 1)), sine, cosine);
      values[i] = std::fma(stddev, radius * cosine, mean);
      values[i + 1] = std::fma(stddev, radius * sine, mean);
    }
    return values;
  }

 private:
  static __device__ void sincos_of(float x, float& sine, float& cosine) {
    ::sincosf(x, &sine, &cosine);
  }
  static __device__ void sincos_of(double x, double& sine, double& cosine) {
    ::sincos(x, &sine, &cosine);
  }
};

template <class Distribution, class T>
__global__ void random_kernel(RngKey key, Distribution distribution, std::int64_t n, T* out) {
  const auto place = pack_of_thread<of_block<T>>(n);
  if (place.is_empty()) return;
  const auto block = static_cast<std::uint64_t>(place.first / of_block<T>);
  store(distribution(philox(key, block)), out, place);
}

template <class T>
__global__ void dropout_kernel(RngKey key, std::uint32_t dropped, T scale, std::int64_t n,
                               const T* x, T* y) {
  const auto place = pack_of_thread<4>(n);
  if (place.is_empty()) return;
  const auto words = philox(key, static_cast<std::uint64_t>(place.first / 4));
  auto values = load(x, place);
#pragma unroll
  for (int i = 0; i < 4; ++i) values[i] = words[i] >= dropped ? values[i] * scale : T{0};
  store(values, y, place);
}

// ---- kernels

template <class T, class Distribution>
void fill_random(RngKey key, const Distribution& distribution, const Tensor& out) {
  launch(random_kernel<Distribution, T>, for_packs<of_block<T>>(out.numel()), key, distribution,
         out.numel(), out.data<T>());
}

class CudaRandom final : public RandomKernels {
 public:
  void random_uniform(RngKey key, double low, double high, const Tensor& out) override {
    dispatch_real("random_uniform", out.dtype(), [&]<class T>(TypeTag<T>) {
      const T first = static_cast<T>(low), width = static_cast<T>(high - low);
      const T last = std::nextafter(static_cast<T>(high), first);  // rounding may reach `high`
      fill_random<T>(key, Uniform<T>{first, width, last}, out);
    });
  }

  void random_normal(RngKey key, double mean, double stddev, const Tensor& out) override {
    dispatch_real("random_normal", out.dtype(), [&]<class T>(TypeTag<T>) {
      fill_random<T>(key, Normal<T>{static_cast<T>(mean), static_cast<T>(stddev)}, out);
    });
  }

  void dropout(RngKey key, double p, const Tensor& x, const Tensor& y) override {
    if (p >= 1) return cuda_copy_kernels().fill(y, 0);
    dispatch_real("dropout", x.dtype(), [&]<class T>(TypeTag<T>) {
      const auto dropped = static_cast<std::uint32_t>(std::min(std::round(p * 0x1p32), 0x1p32 - 1));
      launch(dropout_kernel<T>, for_packs<4>(x.numel()), key, dropped, static_cast<T>(1 / (1 - p)),
             x.numel(), x.data<T>(), y.data<T>());
    });
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

RandomKernels& cuda_random_kernels() { return only<cuda::CudaRandom>(); }

}  // namespace mobius
