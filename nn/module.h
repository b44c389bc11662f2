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

/// The context of one forward pass. Modules hold no RNG state.
struct ForwardContext {
  bool training = false;
  /// The seed and stream of dropout; the trainer derives them from (seed, step).
  RngKey rng{};
  /// Collects the diagnostics of this pass; null if nobody wants them.
  DiagnosticsSink* sink = nullptr;
};

/// The base of everything with parameters. A derived class registers its parameters, buffers and
/// children in its constructor. Their dotted paths ("blocks.0.attention.qkv.weight") name them in
/// checkpoints. Modules cannot be copied or moved.
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

  /// Returns all parameters of the tree in registration order, a tied one once under its first
  /// name.
  std::vector<NamedParameter> parameters() const;
  /// Returns the state that is saved but not trained.
  std::vector<NamedBuffer> buffers() const;
  /// Number of trained values.
  std::int64_t parameter_count() const;
  void zero_grad();
  /// Moves parameters and buffers to the device in place: their handles stay valid. Drops
  /// gradients.
  void to(Device device);

 protected:
  /// Returns the registered handle, or that of a buffer if the parameter is not trained. Throws
  /// Error if the name is taken or holds a dot.
  Variable register_parameter(std::string name, Tensor initial, bool is_trained = true);
  /// Registers another module's parameter (tied weights), which is saved and counted once.
  Variable share_parameter(std::string name, const Variable& parameter);
  Tensor register_buffer(std::string name, Tensor initial);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    require_free_name(name);
    children_.emplace_back(std::move(name), module);
    return module;
  }
  /// Makes and registers the child M(init.at(name), args...), so that its path agrees with the
  /// names of its random streams.
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
