// Matrix products: brings the operands into a form the tile kernels take, cuts the product into
// tiles (core/cpu/gemm/gemm.h) and shares them among threads. The bias and activation of linear()
// are applied tile by tile, while the tile is still in cache.
// Buffers: linear() overwrites pre and out (=); matmul() overwrites out, or adds to it (+=) when it
// accumulates.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/matmul.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "core/cpu/gemm/gemm.h"
#include "core/cpu/kernels.h"
#include "core/cpu/rows.h"
#include "core/cpu/simd/functions-inl.h"
#include "core/cpu/simd/isa.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/ops/copy.h"
#include "core/ops/matmul.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// ---- matmul

// One operand of a batched product: its first matrix and the offsets of all.
template <class T>
struct Operand {
  MatrixView<const T> first;
  std::vector<std::int64_t> offsets;  // elements, one per matrix of the batch

  MatrixView<const T> matrix(std::int64_t i) const {
    return {first.data + offsets[static_cast<std::size_t>(i)], first.row_stride, first.col_stride};
  }
};

bool has_gemm_strides(const Tensor& x) {
  return is_gemm_operand(x.size(-2), x.size(-1), x.stride(-2), x.stride(-1));
}

template <class T>
Operand<T> make_operand(const Tensor& x) {
  return {{x.data<T>(), x.stride(-2), x.stride(-1)}, leading_offsets(x, 2)};
}

template <class T>
void run_tiles(const GemmPlan& plan, const GemmShape& s, const Operand<T>& a, const Operand<T>& b,
               bool accumulate, SumOf<T>* out, SumOf<T>* partials) {
  const std::int64_t batch = static_cast<std::int64_t>(a.offsets.size());
  const std::int64_t matrix = s.m * s.n, tasks_per_matrix = plan.tiles() * plan.k_chunks;
  // Tiny products are grouped: a thread should get a microsecond's work at least.
  const std::int64_t multiply_adds = plan.tile_m * plan.tile_n * plan.chunk_k;
  const std::int64_t grain =
      std::max<std::int64_t>(1, (1 << 18) / std::max<std::int64_t>(1, multiply_adds));
  parallel_for_each(batch * tasks_per_matrix, grain, [&](std::int64_t task) {
    const std::int64_t i = task / tasks_per_matrix;
    const std::int64_t chunk = task % tasks_per_matrix / plan.tiles();
    const std::int64_t tile = task % plan.tiles();
    const std::int64_t row = tile / plan.tiles_n * plan.tile_m;
    const std::int64_t col = tile % plan.tiles_n * plan.tile_n;
    const std::int64_t k = chunk * plan.chunk_k;
    const GemmShape part{std::min(plan.tile_m, s.m - row), std::min(plan.tile_n, s.n - col),
                         std::min(plan.chunk_k, s.k - k)};
    // The first chunk goes straight to out, the others to buffers of their own.
    SumOf<T>* c =
        chunk == 0 ? out + i * matrix : partials + (i * (plan.k_chunks - 1) + chunk - 1) * matrix;
    gemm_tile(part, a.matrix(i).from(row, k), b.matrix(i).from(k, col), accumulate && chunk == 0,
              c + row * s.n + col, s.n);
  });
}

// out[i] += partials[i, 0] + partials[i, 1] + ..., in this order.
template <class T>
void add_partials(std::int64_t batch, std::int64_t chunks, std::int64_t matrix, const T* partials,
                  T* out) {
  parallel_for(batch * matrix, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t i = at / matrix, first = at % matrix;
      const std::int64_t n = std::min(end - at, matrix - first);
      T* __restrict to = out + at;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const T* from = partials + (i * chunks + chunk) * matrix + first;
        for (std::int64_t j = 0; j < n; ++j) to[j] += from[j];
      }
      at += n;
    }
  });
}

// a and b are of T, out of SumOf<T>.
template <class T>
void multiply(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) {
  using Sum = SumOf<T>;
  const Operand<T> oa = make_operand<T>(a), ob = make_operand<T>(b);
  const std::int64_t batch = static_cast<std::int64_t>(oa.offsets.size());
  const GemmShape shape{a.size(-2), b.size(-1), a.size(-1)};
  const GemmPlan plan = plan_gemm(batch, shape, a.dtype(), true);
  Tensor partials;
  if (plan.k_chunks > 1)
    partials = Tensor::empty({batch, plan.k_chunks - 1, shape.m, shape.n}, out.dtype());
  Sum* const partial_data = partials.defined() ? partials.data<Sum>() : nullptr;
  run_tiles(plan, shape, oa, ob, accumulate, out.data<Sum>(), partial_data);
  if (plan.k_chunks > 1)
    add_partials(batch, plan.k_chunks - 1, shape.m * shape.n, partial_data, out.data<Sum>());
}

