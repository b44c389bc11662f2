#include "core/tensor.h"

#include <algorithm>

#include "core/backend.h"
#include "core/ops/checks.h"
#include "core/ops/copy.h"
#include "core/ops/elementwise.h"

namespace mobius {

Storage::Storage(std::size_t bytes, Device device)
    : bytes_(bytes), device_(device), data_(allocator_for(device).allocate(bytes)) {}

Storage::~Storage() { allocator_for(device_).deallocate(data_, bytes_); }

void Storage::swap(Storage& other) {
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
}

// ---- making

Tensor Tensor::empty(Shape shape, DType dtype, Device device) {
  Tensor out;
  out.numel_ = mobius::numel(shape);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(out.numel_), size_of(dtype), &bytes)) {
    throw ShapeError("tensor: {} elements of {} exceed the address space", to_string(shape),
                     name_of(dtype));
  }
  out.strides_ = contiguous_strides(shape);
  out.shape_ = std::move(shape);
  out.dtype_ = dtype;
  out.storage_ = std::make_shared<Storage>(bytes, device);
  return out;
}

Tensor Tensor::full(Shape shape, double value, DType dtype, Device device) {
  Tensor out = empty(std::move(shape), dtype, device);
  kernels(device, &Backend::copy)->fill(out, value);
  return out;
}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  return full(std::move(shape), 0, dtype, device);
}

Tensor Tensor::ones(Shape shape, DType dtype, Device device) {
  return full(std::move(shape), 1, dtype, device);
}

Tensor Tensor::arange(std::int64_t n, DType dtype, Device device) {
  Tensor out = empty({n}, dtype, device);
  kernels(device, &Backend::copy)->arange(out);
  return out;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, Shape shape, Device device) {
  Tensor out = empty(std::move(shape), dtype_of<T>(), device);
  if (static_cast<std::int64_t>(values.size()) != out.numel_) {
    throw ShapeError("tensor: {} values do not fill shape {}", values.size(),
                     to_string(out.shape_));
  }
  kernels(device, &Backend::copy)->copy_from_host(values.data(), out);
  return out;
}

// ---- properties

std::int64_t Tensor::size(int dim) const {
  return shape_[static_cast<std::size_t>(normalize_dim("size", dim, ndim()))];
}

std::int64_t Tensor::stride(int dim) const {
  return strides_[static_cast<std::size_t>(normalize_dim("stride", dim, ndim()))];
}

bool Tensor::is_contiguous() const {
  std::int64_t step = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides_[i] != step) return numel_ == 0;
    step *= shape_[i];
  }
  return true;
}

void* Tensor::raw() const {
  if (!storage_) throw Error("tensor: an undefined tensor has no data");
  return static_cast<std::byte*>(storage_->data()) +
         offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

void Tensor::throw_wrong_type(DType asked) const {
  throw ShapeError("tensor: elements are {}, not {}", name_of(dtype_), name_of(asked));
}

double Tensor::item() const {
  if (numel_ != 1) throw ShapeError("item: shape {} is not a single element", to_string(shape_));
  return to_vector<double>().front();
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor dense = to(dtype_of<T>()).contiguous();
  std::vector<T> out(static_cast<std::size_t>(numel_));
  kernels(device(), &Backend::copy)->copy_to_host(dense, out.data());
  return out;
}

// ---- views

Tensor Tensor::view(Shape shape, Strides strides, std::int64_t offset) const {
  Tensor out = *this;
  out.numel_ = mobius::numel(shape);
  out.shape_ = std::move(shape);
  out.strides_ = std::move(strides);
  out.offset_ = offset;
  return out;
}

namespace {

// Replaces -1 by the size that makes the element counts equal.
Shape infer_shape(const Tensor& x, Shape shape) {
  const auto unknown = std::find(shape.begin(), shape.end(), -1);
  if (unknown != shape.end()) {
    *unknown = 1;
    const std::int64_t rest = numel(shape);
    if (rest == 0 || x.numel() % rest != 0 ||
        std::find(unknown + 1, shape.end(), -1) != shape.end()) {
      *unknown = -1;
      throw ShapeError("reshape: {} cannot become {}", to_string(x.shape()), to_string(shape));
    }
    *unknown = x.numel() / rest;
  }
  if (numel(shape) != x.numel()) {
    throw ShapeError("reshape: {} cannot become {}", to_string(x.shape()), to_string(shape));
  }
  return shape;
}

// Computes the strides that view `x` as `shape`; returns false if that needs a copy. A run of
// dimensions of x that is evenly spaced in memory can be split and merged freely.
bool reshape_strides(const Tensor& x, const Shape& shape, Strides& strides) {
  if (x.is_contiguous()) {
    strides = contiguous_strides(shape);
    return true;
  }
  strides.assign(shape.size(), 1);
  std::int64_t to = static_cast<std::int64_t>(shape.size()) - 1;
  for (std::int64_t from = x.ndim() - 1; from >= 0;) {
    std::int64_t step = x.strides()[static_cast<std::size_t>(from)];
    std::int64_t run = x.shape()[static_cast<std::size_t>(from)];
    const std::int64_t innermost = step;
    while (--from >= 0) {
      const auto i = static_cast<std::size_t>(from);
      if (x.shape()[i] != 1 && x.strides()[i] != innermost * run) break;
      run *= x.shape()[i];
    }
    for (std::int64_t done = 1; done < run; --to) {
      if (to < 0) return false;
      const auto t = static_cast<std::size_t>(to);
      strides[t] = step;
      step *= shape[t];
      done *= shape[t];
      if (done > run || run % done != 0) return false;
    }
  }
  for (; to >= 0; --to) {
    if (shape[static_cast<std::size_t>(to)] != 1) return false;
  }
  return true;
}

}  // namespace

Tensor Tensor::reshape(Shape shape) const {
  shape = infer_shape(*this, std::move(shape));
  Strides strides;
  if (reshape_strides(*this, shape, strides)) return view(std::move(shape), strides, offset_);
  const Tensor dense = contiguous();
  return dense.view(shape, contiguous_strides(shape), dense.offset_);
}

Tensor Tensor::transpose(int dim0, int dim1) const {
  const auto a = static_cast<std::size_t>(normalize_dim("transpose", dim0, ndim()));
  const auto b = static_cast<std::size_t>(normalize_dim("transpose", dim1, ndim()));
  Tensor out = *this;
  std::swap(out.shape_[a], out.shape_[b]);
  std::swap(out.strides_[a], out.strides_[b]);
  return out;
}

Tensor Tensor::permute(const std::vector<int>& dims) const {
  Tensor out = *this;
  std::vector<bool> seen(shape_.size(), false);
  if (dims.size() != shape_.size()) {
    throw ShapeError("permute: {} dimensions named for shape {}", dims.size(), to_string(shape_));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto from = static_cast<std::size_t>(normalize_dim("permute", dims[i], ndim()));
    if (seen[from]) throw ShapeError("permute: dimension {} is named twice", from);
    seen[from] = true;
    out.shape_[i] = shape_[from];
    out.strides_[i] = strides_[from];
  }
  return out;
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  const auto d = static_cast<std::size_t>(normalize_dim("slice", dim, ndim()));
  if (begin < 0 || end < begin || end > shape_[d]) {
    throw ShapeError("slice: [{}, {}) of dimension {} of {}", begin, end, d, to_string(shape_));
  }
  Shape shape = shape_;
  shape[d] = end - begin;
  return view(std::move(shape), strides_, offset_ + begin * strides_[d]);
}

Tensor Tensor::expand(const Shape& shape) const {
  if (broadcast_shapes("expand", shape_, shape) != shape) {
    throw ShapeError("expand: {} does not stretch to {}", to_string(shape_), to_string(shape));
  }
  Strides strides(shape.size(), 0);
  const std::size_t added = shape.size() - shape_.size();
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (shape_[i] == shape[i + added]) strides[i + added] = strides_[i];
  }
  return view(shape, std::move(strides), offset_);
}

