// Random fills and dropout. Words of Philox4x32-10 (core/rng.h) are generated a batch of blocks at
// a time, one block per lane, into a buffer that stays in L1. They keep the order of the stream:
// word w of a stream is word w % 4 of block w / 4.
//
// Element i takes word i (f32) or words 2i and 2i + 1 (f64), low half first. Dropout takes word i
// for both types, so the mask does not depend on the type. Outputs are dense and overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/random.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/cpu/kernels.h"
#include "core/cpu/simd/math-inl.h"
#include "core/ops/copy.h"
#include "core/ops/random.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// ---- words

constexpr std::int64_t batch_words = 1024;
static_assert(elementwise_grain % batch_words == 0, "chunks begin at a batch, so at a block");

template <class V>
struct Product {
  V high, low;
};

/// Computes both halves of the 64-bit products of 32-bit lanes.
template <class D, class V>
HWY_INLINE Product<V> multiply(D d, V a, V b) {
  const hn::Repartition<std::uint64_t, D> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}

/// Stores the words of consecutive blocks, one per lane, from block `first` on.
template <class D>
HWY_INLINE void philox_blocks(D d, RngKey key, std::uint64_t first, std::uint32_t* words) {
  const auto set = [d](std::uint64_t value) {
    return hn::Set(d, static_cast<std::uint32_t>(value));
  };
  const auto start = set(first);
  auto c0 = hn::Add(start, hn::Iota(d, 0));
  const auto carry = hn::IfThenElseZero(hn::Lt(c0, start), set(1));
  auto c1 = hn::Add(set(first >> 32), carry), c2 = set(key.stream), c3 = set(key.stream >> 32);
  auto k0 = set(key.seed), k1 = set(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto p0 = multiply(d, c0, set(0xD2511F53u)), p1 = multiply(d, c2, set(0xCD9E8D57u));
    c0 = hn::Xor(hn::Xor(p1.high, c1), k0);
    c2 = hn::Xor(hn::Xor(p0.high, c3), k1);
    c1 = p1.low;
    c3 = p0.low;
    k0 = hn::Add(k0, set(0x9E3779B9u));
    k1 = hn::Add(k1, set(0xBB67AE85u));
  }
  hn::StoreInterleaved4(c0, c1, c2, c3, d, words);
}

/// Generates a batch of words from word `first` (a multiple of 4) on.
void philox_batch(RngKey key, std::int64_t first, std::uint32_t* words) {
  const hn::ScalableTag<std::uint32_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t w = 0; w < batch_words; w += 4 * lanes)
    philox_blocks(d, key, static_cast<std::uint64_t>(first + w) / 4, words + w);
}

/// Calls fn(words, i, n) for elements [i, i + n), batch by batch and shared among threads, over
/// [0, size), each element taking `per_element` words.
template <class Fn>
void for_batches(RngKey key, std::int64_t per_element, std::int64_t size, const Fn& fn) {
  parallel_for(size, elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_ALIGN std::uint32_t words[batch_words];
    const std::int64_t batch = batch_words / per_element;
    for (std::int64_t i = begin; i < end; i += batch) {
      philox_batch(key, i * per_element, words);
      fn(words, i, std::min(batch, end - i));
    }
  });
}

template <class T>
constexpr std::int64_t words_per_element = sizeof(T) / sizeof(std::uint32_t);

// ---- uniform

/// Returns a multiple of 2^-24 or 2^-53 in [0, 1).
template <class T>
T unit_interval(const std::uint32_t* words, std::int64_t i) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<T>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24f;
  } else {
    const std::uint64_t bits = words[2 * i] | std::uint64_t{words[2 * i + 1]} << 32;
    return static_cast<T>(static_cast<std::int64_t>(bits >> 11)) * 0x1p-53;
  }
}

// ---- normal

