// CpuBackend::linear: a matrix product whose bias and activation are applied tile by tile, while
// the tile is still in cache. pre and out are overwritten.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/linear.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/gemm/gemm.h"
#include "core/cpu/simd/functions-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// No activation: out is not written.
struct Identity {};

template <class F, class T>
void finish_row(const F& f, std::int64_t n, const T* bias, T* pre, T* out) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    auto x = memory.load(pre + j);
    if (bias) {
      x = hn::Add(x, memory.load(bias + j));
      memory.store(x, pre + j);
    }
    if constexpr (!std::is_same_v<F, Identity>) memory.store(f.value(d, x), out + j);
  });
}

template <class T, class F>
void finish_tile(const F& f, const LinearTile& tile, const Tensor& bias, const Tensor& pre,
                 const Tensor& out) {
  const T* const bias_row = bias.defined() ? bias.data<T>() + tile.col : nullptr;
  for (std::int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
    const std::int64_t at = i * pre.size(-1) + tile.col;
    finish_row(f, tile.cols, bias_row, pre.data<T>() + at,
               out.defined() ? out.data<T>() + at : nullptr);
  }
}

void linear_epilogue(Activation activation, const LinearTile& tile, const Tensor& bias,
                     const Tensor& pre, const Tensor& out) {
  dispatch_real("linear", pre.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (activation) {
      case Activation::none:
        return bias.defined() ? finish_tile<T>(Identity{}, tile, bias, pre, out) : void();
      case Activation::relu:
        return finish_tile<T>(functions::Relu{}, tile, bias, pre, out);
      case Activation::silu:
        return finish_tile<T>(functions::Silu{}, tile, bias, pre, out);
      case Activation::gelu:
        return finish_tile<T>(functions::Gelu{}, tile, bias, pre, out);
      case Activation::gelu_tanh:
        return finish_tile<T>(functions::GeluTanh{}, tile, bias, pre, out);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(linear_epilogue);

namespace {

// oneDNN multiplies by a plain matrix faster than by a transposed one, which it packs anew for
// every tile of rows; with many more rows than columns, turning the weight round first pays. Not so
// with bf16, which it packs all the same.
template <class T>
bool should_transpose(const GemmShape& s) {
  return !std::is_same_v<T, BFloat16> && s.m >= 4 * s.n && s.m >= 2 * s.k;
}

// x and weight are of T, all else of SumOf<T>.
template <class T>
void linear_tiles(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                  const Tensor& pre, const Tensor& out) {
  const GemmShape s{x.size(0), weight.size(0), x.size(1)};
  const GemmPlan plan = plan_gemm(1, s, x.dtype(), false);
  Tensor w = weight.transpose(0, 1);  // [K, N]
  if (should_transpose<T>(s)) w = w.contiguous();
  const MatrixView<const T> left{x.data<T>(), s.k, 1}, right{w.data<T>(), w.stride(0), w.stride(1)};

  parallel_for(plan.tiles(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / plan.tiles_n * plan.tile_m, col = i % plan.tiles_n * plan.tile_n;
      const LinearTile tile{row, std::min(plan.tile_m, s.m - row), col,
                            std::min(plan.tile_n, s.n - col)};
      if (s.k > 0) {
        gemm_tile({tile.rows, tile.cols, s.k}, left.from(row, 0), right.from(0, col), false,
                  pre.data<SumOf<T>>() + row * s.n + col, s.n);
      }
      HWY_DYNAMIC_DISPATCH(linear_epilogue)(activation, tile, bias, pre, out);
    }
  });
}

}  // namespace

void CpuBackend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Activation activation, const Tensor& pre, const Tensor& out) {
  if (pre.numel() == 0) return;
  if (x.dtype() == DType::bf16 && !has_bf16_products()) {
    return linear(x.to(DType::f32), weight.to(DType::f32), bias, activation, pre, out);
  }
  if (x.size(1) == 0) fill(pre, 0);
  dispatch_operand("linear", x.dtype(), [&](auto tag) {
    linear_tiles<typename decltype(tag)::type>(x, weight, bias, activation, pre, out);
  });
}

}  // namespace mobius
#endif  // HWY_ONCE