Tensor Tensor::unsqueeze(int dim) const {
  const auto d = normalize_dim("unsqueeze", dim, ndim() + 1);
  Tensor out = *this;
  out.shape_.insert(out.shape_.begin() + d, 1);
  out.strides_.insert(out.strides_.begin() + d, 1);
  return out;
}

Tensor Tensor::squeeze(int dim) const {
  const auto d = normalize_dim("squeeze", dim, ndim());
  if (shape_[static_cast<std::size_t>(d)] != 1) {
    throw ShapeError("squeeze: dimension {} of {} is not 1", d, to_string(shape_));
  }
  Tensor out = *this;
  out.shape_.erase(out.shape_.begin() + d);
  out.strides_.erase(out.strides_.begin() + d);
  return out;
}

// ---- copies

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor out = empty_like();
  kernels(device(), &Backend::copy)->copy(*this, out);
  return out;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out = empty(shape_, dtype, device());
  kernels(device(), &Backend::copy)->copy(*this, out);
  return out;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor out = empty(shape_, dtype_, device);
  out.copy_from(*this);
  return out;
}

// ---- in-place change

namespace {

// Both dense, of one type, on different devices.
void copy_across(const Tensor& source, const Tensor& out) {
  if (source.device() == Device{})
    kernels(out, &Backend::copy)->copy_from_host(source.raw(), out);
  else if (out.device() == Device{})
    kernels(source, &Backend::copy)->copy_to_host(source, out.raw());
  else
    copy_across(source.to(Device{}), out);
}

}  // namespace

void Tensor::copy_from(const Tensor& source) {
  const Tensor stretched = source.expand(shape_);
  if (source.device() == device()) {
    kernels(device(), &Backend::copy)->copy(stretched, *this);
  } else {
    const Tensor dense = stretched.to(dtype_).contiguous();
    if (!is_contiguous()) return copy_from(dense.to(device()));
    copy_across(dense, *this);
  }
  bump_version();
}

void Tensor::move_to(Device device) {
  if (device == this->device()) return;
  Tensor elements;
  elements.storage_ = storage_;
  elements.dtype_ = DType::u8;
  elements.numel_ = static_cast<std::int64_t>(storage_->bytes());
  elements.shape_ = {elements.numel_};
  elements.strides_ = {1};
  storage_->swap(*elements.to(device).storage_);
  bump_version();
}

void Tensor::fill(double value) {
  kernels(device(), &Backend::copy)->fill(*this, value);
  bump_version();
}

void Tensor::add_(const Tensor& other) {
  require_same_kind("add_", "other", *this, other);
  kernels(device(), &Backend::elementwise)->add_in_place(*this, other.expand(shape_));
  bump_version();
}

void Tensor::scale_(double factor) {
  require_real("scale_", *this);
  kernels(device(), &Backend::elementwise)->scale_in_place(*this, factor);
  bump_version();
}

template Tensor Tensor::from(std::span<const float>, Shape, Device);
template Tensor Tensor::from(std::span<const double>, Shape, Device);
template Tensor Tensor::from(std::span<const BFloat16>, Shape, Device);
template Tensor Tensor::from(std::span<const std::int32_t>, Shape, Device);
template Tensor Tensor::from(std::span<const std::int64_t>, Shape, Device);
template Tensor Tensor::from(std::span<const std::uint8_t>, Shape, Device);
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<BFloat16> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;
template std::vector<std::int64_t> Tensor::to_vector() const;
template std::vector<std::uint8_t> Tensor::to_vector() const;

}  // namespace mobius
