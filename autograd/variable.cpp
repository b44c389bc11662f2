#include "autograd/variable.h"

#include <unordered_map>
#include <utility>

#include "core/ops.h"

namespace mobius {

namespace {

struct Node;

// The operation that made a value, and which of its outputs the value is.
struct Edge {
  std::shared_ptr<Node> node;  // nullptr: needs no gradient
  std::size_t output = 0;
};

}  // namespace

struct Variable::Impl {
  Tensor data;
  Tensor grad;
  Edge edge;
  bool is_leaf = true;
  std::vector<std::function<void(Variable&)>> grad_hooks;
};

namespace {

// An operation; or a leaf, which has no backward function and receives the gradient instead.
struct Node {
  std::string_view op;
  std::size_t n_outputs = 1;
  std::vector<Edge> inputs;
  std::vector<Shape> input_shapes;
  NeedsGrad needs_grad;
  BackwardFn backward;
  bool is_leaf = false;
  std::function<void(Tensor)> accumulate;  // of a leaf

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() { release_inputs(); }

  // Frees the graph below without recursion: a chain of 10 000 operations must not need 10 000
  // stack frames.
  void release_inputs() {
    std::vector<Edge> pending = std::move(inputs);
    while (!pending.empty()) {
      const std::shared_ptr<Node> node = std::move(pending.back().node);
      pending.pop_back();
      if (!node || node.use_count() > 1) continue;
      for (Edge& edge : node->inputs) pending.push_back(std::move(edge));
      node->inputs.clear();
    }
  }
};

thread_local bool recording = true;

// existing += addition, in place when nobody else can see `existing`.
void accumulate_into(Tensor& existing, Tensor addition) {
  if (!existing.defined()) {
    existing = std::move(addition);
  } else if (existing.is_sole_owner() && existing.is_contiguous()) {
    existing.add_(addition);
  } else {
    existing = add(existing, addition);
  }
}

}  // namespace

// Access to the insides of a Variable for this file.
struct Graph {
  static Variable::Impl& impl(const Variable& variable) {
    if (!variable.impl_) throw Error("variable: it is undefined");
    return *variable.impl_;
  }

  static Edge edge(const Variable& variable) {
    return variable.defined() ? variable.impl_->edge : Edge{};
  }

  static void make_leaf(Variable& variable, Tensor data, bool requires_grad) {
    variable.impl_ = std::make_shared<Variable::Impl>();
    variable.impl_->data = std::move(data);
    if (!requires_grad) return;
    auto node = std::make_shared<Node>();
    node->op = "leaf";
    node->is_leaf = true;
    // Weak: the Variable owns its node, not the other way round.
    node->accumulate = [leaf = std::weak_ptr(variable.impl_)](Tensor gradient) {
      if (const auto impl = leaf.lock()) add_gradient(impl, std::move(gradient));
    };
    variable.impl_->edge = {std::move(node), 0};
  }

  static void add_gradient(const std::shared_ptr<Variable::Impl>& impl, Tensor gradient) {
    if (impl->grad.defined()) {
      accumulate_into(impl->grad, std::move(gradient));
    } else {
      const bool is_ours = gradient.is_sole_owner() && gradient.is_contiguous();
      impl->grad = is_ours ? std::move(gradient) : gradient.clone();
    }
    Variable handle;
    handle.impl_ = impl;
    for (const auto& hook : impl->grad_hooks) hook(handle);
  }

  static std::vector<Variable> outputs(std::vector<Tensor> tensors,
                                       const std::shared_ptr<Node>& node) {
    std::vector<Variable> variables;
    variables.reserve(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Variable variable;
      variable.impl_ = std::make_shared<Variable::Impl>();
      variable.impl_->data = std::move(tensors[i]);
      variable.impl_->edge = {node, i};
      variable.impl_->is_leaf = node == nullptr;
      variables.push_back(std::move(variable));
    }
    return variables;
  }
};

// ---- Variable

Variable::Variable(Tensor data, bool requires_grad) {
  if (!data.defined()) throw Error("variable: its tensor is undefined");
  if (requires_grad && data.dtype() != DType::f32 && data.dtype() != DType::f64) {
    throw_unsupported_dtype("variable with gradient", data.dtype());
  }
  Graph::make_leaf(*this, std::move(data), requires_grad);
}

const Tensor& Variable::data() const { return Graph::impl(*this).data; }
Tensor& Variable::mutable_data() { return Graph::impl(*this).data; }
bool Variable::requires_grad() const { return Graph::impl(*this).edge.node != nullptr; }
bool Variable::is_leaf() const { return Graph::impl(*this).is_leaf; }
const Tensor& Variable::grad() const { return Graph::impl(*this).grad; }
Tensor& Variable::mutable_grad() { return Graph::impl(*this).grad; }
void Variable::zero_grad() { Graph::impl(*this).grad = Tensor(); }
Variable Variable::detach() const { return Variable(data()); }

void Variable::add_grad_hook(std::function<void(Variable&)> hook) {
  if (!is_leaf() || !requires_grad()) {
    throw Error("add_grad_hook: only a leaf that requires a gradient has one");
  }
  Graph::impl(*this).grad_hooks.push_back(std::move(hook));
}

const Tensor& Saved::get() const {
  if (tensor_.version() != version_) {
    throw Error("{}: a tensor saved for the backward pass was changed in place since", op_);
  }
  return tensor_;
}

// ---- recording

NoGradGuard::NoGradGuard() : previous_(std::exchange(recording, false)) {}
NoGradGuard::~NoGradGuard() { recording = previous_; }
bool grad_enabled() { return recording; }

std::vector<Variable> record_many(std::string_view op, const std::vector<Variable>& inputs,
                                  std::vector<Tensor> outputs, BackwardFn backward) {
  NeedsGrad needs(inputs.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    needs[i] = inputs[i].defined() && inputs[i].requires_grad();
    any = any || needs[i];
  }
  if (!any || !recording) return Graph::outputs(std::move(outputs), nullptr);

  auto node = std::make_shared<Node>();
  node->op = op;
  node->n_outputs = outputs.size();
  node->needs_grad = std::move(needs);
  node->backward = std::move(backward);
  for (const Variable& input : inputs) {
    node->inputs.push_back(Graph::edge(input));
    node->input_shapes.push_back(input.defined() ? input.shape() : Shape{});
  }
  return Graph::outputs(std::move(outputs), node);
}

Variable record(std::string_view op, const std::vector<Variable>& inputs, Tensor output,
                BackwardFn backward) {
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(output));
  return record_many(op, inputs, std::move(outputs), std::move(backward)).front();
}

