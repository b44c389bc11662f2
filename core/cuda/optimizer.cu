// Optimiser updates in one pass over gradient, parameter and moments. A launch updates as many
// parameters as its arguments name; what changes from step to step is read from device memory.
//
// Buffers of a parameter: dense, of equal length; the gradient is read, the others are updated in
// place.
#include <cmath>
#include <limits>

#include "core/cuda/chunks.cuh"
#include "core/cuda/kernels.h"
#include "core/cuda/reduce.cuh"
#include "core/cuda/vector.cuh"
#include "core/ops/optimizer.h"

namespace mobius::cuda {
namespace {

// ---- clipping

/// The first index below n for which is(index), or n, in every thread of the block.
template <class Predicate>
__device__ std::int64_t first_of_block(std::int64_t n, const Predicate& is) {
  std::int64_t first = n;
  for (std::int64_t i = n - 1 - threadIdx.x; i >= 0; i -= blockDim.x)
    if (is(i)) first = i;
  return block_reduce(first, n, [](std::int64_t a, std::int64_t b) { return min(a, b); });
}

/// One block.
__global__ void clip_gradients_kernel(const double* squares, std::int64_t n, double max_norm,
                                      double* now) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += squares[i];
  const double norm = std::sqrt(block_sum(sum));
  const std::int64_t bad =
      first_of_block(n, [squares](std::int64_t i) { return !std::isfinite(squares[i]); });
  if (threadIdx.x != 0) return;
  now[UpdateScalar::factor] = 0;
  if (now[UpdateScalar::failed_step] != 0) return;
  now[UpdateScalar::norm] = norm;
  if (std::isfinite(norm)) {
    now[UpdateScalar::factor] = norm > max_norm ? max_norm / norm : 1;
    return;
  }
  now[UpdateScalar::failed_step] = now[UpdateScalar::step];
  now[UpdateScalar::failed_gradient] = bad == n ? -1 : static_cast<double>(bad);
}

// ---- updates

struct UpdateItem {
  const void* gradient;
  void* value;
  void* moments[2];
  std::int64_t n;
  bool decays;
};
using UpdateTable = ChunkTable<UpdateItem>;

constexpr std::int64_t chunk_elements = 4096;

/// What an update reads and writes of some neighbours.
template <class T, int kWidth>
struct UpdatePacks {
  Pack<T, kWidth> gradient, value, moments[2];
};

/// Calls update(decays, gradient, value, moment 0, moment 1) for the elements of this block's
/// chunk.
template <class T, int kMoments, class Update>
__device__ void update_chunk(const UpdateTable& table, const Update& update) {
  constexpr int width = pack_width<T>;
  const ItemChunk chunk = table[static_cast<std::int32_t>(blockIdx.x)];
  const UpdateItem& item = table.items[chunk.item];
  const auto moment = [&item](int k) { return static_cast<T*>(item.moments[k]); };
  T* const value = static_cast<T*>(item.value);
  for (std::int64_t i = chunk.begin + threadIdx.x * width; i < chunk.end; i += blockDim.x * width) {
    const PackPlace<width> place(i, chunk.end);
    UpdatePacks<T, width> x;
    x.gradient = load(static_cast<const T*>(item.gradient), place);
    x.value = load(value, place);
#pragma unroll
    for (int k = 0; k < kMoments; ++k) x.moments[k] = load(moment(k), place);
#pragma unroll
    for (int e = 0; e < width; ++e)
      update(item.decays, x.gradient[e], x.value[e], x.moments[0][e], x.moments[1][e]);
    store(x.value, value, place);
#pragma unroll
    for (int k = 0; k < kMoments; ++k) store(x.moments[k], moment(k), place);
  }
}

/// x, or 0 for a subnormal x: as on the CPU, the moments of what gets no gradients any more decay
/// to 0, not to a number that rounding keeps as it is.
template <class T>
__device__ T flushed(T x) {
  return std::abs(x) < std::numeric_limits<T>::min() ? T{0} : x;
}

/// 1 / (1 - beta^step) of both moments.
__global__ void unbias_kernel(AdamWSettings s, const double* now, double* unbias) {
  const double beta = threadIdx.x == 0 ? s.beta1 : s.beta2;
  unbias[threadIdx.x] = 1 / (1 - std::pow(beta, now[UpdateScalar::step]));
}

/// m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
/// p -= lr (m_hat / (sqrt(v_hat) + eps) + weight_decay p),  x_hat = x / (1 - beta^step):
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019), docs/MATH.md section 5.
template <class T>
__global__ void adamw_kernel(const __grid_constant__ UpdateTable table, AdamWSettings s,
                             const double* now, const double* unbias) {
  if (now[UpdateScalar::factor] == 0) return;
  const T lr = static_cast<T>(now[UpdateScalar::learning_rate]);
  const T factor = static_cast<T>(now[UpdateScalar::factor]);
  const T unbias_m = static_cast<T>(unbias[0]), unbias_v = static_cast<T>(unbias[1]);
  const T beta1 = static_cast<T>(s.beta1), rest1 = static_cast<T>(1 - s.beta1);
  const T beta2 = static_cast<T>(s.beta2), rest2 = static_cast<T>(1 - s.beta2);
  const T eps = static_cast<T>(s.eps), weight_decay = static_cast<T>(s.weight_decay);
  update_chunk<T, 2>(table, [&](bool decays, T gradient, T& p, T& m, T& v) {
    const T g = gradient * factor;
    m = flushed(std::fma(beta1, m, rest1 * g));
    v = flushed(std::fma(beta2, v, rest2 * (g * g)));
    const T step = m * unbias_m / (std::sqrt(v * unbias_v) + eps);
    p = std::fma(-lr, std::fma(decays ? weight_decay : T{0}, p, step), p);
  });
}

