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

#include <type_traits>

#include "core/cpu/elementwise/kernels.h"
#include "core/cpu/grain.h"
#include "core/cpu/simd/functions-inl.h"
#include "core/cpu/simd/vectors-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

template <class T, class F>
struct Forward {
  F f;
  const T* x;
  T* y;

  template <class D, class Access>
  HWY_INLINE void operator()(D d, Access access, std::int64_t i) const {
    access.store(f.value(d, access.load(x + i)), y + i);
  }
};

template <class T, class F>
struct Backward {
  F f;
  const T *x, *y, *grad_y;
  T* grad_x;

  template <class D, class Access>
  HWY_INLINE void operator()(D d, Access access, std::int64_t i) const {
    const auto slope = f.derivative(d, access.load(x + i), access.load(y + i));
    access.store(hn::Mul(access.load(grad_y + i), slope), grad_x + i);
  }
};

void unary_chunk(const Unary& f, const Tensor& x, const Tensor& y, std::int64_t begin,
                 std::int64_t end) {
  dispatch_real("unary", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_function(f, [&](const auto& function) {
      using F = std::remove_cvref_t<decltype(function)>;
      for_vectors<T>(end - begin,
                     Forward<T, F>{function, x.data<T>() + begin, y.data<T>() + begin});
    });
  });
}

void unary_backward_chunk(const Unary& f, const Tensor& x, const Tensor& y, const Tensor& grad_y,
                          const Tensor& grad_x, std::int64_t begin, std::int64_t end) {
  dispatch_real("unary_backward", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_function(f, [&](const auto& function) {
      using F = std::remove_cvref_t<decltype(function)>;
      for_vectors<T>(end - begin,
                     Backward<T, F>{function, x.data<T>() + begin, y.data<T>() + begin,
                                    grad_y.data<T>() + begin, grad_x.data<T>() + begin});
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mobius {

HWY_EXPORT(unary_chunk);
HWY_EXPORT(unary_backward_chunk);

void CpuElementwise::unary(const Unary& f, const Tensor& x, const Tensor& y) {
  parallel_for(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(unary_chunk)(f, x, y, begin, end);
  });
}

void CpuElementwise::unary_backward(const Unary& f, const Tensor& x, const Tensor& y,
                                    const Tensor& grad_y, const Tensor& grad_x) {
  parallel_for(x.numel(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(unary_backward_chunk)(f, x, y, grad_y, grad_x, begin, end);
  });
}

ElementwiseKernels& cpu_elementwise_kernels() {
  static CpuElementwise kernels;
  return kernels;
}

}  // namespace mobius
#endif  // HWY_ONCE
