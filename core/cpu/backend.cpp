#include "core/backend.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdlib>

#include "core/cpu/kernels.h"
#include "core/cpu/simd/isa.h"

namespace mobius {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Blocks of 2 MiB and more are mapped on their own, on a huge-page border: page faults of 4 KiB
// cost more than the arithmetic on a fresh buffer, and such blocks really go back to the system.
class CpuAllocator final : public CachingAllocator {
 public:
  ~CpuAllocator() override { release_cache(); }

 protected:
  void* system_allocate(std::size_t bytes) override {
    return bytes < huge_page ? std::aligned_alloc(alignment, bytes) : map(bytes);
  }

  void system_deallocate(void* block, std::size_t bytes) noexcept override {
    if (bytes < huge_page)
      std::free(block);
    else
      munmap(block, bytes);
  }

  // Does something only in a build with the address sanitizer.
  void mark_usable([[maybe_unused]] void* block, [[maybe_unused]] std::size_t used,
                   [[maybe_unused]] std::size_t capacity) noexcept override {
    ASAN_UNPOISON_MEMORY_REGION(block, used);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(block) + used, capacity - used);
  }

 private:
  // Maps a huge page more than asked for and unmaps what lies before the border and behind the end.
  static void* map(std::size_t bytes) {
    const std::size_t mapped = bytes + huge_page;
    void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(start);
    const std::size_t before = (huge_page - address % huge_page) % huge_page;
    char* block = static_cast<char*>(start) + before;
    if (before) munmap(start, before);
    munmap(block + bytes, mapped - before - bytes);
    madvise(block, bytes, MADV_HUGEPAGE);  // a wish: without it everything works, slower
    return block;
  }
};

Backend& make_backend() {
  choose_isa();
  // Never destroyed: a tensor of static lifetime may outlive everything that could own a backend.
  return *new Backend{.allocator = *new CpuAllocator,
                      .has_bf16_products = isa_has_bf16_products(),
                      .reads_are_free = true,
                      .copy = &cpu_copy_kernels(),
                      .random = &cpu_random_kernels(),
                      .elementwise = &cpu_elementwise_kernels(),
                      .reduce = &cpu_reduce_kernels(),
                      .matmul = &cpu_matmul_kernels(),
                      .softmax = &cpu_softmax_kernels(),
                      .attention = &cpu_attention_kernels(),
                      .linear_attention = &cpu_linear_attention_kernels(),
                      .norm = &cpu_norm_kernels(),
                      .points = &cpu_points_kernels(),
                      .ball = &cpu_ball_kernels(),
                      .rope = &cpu_rope_kernels(),
                      .rows = &cpu_rows_kernels(),
                      .loss = &cpu_loss_kernels(),
                      .special = &cpu_special_kernels(),
                      .decomposition = &cpu_decomposition_kernels(),
                      .optimizer = &cpu_optimizer_kernels()};
}

}  // namespace

Backend* cpu_backend(int index) {
  if (index != 0) return nullptr;
  static Backend& backend = make_backend();
  return &backend;
}

}  // namespace mobius
