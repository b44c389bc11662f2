// Reverse-mode automatic differentiation over tensors.
//
// A Variable is a tensor that remembers the operation it came from. backward() walks those
// operations from the last to the first and knows nothing about them: each one carries its own
// gradient, written beside it in autograd/ops/.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace mobius {

class Variable;

/// Which inputs of an operation want a gradient; gradients of the others may be left undefined.
using NeedsGrad = std::vector<bool>;
using Grads = std::vector<Tensor>;
/// Maps the gradients of the outputs (undefined for an output that nothing depends on) to those of
/// the inputs, in the order in which record() was given the inputs. A gradient may have the shape
/// to which its input was broadcast: the walker sums it down.
using BackwardFn = std::function<Grads(const Grads& grad_outputs, const NeedsGrad&)>;

/// A handle: copies share data, gradient and hooks.
class Variable {
 public:
  Variable() = default;
  /// A leaf. Only real tensors (f32, f64) can require a gradient.
  explicit Variable(Tensor data, bool requires_grad = false);

  bool defined() const { return impl_ != nullptr; }
  const Tensor& data() const;
  /// For an optimiser or a checkpoint that changes the values in place.
  Tensor& mutable_data();
  const Shape& shape() const { return data().shape(); }
  std::int64_t size(int dim) const { return data().size(dim); }
  int ndim() const { return data().ndim(); }
  std::int64_t numel() const { return data().numel(); }
  DType dtype() const { return data().dtype(); }
  Device device() const { return data().device(); }
  double item() const { return data().item(); }

  /// Whether gradients flow to it: a leaf that asked for them, or computed from one.
  bool requires_grad() const;
  bool is_leaf() const;
  /// Sum of all gradients since the last zero_grad(); undefined before the first. Leaves only.
  const Tensor& grad() const;
  Tensor& mutable_grad();
  void zero_grad();
  /// Returns the same data without the graph.
  Variable detach() const;

  /// Called after each backward() has added its whole contribution to this leaf's gradient, in the
  /// order in which gradients become ready: data-parallel training starts its reductions here.
  void add_grad_hook(std::function<void(Variable&)> hook);

  /// Whether both handles name the same variable.
  bool is(const Variable& other) const { return impl_ == other.impl_; }

 private:
  friend struct Graph;  // autograd/variable.cpp: builds and walks the graph
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A tensor kept for the backward pass. get() throws Error when it was changed in place meanwhile.
class Saved {
 public:
  Saved() = default;
  Saved(std::string_view op, const Tensor& tensor)
      : op_(op), tensor_(tensor), version_(tensor.version()) {}
  Saved(std::string_view op, const Variable& variable) : Saved(op, variable.data()) {}
  const Tensor& get() const;

 private:
  std::string_view op_;  // a literal: the name given to record()
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

/// Makes the result of operation `op` (a literal) a Variable. The graph grows only if gradients are
/// enabled and an input requires one; otherwise `backward` and what it saved are dropped.
Variable record(std::string_view op, const std::vector<Variable>& inputs, Tensor output,
                BackwardFn backward);
/// Records an operation with one input: `backward` maps the gradient of the output to that of the
/// input.
template <std::invocable<const Tensor&> Backward>
Variable record(std::string_view op, const Variable& input, Tensor output, Backward backward) {
  return record(op, std::vector{input}, std::move(output),
                [backward = std::move(backward)](const Grads& grads, const NeedsGrad&) {
                  return Grads{backward(grads[0])};
                });
}
/// Records an operation with several outputs.
std::vector<Variable> record_many(std::string_view op, const std::vector<Variable>& inputs,
                                  std::vector<Tensor> outputs, BackwardFn backward);

/// Adds d(root)/d(leaf), times `grad_root` (default: 1, then root must have a single element), to
/// the gradient of every leaf that requires one. The graph is freed on the way unless
/// `retain_graph`; a second call over a freed graph throws Error.
void backward(const Variable& root, const Tensor& grad_root = {}, bool retain_graph = false);
/// Whether a gradient that a BackwardFn received is known to be the 1 from which backward() starts
/// by default. Does not read its memory, so it waits for no device.
bool is_default_root(const Tensor& gradient);

/// While one lives, operations on this thread are not recorded.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool previous_;
};
bool grad_enabled();

}  // namespace mobius