/// Returns (k + 1/2) 2^-bits, in (0, 1], where k is the number in the highest `bits` bits.
template <int bits, class D, class VU>
HWY_INLINE hn::Vec<D> open_unit(D d, VU words) {
  constexpr int unused = 8 * static_cast<int>(sizeof(hn::TFromD<D>)) - bits;
  const hn::RebindToSigned<D> di;
  const auto k = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<unused>(words)));
  return hn::Mul(hn::Add(k, constant(d, 0.5)), constant(d, std::ldexp(1.0, -bits)));
}

/// Box-Muller: the first of two words (pairs of words in f64) gives the radius, the second the
/// angle of two standard normals. The radius uses more bits than an f32 holds, to reach further
/// into the tails: 6.7 standard deviations (f64: 8.6).
template <class T>
void normal_batch(const std::uint32_t* words, T* out) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  using TU = hn::TFromD<decltype(du)>;
  const TU* unsigned_words = reinterpret_cast<const TU*>(words);
  const auto lanes = hn::Lanes(d);
  constexpr int bits = sizeof(T) == 4 ? 31 : 53;
  for (std::size_t i = 0; i < batch_words / words_per_element<T>; i += 2 * lanes) {
    hn::Vec<decltype(du)> first, second;
    hn::LoadInterleaved2(du, unsigned_words + i, first, second);
    const auto log_u = hn::Log(d, open_unit<bits>(d, first));
    const auto radius = hn::Sqrt(hn::Mul(constant(d, -2), log_u));
    const auto angle = hn::Mul(open_unit<bits>(d, second), constant(d, 2 * std::numbers::pi));
    hn::StoreInterleaved2(hn::Mul(radius, hn::Cos(d, angle)), hn::Mul(radius, hn::Sin(d, angle)), d,
                          out + i);
  }
}

// ---- kernels

class CpuRandom final : public RandomKernels {
 public:
  void random_uniform(RngKey key, double low, double high, const Tensor& out) override {
    dispatch_real("random_uniform", out.dtype(), [&]<class T>(TypeTag<T>) {
      const T first = static_cast<T>(low), width = static_cast<T>(high - low);
      const T last = std::nextafter(static_cast<T>(high), first);  // rounding may reach `high`
      T* data = out.data<T>();
      for_batches(key, words_per_element<T>, out.numel(),
                  [=](const std::uint32_t* words, std::int64_t at, std::int64_t n) {
                    for (std::int64_t i = 0; i < n; ++i)
                      data[at + i] = std::min(first + width * unit_interval<T>(words, i), last);
                  });
    });
  }

  void random_normal(RngKey key, double mean, double stddev, const Tensor& out) override {
    dispatch_real("random_normal", out.dtype(), [&]<class T>(TypeTag<T>) {
      const T centre = static_cast<T>(mean), spread = static_cast<T>(stddev);
      T* data = out.data<T>();
      for_batches(key, words_per_element<T>, out.numel(),
                  [=](const std::uint32_t* words, std::int64_t at, std::int64_t n) {
                    HWY_ALIGN T normals[batch_words / words_per_element<T>];
                    normal_batch(words, normals);
                    for (std::int64_t i = 0; i < n; ++i)
                      data[at + i] = centre + spread * normals[i];
                  });
    });
  }

  void dropout(RngKey key, double p, const Tensor& x, const Tensor& y) override {
    if (p >= 1) return cpu_copy_kernels().fill(y, 0);
    dispatch_real("dropout", x.dtype(), [&]<class T>(TypeTag<T>) {
      const auto dropped = static_cast<std::uint32_t>(std::min(std::round(p * 0x1p32), 0x1p32 - 1));
      const T scale = static_cast<T>(1 / (1 - p));
      const T* from = x.data<T>();
      T* to = y.data<T>();
      for_batches(key, 1, x.numel(),
                  [=](const std::uint32_t* words, std::int64_t at, std::int64_t n) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      const T scaled = from[at + i] * scale;  // ahead of the choice: no branch
                      to[at + i] = words[i] >= dropped ? scaled : T{0};
                    }
                  });
    });
  }
};

RandomKernels& random_kernels() { return only<CpuRandom>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(random_kernels);
RandomKernels& cpu_random_kernels() { return HWY_DYNAMIC_DISPATCH(random_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