// If all matrices of the last batch dimension of a are multiplied by the same b, stacks them into
// one taller product. Returns whether there was such a dimension.
bool fold_last_batch_dim(Tensor& a, Tensor& b, Tensor& out) {
  const int dim = a.ndim() - 3;
  if (dim < 0) return false;
  const bool shared = b.stride(dim) == 0 || b.size(dim) == 1;
  const bool stacked = a.size(dim) == 1 || a.stride(dim) == a.stride(-2) * a.size(-2);
  if (!shared || !stacked) return false;
  const auto fold = [dim](const Tensor& x) {
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(dim + 1)] *= shape[static_cast<std::size_t>(dim)];
    shape.erase(shape.begin() + dim);
    return x.reshape(std::move(shape));
  };
  a = fold(a);
  b = b.slice(dim, 0, 1).squeeze(dim);
  out = fold(out);
  return true;
}

// ---- linear

// No activation: out is not written.
struct NoActivation {};

template <class F, class T>
void finish_row(const F& f, std::int64_t n, const T* bias, T* pre, T* out) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t j) HWY_ATTR {
    auto x = memory.load(pre + j);
    if (bias) {
      x = hn::Add(x, memory.load(bias + j));
      memory.store(x, pre + j);
    }
    if constexpr (!std::is_same_v<F, NoActivation>) memory.store(f.value(d, x), out + j);
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
  dispatch_real("linear", pre.dtype(), [&]<class T>(TypeTag<T>) {
    switch (activation) {
      case Activation::none:
        return bias.defined() ? finish_tile<T>(NoActivation{}, tile, bias, pre, out) : void();
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

// oneDNN multiplies faster by a plain matrix than by a transposed one, which it packs again for
// every tile of rows. With many more rows than columns it pays to transpose the weight first, but
// not with bf16, which oneDNN packs in any case.
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

  parallel_for_each(plan.tiles(), 1, [&](std::int64_t i) {
    const std::int64_t row = i / plan.tiles_n * plan.tile_m, col = i % plan.tiles_n * plan.tile_n;
    const LinearTile tile{row, std::min(plan.tile_m, s.m - row), col,
                          std::min(plan.tile_n, s.n - col)};
    if (s.k > 0) {
      gemm_tile({tile.rows, tile.cols, s.k}, left.from(row, 0), right.from(0, col), false,
                pre.data<SumOf<T>>() + row * s.n + col, s.n);
    }
    linear_epilogue(activation, tile, bias, pre, out);
  });
}

class CpuMatmul final : public MatmulKernels {
 public:
  void matmul(const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out) override {
    assert(out.is_contiguous());
    if (out.numel() == 0) return;
    if (a.size(-1) == 0) {
      if (!accumulate) cpu_copy_kernels().fill(out, 0);
      return;
    }
    if (a.dtype() == DType::bf16 && !isa_has_bf16_products())
      return matmul(a.to(DType::f32), b.to(DType::f32), accumulate, out);
    Tensor left = a, right = b, result = out;
    while (fold_last_batch_dim(left, right, result)) {
    }
    if (!has_gemm_strides(left)) left = left.contiguous();
    if (!has_gemm_strides(right)) right = right.contiguous();
    dispatch_operand("matmul", left.dtype(),
                     [&]<class T>(TypeTag<T>) { multiply<T>(left, right, accumulate, result); });
  }

  void linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
              const Tensor& pre, const Tensor& out) override {
    if (pre.numel() == 0) return;
    if (x.dtype() == DType::bf16 && !isa_has_bf16_products()) {
      return linear(x.to(DType::f32), weight.to(DType::f32), bias, activation, pre, out);
    }
    if (x.size(1) == 0) cpu_copy_kernels().fill(pre, 0);
    dispatch_operand("linear", x.dtype(), [&]<class T>(TypeTag<T>) {
      linear_tiles<T>(x, weight, bias, activation, pre, out);
    });
  }
};

MatmulKernels& matmul_kernels() { return only<CpuMatmul>(); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(matmul_kernels);
MatmulKernels& cpu_matmul_kernels() { return HWY_DYNAMIC_DISPATCH(matmul_kernels)(); }

}  // namespace mobius
#endif  // HWY_ONCE