/// Without momentum: p -= lr g, with g = gradient + weight_decay p.
template <class T>
__global__ void sgd_kernel(const __grid_constant__ UpdateTable table, SgdSettings s,
                           const double* now) {
  if (now[UpdateScalar::factor] == 0) return;
  const T lr = static_cast<T>(now[UpdateScalar::learning_rate]);
  const T factor = static_cast<T>(now[UpdateScalar::factor]);
  const T weight_decay = static_cast<T>(s.weight_decay);
  update_chunk<T, 0>(table, [&](bool decays, T gradient, T& p, T&, T&) {
    const T g = std::fma(decays ? weight_decay : T{0}, p, gradient * factor);
    p = std::fma(-lr, g, p);
  });
}

/// b = momentum b + g (b = g at the first step), p -= lr b, or lr (g + momentum b) by Nesterov.
/// Momentum and decay as PyTorch defines them.
template <class T>
__global__ void momentum_kernel(const __grid_constant__ UpdateTable table, SgdSettings s,
                                const double* now) {
  if (now[UpdateScalar::factor] == 0) return;
  const T lr = static_cast<T>(now[UpdateScalar::learning_rate]);
  const T factor = static_cast<T>(now[UpdateScalar::factor]);
  const T weight_decay = static_cast<T>(s.weight_decay), momentum = static_cast<T>(s.momentum);
  const T kept = now[UpdateScalar::step] == 1 ? T{0} : momentum;
  update_chunk<T, 1>(table, [&](bool decays, T gradient, T& p, T& b, T&) {
    const T g = std::fma(decays ? weight_decay : T{0}, p, gradient * factor);
    b = flushed(std::fma(kept, b, g));
    p = std::fma(-lr, s.nesterov ? std::fma(momentum, b, g) : b, p);
  });
}

// ---- kernels

/// Calls launch_table(type, table, shape) for all parameters that have a gradient.
template <class Fn>
void for_update_tables(std::string_view op, std::span<const ParameterUpdate> updates,
                       std::size_t n_moments, const Fn& launch_table) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<UpdateItem> items;
    for (const ParameterUpdate& update : updates) {
      if (!update.gradient.defined() || update.value.dtype() != dtype) continue;
      UpdateItem item{
          update.gradient.raw(), update.value.raw(), {}, update.value.numel(), update.decays};
      for (std::size_t k = 0; k < n_moments; ++k) item.moments[k] = update.moments[k].raw();
      items.push_back(item);
    }
    dispatch_real(op, dtype, [&](auto type) {
      for_chunk_tables(items, chunk_elements, [&](const UpdateTable& table) {
        launch_table(type, table,
                     LaunchShape{.grid = dim3(static_cast<unsigned>(table.n_chunks()))});
      });
    });
  }
}

class CudaOptimizer final : public OptimizerKernels {
 public:
  void clip_gradients(const Tensor& squares, double max_norm, const Tensor& scalars) override {
    launch(clip_gradients_kernel, {.grid = dim3(1)}, squares.data<double>(), squares.numel(),
           max_norm, scalars.data<double>());
  }

  void adamw(const AdamWSettings& s, std::span<const ParameterUpdate> updates,
             const Tensor& scalars) override {
    const double* const now = scalars.data<double>();
    const Tensor unbias = Tensor::empty({2}, DType::f64, scalars.device());
    launch(unbias_kernel, {.grid = dim3(1), .block = dim3(2)}, s, now, unbias.data<double>());
    for_update_tables("adamw", updates, 2,
                      [&]<class T>(TypeTag<T>, const UpdateTable& table, const LaunchShape& shape) {
                        launch(adamw_kernel<T>, shape, table, s, now, unbias.data<double>());
                      });
  }

  void sgd(const SgdSettings& s, std::span<const ParameterUpdate> updates,
           const Tensor& scalars) override {
    for_update_tables("sgd", updates, s.momentum == 0 ? 0 : 1,
                      [&]<class T>(TypeTag<T>, const UpdateTable& table, const LaunchShape& shape) {
                        launch(s.momentum == 0 ? sgd_kernel<T> : momentum_kernel<T>, shape, table,
                               s, scalars.data<double>());
                      });
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

OptimizerKernels& cuda_optimizer_kernels() { return only<cuda::CudaOptimizer>(); }

}  // namespace mobius
