// Special functions, element by element in double.
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>

#include "core/cuda/kernels.h"
#include "core/cuda/launch.cuh"
#include "core/hyp2f1.h"
#include "core/ops/copy.h"
#include "core/ops/special.h"

namespace mobius::cuda {
namespace {

template <class T>
__global__ void log_hyp2f1_kernel(LogHyp2f1 function, std::int64_t n, const T* x, T* value,
                                  T* derivative) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const ValueAndSlope f = function(static_cast<double>(x[i]));
  value[i] = static_cast<T>(f.value);
  derivative[i] = static_cast<T>(f.slope);
}

/// The tables of one function in the memory of a device, for all arguments, so that the host need
/// not know the largest.
struct DeviceTables {
  Tensor expansions, coefficients;  // as bytes
  LogHyp2f1 function;

  DeviceTables(double a, double b, double c, Device device) {
    const LogHyp2f1Tables tables(a, b, c, std::nextafter(1.0, 0.0));
    expansions = upload_all(tables.expansions(), device);
    coefficients = upload_all(tables.coefficients(), device);
    function = tables.reading(static_cast<const Hyp2f1Expansion*>(expansions.raw()),
                              static_cast<const double*>(coefficients.raw()));
  }

 private:
  template <class T>
  static Tensor upload_all(const std::vector<T>& values, Device device) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
    const Tensor all = Tensor::empty({bytes}, DType::u8, device);
    cuda_copy_kernels().copy_from_host(values.data(), all);
    return all;
  }
};

class CudaSpecial final : public SpecialKernels {
 public:
  void log_hyp2f1(double a, double b, double c, const Tensor& x, const Tensor& value,
                  const Tensor& derivative) override {
    const LogHyp2f1 function = function_on(x.device(), a, b, c);
    dispatch_real("log_hyp2f1", x.dtype(), [&]<class T>(TypeTag<T>) {
      launch(log_hyp2f1_kernel<T>, for_elements(x.numel()), function, x.numel(), x.data<T>(),
             value.data<T>(), derivative.data<T>());
    });
  }

 private:
  /// A model has few functions, and each step of training needs them again. Their parameters are
  /// compared as bits, since a NaN has no order.
  static LogHyp2f1 function_on(Device device, double a, double b, double c) {
    using Key = std::pair<int, std::array<std::uint64_t, 3>>;
    static std::mutex mutex;
    // Never destroyed: at the end of the program there may be no device to free memory on.
    static auto* const known = new std::map<Key, DeviceTables>;
    const std::lock_guard lock(mutex);
    const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
    const Key key{device.index, {bits(a), bits(b), bits(c)}};
    return known->try_emplace(key, a, b, c, device).first->second.function;
  }
};

}  // namespace
}  // namespace mobius::cuda

namespace mobius {

SpecialKernels& cuda_special_kernels() { return only<cuda::CudaSpecial>(); }

}  // namespace mobius
