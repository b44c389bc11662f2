// Special functions, element by element in double.

#include "core/ops/special.h"

#include "core/cpu/kernels.h"
#include "core/hyp2f1.h"
#include "core/parallel.h"

namespace mobius {

namespace {

class CpuSpecial final : public SpecialKernels {
 public:
  void log_hyp2f1(double a, double b, double c, const Tensor& x, const Tensor& y,
                  const Tensor& dy) override {
    dispatch_real("log_hyp2f1", x.dtype(), [&]<class T>(TypeTag<T>) {
      const T* const from = x.data<T>();
      double largest = 0;
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const double value = static_cast<double>(from[i]);
        if (value > largest && value < 1) largest = value;
      }
      const LogHyp2f1Tables tables(a, b, c, largest);
      const LogHyp2f1 function = tables.function();
      parallel_for(x.numel(), 256, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const ValueAndSlope f = function(static_cast<double>(from[i]));
          y.data<T>()[i] = static_cast<T>(f.value);
          dy.data<T>()[i] = static_cast<T>(f.slope);
        }
      });
    });
  }
};

}  // namespace

SpecialKernels& cpu_special_kernels() { return only<CpuSpecial>(); }

}  // namespace mobius
