// Functions of one variable: y = f(x) and grad_x = grad_y f'(x), whole vectors at a time with a
// masked tail. The functions are in core/cpu/simd/functions-inl.h; there is one driver for each
// direction.
//
// Buffers: dense, of equal length; y and grad_x are overwritten (=) and may be x or grad_y.
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

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(unary);
HWY_EXPORT(unary_backward);

void CpuElementwise::unary(const Unary& f, const Tensor& x, const Tensor& y) {
  HWY_DYNAMIC_DISPATCH(unary)(f, x, y);
}

void CpuElementwise::unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                                    const Tensor& grad_y, const Tensor& grad_x) {
  HWY_DYNAMIC_DISPATCH(unary_backward)(f, x, y, grad_y, grad_x);
}

ElementwiseKernels& cpu_elementwise_kernels() { return only<CpuElementwise>(); }

}  // namespace mobius
#endif  // HWY_ONCE
