// Tensor: an n-dimensional strided view of shared storage.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace mobius {

/// A block of device memory. Its version counts in-place changes: autograd uses it to detect that
/// a value saved for the backward pass has been overwritten.
class Storage {
 public:
  Storage(std::size_t bytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  std::uint64_t version() const { return version_; }
  void bump_version() { ++version_; }
  /// Swaps the memory of two storages, but not their versions.
  void swap(Storage& other);

 private:
  std::size_t bytes_;
  Device device_;
  void* data_;
  std::atomic<std::uint64_t> version_{0};
};

/// Copying a Tensor copies the handle, not the elements. Views share storage. A negative `int dim`
/// counts from the end.
class Tensor {
 public:
  /// Makes an undefined tensor, without storage or shape.
  Tensor() = default;

  // ---- construction
  static Tensor empty(Shape shape, DType dtype = DType::f32, Device device = {});
  static Tensor full(Shape shape, double value, DType dtype = DType::f32, Device device = {});
  static Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = {});
  static Tensor ones(Shape shape, DType dtype = DType::f32, Device device = {});
  /// Returns 0, 1, ..., n-1.
  static Tensor arange(std::int64_t n, DType dtype = DType::i64, Device device = {});
  /// Copies host elements, row-major. Throws ShapeError if their number is not numel(shape).
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape, Device device = {});
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape, Device device = {}) {
    return from(std::span<const T>(values), std::move(shape), device);
  }
  Tensor empty_like() const { return empty(shape_, dtype_, device()); }
  Tensor zeros_like() const { return zeros(shape_, dtype_, device()); }

  // ---- properties
  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int ndim() const { return static_cast<int>(shape_.size()); }
  std::int64_t size(int dim) const;
  std::int64_t stride(int dim) const;
  std::int64_t numel() const { return numel_; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel_) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : Device{}; }
  bool is_contiguous() const;
  /// Whether both are views of the same storage.
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }
  /// Whether this handle is the only owner of its storage, which may then be reused.
  bool is_sole_owner() const { return storage_.use_count() == 1; }

  /// Returns the address of element [0, ..., 0] in device memory. T must be the element type.
  template <class T>
  T* data() const {
    if (dtype_of<T>() != dtype_) throw_wrong_type(dtype_of<T>());
    return static_cast<T*>(raw());
  }
  void* raw() const;
  /// Returns the single element of a tensor with numel() == 1, of any type.
  double item() const;
  /// Returns all elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector() const;

  // ---- views, without copying
  /// Returns a view if the strides allow it, otherwise a copy. One dimension may be -1 (inferred).
  Tensor reshape(Shape shape) const;
  Tensor transpose(int dim0, int dim1) const;
  Tensor permute(const std::vector<int>& dims) const;
  /// Returns elements [begin, end) along dim.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  /// Stretches dimensions of size 1 (stride 0) and prepends dimensions, as broadcasting does.
  Tensor expand(const Shape& shape) const;
  Tensor unsqueeze(int dim) const;
  Tensor squeeze(int dim) const;

  // ---- copies
  /// Returns this tensor if it is dense row-major, else a dense copy.
  Tensor contiguous() const;
  Tensor clone() const;
  /// Returns a copy converted to dtype, or this tensor if it already has it.
  Tensor to(DType dtype) const;
  /// Returns this tensor if it is on the device, else a dense copy there.
  Tensor to(Device device) const;

  // ---- in-place changes; each bumps the version
  /// Copies the elements of `source`, which must have this shape or broadcast to it, from any type
  /// and device. A copy between two devices other than the CPU passes through the host.
  void copy_from(const Tensor& source);
  /// Moves the storage, and with it every tensor that shares it, to the device.
  void move_to(Device device);
  void fill(double value);
  /// this += other, which must have this shape or broadcast to it.
  void add_(const Tensor& other);
  /// this *= factor.
  void scale_(double factor);

  std::uint64_t version() const { return storage_ ? storage_->version() : 0; }
  /// Must be called after writing through data().
  void bump_version() { storage_->bump_version(); }

 private:
  [[noreturn]] void throw_wrong_type(DType asked) const;
  Tensor view(Shape shape, Strides strides, std::int64_t offset) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  std::int64_t offset_ = 0;  // in elements
  std::int64_t numel_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace mobius
