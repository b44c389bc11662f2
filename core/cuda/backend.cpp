#include "core/backend.h"

#include <cstddef>
#include <mutex>
#include <vector>

#include "core/cuda/allocator.h"
#include "core/cuda/kernels.h"
#include "core/cuda/runtime.h"

namespace mobius {
namespace {

// Made at the first use of its device. Never destroyed: a tensor of static lifetime may outlive
// everything that could own a backend.
struct LazyBackend {
  std::once_flag made;
  Backend* backend = nullptr;
};

Backend* make_backend(int index) {
  return new Backend{.allocator = *new cuda::PoolAllocator(index),
                     .has_bf16_products = true,
                     .copy = &cuda_copy_kernels(),
                     .random = &cuda_random_kernels(),
                     .elementwise = &cuda_elementwise_kernels(),
                     .reduce = &cuda_reduce_kernels(),
                     .matmul = &cuda_matmul_kernels(),
                     .softmax = &cuda_softmax_kernels(),
                     .attention = &cuda_attention_kernels(),
                     .linear_attention = &cuda_linear_attention_kernels(),
                     .norm = &cuda_norm_kernels(),
                     .points = &cuda_points_kernels(),
                     .ball = &cuda_ball_kernels(),
                     .rope = &cuda_rope_kernels(),
                     .rows = &cuda_rows_kernels(),
                     .loss = &cuda_loss_kernels(),
                     .special = &cuda_special_kernels(),
                     .decomposition = &cuda_decomposition_kernels(),
                     .optimizer = &cuda_optimizer_kernels(),
                     .begin = &cuda::make_current};
}

}  // namespace

Backend* cuda_backend(int index) {
  static auto* const all =
      new std::vector<LazyBackend>(static_cast<std::size_t>(cuda::device_count()));
  const auto i = static_cast<std::size_t>(index);
  if (i >= all->size()) return nullptr;
  LazyBackend& lazy = (*all)[i];
  std::call_once(lazy.made, [&] { lazy.backend = make_backend(index); });
  return lazy.backend;
}

}  // namespace mobius
