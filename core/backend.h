// A device as a struct of families of kernels, and the one door through which they are called.
// Everything above core/ is composed of the functions of core/ops/ and never knows which device it
// runs on.
//
// A family has the same name in every layer: core/ops/norm.h declares the public functions and the
// class NormKernels, a device implements it in core/cpu/norm.cpp or core/cuda/norm.cu, and
// autograd/ops/norm.cpp has the gradients.
//
// Contract of every kernel: the caller (core/ops/) has checked shapes, types and devices and has
// allocated the outputs; kernels only assert. Inputs are dense row-major unless the comment says
// "strided"; outputs are dense row-major and are overwritten (=) unless the comment says
// "accumulates" (+=). Real inputs are all f32 or all f64.
#pragma once

#include <exception>
#include <string_view>

#include "core/allocator.h"
#include "core/device.h"
#include "core/tensor.h"

namespace mobius {

class CopyKernels;
class RandomKernels;
class ElementwiseKernels;
class ReduceKernels;
class MatmulKernels;
class SoftmaxKernels;
class AttentionKernels;
class LinearAttentionKernels;
class NormKernels;
class PointsKernels;
class BallKernels;
class RopeKernels;
class RowsKernels;
class LossKernels;
class SpecialKernels;
class DecompositionKernels;
class OptimizerKernels;

/// The base of every family of kernels. A family also has its name, for messages:
/// `static constexpr std::string_view family`.
class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
};

/// The single object of a class of kernels.
template <class Kernels>
Kernels& only() {
  static Kernels kernels;
  return kernels;
}

/// One device. A family that it lacks is null.
struct Backend {
  Allocator& allocator;
  /// Whether bf16 operands make products faster. If not, they change results by rounding only.
  bool has_bf16_products = false;
  /// Whether the host reads a tensor without waiting for work that was queued.
  bool reads_are_free = false;

  CopyKernels* copy = nullptr;
  RandomKernels* random = nullptr;
  ElementwiseKernels* elementwise = nullptr;
  ReduceKernels* reduce = nullptr;
  MatmulKernels* matmul = nullptr;
  SoftmaxKernels* softmax = nullptr;
  AttentionKernels* attention = nullptr;
  LinearAttentionKernels* linear_attention = nullptr;
  NormKernels* norm = nullptr;
  PointsKernels* points = nullptr;
  BallKernels* ball = nullptr;
  RopeKernels* rope = nullptr;
  RowsKernels* rows = nullptr;
  LossKernels* loss = nullptr;
  SpecialKernels* special = nullptr;
  DecompositionKernels* decomposition = nullptr;
  OptimizerKernels* optimizer = nullptr;

  /// Unless null, these surround each call of a kernel of `family` (a literal): a device makes
  /// itself current, opens its memory and checks what it launched. Calls nest if a kernel calls
  /// operations. `end` also runs after a kernel that threw, and must not throw then.
  void (*begin)(Device device, std::string_view family) = nullptr;
  void (*end)(Device device, bool kernel_threw) = nullptr;
};

/// The backend of a device; throws Error when this build has none for it.
Backend& backend_for(Device device);
/// The allocator of a device (memory counters, cache).
inline Allocator& allocator_for(Device device) { return backend_for(device).allocator; }

/// The backends that this program was linked with; nullptr if there is no device of that index.
/// A program without CUDA is linked with core/cuda/without_cuda.cpp; one that defines
/// test_backend() itself, as tests do, replaces the definition of core/without_test_backend.cpp,
/// which has none.
Backend* cpu_backend(int index);
Backend* cuda_backend(int index);
Backend* test_backend(int index);

[[noreturn]] void throw_family_lacking(Device device, std::string_view family);

/// The kernels of one family for the length of one full expression, between the hooks of their
/// device: see kernels().
template <class Family>
class KernelCall {
 public:
  KernelCall(Device device, Family* Backend::*family)
      : device_(device), backend_(backend_for(device)), kernels_(backend_.*family) {
    if (!kernels_) throw_family_lacking(device, Family::family);
    if (backend_.begin) backend_.begin(device_, Family::family);
  }
  ~KernelCall() noexcept(false) {
    if (backend_.end) backend_.end(device_, std::uncaught_exceptions() > exceptions_before_);
  }
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;

  Family* operator->() const { return kernels_; }

 private:
  Device device_;
  const Backend& backend_;
  Family* kernels_;
  int exceptions_before_ = std::uncaught_exceptions();
};

/// The door to the kernels of a device, or of the device that holds x:
///
///   kernels(x, &Backend::norm)->rms_norm(x, weight, eps, y, rstd);
///
/// Throws Error, naming the device and the family, if the device lacks it.
template <class Family>
KernelCall<Family> kernels(Device device, Family* Backend::*family) {
  return {device, family};
}
template <class Family>
KernelCall<Family> kernels(const Tensor& x, Family* Backend::*family) {
  return {x.device(), family};
}

}  // namespace mobius