// ---- walking

namespace {

struct Pending {
  std::size_t consumers = 0;  // edges into this node whose gradient is still to come
  std::vector<Tensor> grads;  // one per output
};

using PendingMap = std::unordered_map<Node*, Pending>;

// Counts, for every node below root, how many gradients it will receive.
PendingMap count_consumers(const std::shared_ptr<Node>& root) {
  PendingMap pending;
  pending[root.get()].grads.resize(root->n_outputs);
  std::vector<Node*> stack{root.get()};
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->inputs) {
      if (!edge.node) continue;
      const auto [entry, is_new] = pending.try_emplace(edge.node.get());
      ++entry->second.consumers;
      if (!is_new) continue;
      entry->second.grads.resize(edge.node->n_outputs);
      stack.push_back(edge.node.get());
    }
  }
  return pending;
}

std::vector<Tensor> run_backward(Node& node, const std::vector<Tensor>& grad_outputs) {
  if (!node.backward) {
    throw Error(
        "backward: the graph of '{}' was freed by an earlier backward(); pass retain_graph there "
        "to walk it again",
        node.op);
  }
  std::vector<Tensor> grads = node.backward(grad_outputs, node.needs_grad);
  if (grads.size() != node.inputs.size()) {
    throw Error("backward: '{}' returned {} gradients for {} inputs", node.op, grads.size(),
                node.inputs.size());
  }
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!node.needs_grad[i]) continue;
    if (!grads[i].defined()) {
      throw Error("backward: '{}' has no gradient for its input {}", node.op, i);
    }
    grads[i] = sum_to(grads[i], node.input_shapes[i]);
  }
  return grads;
}

// The 1 from which the backward() of this thread started, if it started from the default. A
// gradient that is passed on unchanged shares its storage, and nobody changes it in place: it has
// two owners.
thread_local Tensor default_root;

// Restores the default root of an outer backward().
struct DefaultRootScope {
  Tensor outer;
  ~DefaultRootScope() { default_root = std::move(outer); }
};

}  // namespace

bool is_default_root(const Tensor& gradient) {
  return default_root.defined() && gradient.shares_storage(default_root);
}

void backward(const Variable& root, const Tensor& grad_root, bool retain_graph) {
  if (!root.requires_grad()) throw Error("backward: nothing it was computed from wants a gradient");
  if (!grad_root.defined() && root.numel() != 1) {
    throw ShapeError("backward: shape {} is no scalar: give the gradient to start from",
                     to_string(root.shape()));
  }
  if (grad_root.defined() && grad_root.shape() != root.shape()) {
    throw ShapeError("backward: gradient {} for a value of shape {}", to_string(grad_root.shape()),
                     to_string(root.shape()));
  }
  const NoGradGuard no_grad;
  const Edge start = Graph::edge(root);
  PendingMap pending = count_consumers(start.node);
  const DefaultRootScope scope{std::exchange(
      default_root,
      grad_root.defined() ? Tensor() : Tensor::ones(root.shape(), root.dtype(), root.device()))};
  pending[start.node.get()].grads[start.output] = grad_root.defined() ? grad_root : default_root;

  std::vector<std::shared_ptr<Node>> ready{start.node};
  while (!ready.empty()) {
    const std::shared_ptr<Node> node = std::move(ready.back());
    ready.pop_back();
    std::vector<Tensor> grad_outputs = std::move(pending.at(node.get()).grads);
    if (node->is_leaf) {
      node->accumulate(std::move(grad_outputs.front()));
      continue;
    }
    std::vector<Tensor> grads = run_backward(*node, grad_outputs);
    grad_outputs.clear();
    if (!retain_graph) node->backward = nullptr;  // frees what it saved
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Edge& edge = node->inputs[i];
      if (!edge.node) continue;
      Pending& receiver = pending.at(edge.node.get());
      accumulate_into(receiver.grads[edge.output], std::move(grads[i]));
      if (--receiver.consumers == 0) ready.push_back(edge.node);
    }
  }
}

}  // namespace mobius
