// Module: a tree of named parameters and buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "core/rng.h"
#include "nn/diagnostics.h"
#include "nn/init.h"

namespace mobius {

/// What a module needs to know while it runs. Passed down by the caller: modules hold no RNG state.
struct ForwardContext {
  bool training = false;
  /// Seed of dropout and the stream of this call; the trainer derives it from (seed, step).
  RngKey rng{};
  /// Takes what layers say about this pass; null: they say nothing.
  DiagnosticsSink* sink = nullptr;
};

/// Base of everything with parameters. A derived class registers its parameters, buffers and
/// children in its constructor; their dotted paths ("blocks.0.attention.qkv.weight") name them in
/// checkpoints. Modules are neither copied nor moved: children are owned by pointer.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  struct NamedParameter {
    std::string name;
    Variable value;
  };
  struct NamedBuffer {
    std::string name;
    Tensor value;
  };

  /// All parameters of the tree, each once (a tied one under its first name), in registration
  /// order.
  std::vector<NamedParameter> parameters() const;
  /// State that is saved but not trained.
  std::vector<NamedBuffer> buffers() const;
  /// Number of trained values.
  std::int64_t parameter_count() const;
  void zero_grad();
  /// Moves parameters and buffers to the device, in place: every handle of theirs stays valid.
  /// Gradients are dropped.
  void to(Device device);

 protected:
  /// Returns the registered handle; of a buffer where the parameter is not trained. Throws Error
  /// when the name is taken or holds a dot.
  Variable register_parameter(std::string name, Tensor initial, bool is_trained = true);
  /// Another module's parameter under a second owner (tied weights): saved and counted once.
  Variable share_parameter(std::string name, const Variable& parameter);
  Tensor register_buffer(std::string name, Tensor initial);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    require_free_name(name);
    children_.emplace_back(std::move(name), module);
    return module;
  }
  /// Makes the child M(init.at(name), args...), so that its path and the names of its initial
  /// values' streams agree, and registers it.
  template <class M, class... Args>
  std::shared_ptr<M> make_child(const std::string& name, const Initializer& init, Args&&... args) {
    return register_module(name, std::make_shared<M>(init.at(name), std::forward<Args>(args)...));
  }

 private:
  void require_free_name(const std::string& name) const;
  void collect(const std::string& prefix, std::vector<NamedParameter>& parameters,
               std::vector<NamedBuffer>& buffers) const;

  std::vector<NamedParameter> parameters_;
  std::vector<NamedBuffer> buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
};

}  // namespace mobius
