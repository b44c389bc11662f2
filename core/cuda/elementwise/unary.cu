// Functions of one variable: y = f(x) and grad_x = grad_y f'(x); and SwiGLU.
//
// Buffers: dense, of equal length; outputs are overwritten (=). y and grad_x may be x or grad_y.
#include "core/cuda/elementwise/functions.cuh"
#include "core/cuda/elementwise/kernels.h"
#include "core/cuda/vector.cuh"

namespace mobius::cuda {
namespace {

template <class F, class T>
constexpr int width_of = F::is_long ? 1 : pack_width<T>;

template <class F, class T>
__global__ void unary_kernel(F f, std::int64_t n, int shift, const T* x, T* y) {
  constexpr int width = width_of<F, T>;
  const auto place = pack_of_thread<width>(n, shift);
  if (place.is_empty()) return;
  const auto from = load(x, place);
  Pack<T, width> to;
#pragma unroll
  for (int i = 0; i < width; ++i) to[i] = f.value(from[i]);
  store(to, y, place);
}

template <class F, class T>
__global__ void unary_backward_kernel(F f, std::int64_t n, int shift, const T* x, const T* y,
                                      const T* grad_y, T* grad_x) {
  constexpr int width = width_of<F, T>;
  const auto place = pack_of_thread<width>(n, shift);
  if (place.is_empty()) return;
  const auto from = load(x, place), to = load(y, place), grad = load(grad_y, place);
  Pack<T, width> result;
#pragma unroll
  for (int i = 0; i < width; ++i) result[i] = grad[i] * f.derivative(from[i], to[i]);
  store(result, grad_x, place);
}

template <class T>
__global__ void swiglu_kernel(std::int64_t n, int shift, const T* gate, const T* up, T* out) {
  constexpr int width = pack_width<T>;
  const auto place = pack_of_thread<width>(n, shift);
  if (place.is_empty()) return;
  const auto x = load(gate, place), factor = load(up, place);
  Pack<T, width> result;
#pragma unroll
  for (int i = 0; i < width; ++i) result[i] = functions::Silu().value(x[i]) * factor[i];
  store(result, out, place);
}

template <class T>
__global__ void swiglu_backward_kernel(std::int64_t n, int shift, const T* gate, const T* up,
                                       const T* grad_out, T* grad_gate, T* grad_up) {
  constexpr int width = pack_width<T>;
  const auto place = pack_of_thread<width>(n, shift);
  if (place.is_empty()) return;
  const auto x = load(gate, place), factor = load(up, place), grad = load(grad_out, place);
  Pack<T, width> of_gate, of_up;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const T silu = functions::Silu().value(x[i]);
    of_up[i] = grad[i] * silu;
    of_gate[i] = grad[i] * factor[i] * functions::Silu().derivative(x[i], silu);
  }
  store(of_gate, grad_gate, place);
  store(of_up, grad_up, place);
}

}  // namespace

void CudaElementwise::unary(const Unary& f, const Tensor& x, const Tensor& y) {
  dispatch_real("unary", x.dtype(), [&]<class T>(TypeTag<T>) {
    with_function(f, [&]<class F>(const F& function) {
      const int shift = pack_shift<width_of<F, T>>(y.data<T>());
      launch(unary_kernel<F, T>, for_packs<width_of<F, T>>(x.numel(), shift), function, x.numel(),
             shift, x.data<T>(), y.data<T>());
    });
  });
}

void CudaElementwise::unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                                     const Tensor& grad_y, const Tensor& grad_x) {
  dispatch_real("unary_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
    with_function(f, [&]<class F>(const F& function) {
      const int shift = pack_shift<width_of<F, T>>(grad_x.data<T>());
      launch(unary_backward_kernel<F, T>, for_packs<width_of<F, T>>(x.numel(), shift), function,
             x.numel(), shift, x.data<T>(), y.data<T>(), grad_y.data<T>(), grad_x.data<T>());
    });
  });
}

void CudaElementwise::swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) {
  dispatch_real("swiglu", gate.dtype(), [&]<class T>(TypeTag<T>) {
    const int shift = pack_shift<pack_width<T>>(out.data<T>());
    launch(swiglu_kernel<T>, for_packs<pack_width<T>>(out.numel(), shift), out.numel(), shift,
           gate.data<T>(), up.data<T>(), out.data<T>());
  });
}

void CudaElementwise::swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                                      const Tensor& grad_gate, const Tensor& grad_up) {
  dispatch_real("swiglu_backward", gate.dtype(), [&]<class T>(TypeTag<T>) {
    const int shift = pack_shift<pack_width<T>>(grad_gate.data<T>());
    launch(swiglu_backward_kernel<T>, for_packs<pack_width<T>>(gate.numel(), shift), gate.numel(),
           shift, gate.data<T>(), up.data<T>(), grad_out.data<T>(), grad_gate.data<T>(),
           grad_up.data<T>());
  });
}

}  // namespace mobius::cuda

namespace mobius {

ElementwiseKernels& cuda_elementwise_kernels() { return only<cuda::CudaElementwise>(); }

}  // namespace mobius
