// Copies and fills: the kernels of Tensor's members (clone, to, copy_from, fill, ...), and copies
// between the host and a device.
#pragma once

#include <vector>

#include "core/backend.h"
#include "core/tensor.h"

namespace mobius {

/// Joins the parts along dim. They have one type, one device, and one shape except for dim.
Tensor concat(const std::vector<Tensor>& parts, int dim);
/// Copies the elements of a dense x, in row-major order, to host memory that has room for
/// x.bytes().
void copy_to_host(const Tensor& x, void* host);
/// Copies x.bytes() of host memory into a dense x, whose version the caller bumps if needed.
void copy_from_host(const void* host, const Tensor& x);

class CopyKernels : public KernelFamily {
 public:
  static constexpr std::string_view family = "copy";

  /// Strided source and destination of equal shape; converts between any two types.
  virtual void copy(const Tensor& source, const Tensor& out) = 0;
  virtual void copy_to_host(const Tensor& source, void* host) = 0;
  virtual void copy_from_host(const void* host, const Tensor& out) = 0;
  virtual void fill(const Tensor& out, double value) = 0;  // strided
  virtual void arange(const Tensor& out) = 0;              // 0, 1, 2, ...
};

}  // namespace mobius
