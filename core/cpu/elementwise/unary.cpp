// Functions of one variable: y = f(x) and grad_x = grad_y f'(x), whole vectors at a time with a
// masked tail, one driver for each direction; and SwiGLU. The functions are in
// core/cpu/simd/functions-inl.h.
//
// Buffers: dense, of equal length; outputs are overwritten (=). y and grad_x may be x or grad_y.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/elementwise/unary.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include <algorithm>

#include "core/cpu/elementwise/kernels.h"
#include "core/cpu/simd/functions-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

// The functions are long: to compile each once, not again for the end of a row, the last vector
// goes the way of the others, with fewer lanes to load and store.

template <class T, class F>
void unary_row(F f, const T* x, T* y, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto left = static_cast<std::size_t>(std::min(lanes, n - i));
    store_first(f.value(d, load_first(d, x + i, left)), d, y + i, left);
  }
}

template <class T, class F>
void unary_backward_row(F f, const T* x, const T* y, const T* grad_y, T* grad_x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto left = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto slope = f.derivative(d, load_first(d, x + i, left), load_first(d, y + i, left));
    store_first(hn::Mul(load_first(d, grad_y + i, left), slope), d, grad_x + i, left);
  }
}

void unary(const Unary& f, const Tensor& x, const Tensor& y) {
  dispatch_real("unary", x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      with_function(f, [&](const auto& function) {
        unary_row(function, x.data<T>() + begin, y.data<T>() + begin, end - begin);
      });
    });
  });
}

void unary_backward(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                    const Tensor& grad_x) {
  dispatch_real("unary_backward", x.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      with_function(f, [&](const auto& function) {
        unary_backward_row(function, x.data<T>() + begin, y.data<T>() + begin,
                           grad_y.data<T>() + begin, grad_x.data<T>() + begin, end - begin);
      });
    });
  });
}

// ---- swiglu = silu(gate) up

template <class T>
void swiglu_row(const T* gate, const T* up, std::int64_t n, T* out) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
    const auto silu = functions::Silu{}.value(d, memory.load(gate + i));
    memory.store(hn::Mul(silu, memory.load(up + i)), out + i);
  });
}

template <class T>
void swiglu_backward_row(const T* gate, const T* up, const T* grad_out, std::int64_t n,
                         T* grad_gate, T* grad_up) {
  for_vectors<T>(n, [&](auto d, auto memory, std::int64_t i) HWY_ATTR {
    const auto x = memory.load(gate + i), grad = memory.load(grad_out + i);
    const auto silu = functions::Silu{}.value(d, x);
    const auto slope = functions::Silu{}.derivative(d, x, silu);
    memory.store(hn::Mul(grad, silu), grad_up + i);
    memory.store(hn::Mul(hn::Mul(grad, memory.load(up + i)), slope), grad_gate + i);
  });
}

void swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) {
  dispatch_real("swiglu", gate.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(out.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      swiglu_row(gate.data<T>() + begin, up.data<T>() + begin, end - begin, out.data<T>() + begin);
    });
  });
}

void swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                     const Tensor& grad_gate, const Tensor& grad_up) {
  dispatch_real("swiglu_backward", gate.dtype(), [&]<class T>(TypeTag<T>) {
    parallel_for(gate.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      swiglu_backward_row(gate.data<T>() + begin, up.data<T>() + begin, grad_out.data<T>() + begin,
                          end - begin, grad_gate.data<T>() + begin, grad_up.data<T>() + begin);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(unary);
HWY_EXPORT(unary_backward);
HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_backward);

void CpuElementwise::unary(const Unary& f, const Tensor& x, const Tensor& y) {
  HWY_DYNAMIC_DISPATCH(unary)(f, x, y);
}

void CpuElementwise::unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                                    const Tensor& grad_y, const Tensor& grad_x) {
  HWY_DYNAMIC_DISPATCH(unary_backward)(f, x, y, grad_y, grad_x);
}

void CpuElementwise::swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, out);
}

void CpuElementwise::swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                                     const Tensor& grad_gate, const Tensor& grad_up) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward)(gate, up, grad_out, grad_gate, grad_up);
}

ElementwiseKernels& cpu_elementwise_kernels() { return only<CpuElementwise>(); }

}  // namespace mobius
#endif  // HWY_ONCE
