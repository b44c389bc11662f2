// Opaque handles that are never given out twice, so that a stale one is known as such.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace mobius::gpuless {

/// Objects by handle. Handle is a pointer to an incomplete type, as CUDA's are.
template <class Handle, class Object>
class HandleTable {
 public:
  Handle add(std::shared_ptr<Object> object) {
    // The first values are taken: cudaStreamLegacy is 1, cudaStreamPerThread 2.
    last_ += 16;
    objects_[last_] = std::move(object);
    return reinterpret_cast<Handle>(last_);
  }
  /// Null for what is not a handle, or is no longer one.
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == objects_.end() ? nullptr : found->second;
  }
  void remove(Handle handle) { objects_.erase(reinterpret_cast<std::uintptr_t>(handle)); }

 private:
  std::map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::uintptr_t last_ = 0x10000;
};

}  // namespace mobius::gpuless
