// swiglu = silu(gate) up, one pass each way.
// Buffers: dense, of equal length; outputs are overwritten (=).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/elementwise/swiglu.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

#include "core/cpu/elementwise/kernels.h"
#include "core/cpu/simd/functions-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

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

HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_backward);

void CpuElementwise::swiglu(const Tensor& gate, const Tensor& up, const Tensor& out) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, out);
}

void CpuElementwise::swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& grad_out,
                                     const Tensor& grad_gate, const Tensor& grad_up) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward)(gate, up, grad_out, grad_gate, grad_up);
}

}  // namespace mobius
#endif  // HWY_ONCE
