// Several adjacent elements at a time: 16 bytes an access wherever memory is aligned, and element
// by element where it is not, since views may start at any element.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/cuda/launch.cuh"

namespace mobius::cuda {

constexpr int access_bytes = 16;

/// Elements that a thread takes at a time, so that those of the largest type fill an access.
template <class... Ts>
constexpr int pack_width = std::min(8, access_bytes / static_cast<int>(std::max({sizeof(Ts)...})));

template <class T, int kWidth>
struct Pack {
  T values[kWidth]{};

  __device__ T& operator[](int i) { return values[i]; }
  __device__ const T& operator[](int i) const { return values[i]; }
};

/// The pack of elements `first` to `first` + kWidth - 1, of which those from `begin` to `end` - 1,
/// counted from `first`, exist.
template <int kWidth>
struct PackPlace {
  std::int64_t first;
  int begin, end;

  __device__ PackPlace(std::int64_t at, std::int64_t n)
      : first(at),
        begin(at < 0 ? static_cast<int>(-at) : 0),
        end(static_cast<int>(n - at < kWidth ? n - at : kWidth)) {}
  __device__ bool is_whole() const { return begin == 0 && end == kWidth; }
  __device__ bool is_empty() const { return begin >= end; }
  __device__ bool has(int i) const { return i >= begin && i < end; }
};

// ---- memory

template <int kBytes>
struct AccessOf;
template <>
struct AccessOf<16> {
  using type = uint4;
};
template <>
struct AccessOf<8> {
  using type = uint2;
};
template <>
struct AccessOf<4> {
  using type = std::uint32_t;
};
template <>
struct AccessOf<2> {
  using type = std::uint16_t;
};
template <>
struct AccessOf<1> {
  using type = std::uint8_t;
};

/// A pack as the words that memory is accessed by.
template <class T, int kWidth>
struct PackWords {
  static constexpr int bytes = static_cast<int>(sizeof(T)) * kWidth;
  using Word = typename AccessOf<std::min(bytes, access_bytes)>::type;
  static constexpr int count = bytes / static_cast<int>(sizeof(Word));
  Word words[count];
};

template <class Word>
__device__ bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % sizeof(Word) == 0;
}

/// The elements of x at `place`, `step` apart; those that do not exist are T{}.
template <int kWidth, class T>
__device__ Pack<T, kWidth> load(const T* x, PackPlace<kWidth> place, std::int64_t step = 1) {
  using Words = PackWords<T, kWidth>;
  const T* const from = x + place.first * step;
  if (step == 1 && place.is_whole() && is_aligned<typename Words::Word>(from)) {
    Words words;
#pragma unroll
    for (int k = 0; k < Words::count; ++k)
      words.words[k] = reinterpret_cast<const typename Words::Word*>(from)[k];
    return std::bit_cast<Pack<T, kWidth>>(words);
  }
  Pack<T, kWidth> pack;
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (place.has(i)) pack[i] = from[i * step];
  return pack;
}

/// Stores those elements of `pack` that exist. Whole packs are stored by an instruction of their
/// own: nvcc does not see everywhere that the words of an assignment make one access.
template <int kWidth, class T>
__device__ void store(const Pack<T, kWidth>& pack, T* x, PackPlace<kWidth> place,
                      std::int64_t step = 1) {
  using Words = PackWords<T, kWidth>;
  T* const to = x + place.first * step;
  if (step == 1 && place.is_whole() && is_aligned<typename Words::Word>(to)) {
    const auto words = std::bit_cast<Words>(pack);
#pragma unroll
    for (int k = 0; k < Words::count; ++k)
      __stwb(reinterpret_cast<typename Words::Word*>(to) + k, words.words[k]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (place.has(i)) to[i * step] = pack[i];
}

// ---- dense arrays, a pack a thread

/// How many elements x lies beyond a border of packs.
template <int kWidth, class T>
__host__ __device__ int pack_shift(const T* x) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(x) / sizeof(T) % kWidth);
}

/// The pack of this thread among those of n elements. With the pack_shift() of the array that
/// matters most, the packs are aligned in that one.
template <int kWidth>
__device__ PackPlace<kWidth> pack_of_thread(std::int64_t n, int shift = 0) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  return {thread * kWidth - shift, n};
}

/// One thread for each pack of pack_of_thread().
template <int kWidth>
LaunchShape for_packs(std::int64_t n, int shift = 0) {
  return for_elements(n == 0 ? 0 : ceil_div(n + shift, std::int64_t{kWidth}));
}

}  // namespace mobius::cuda
