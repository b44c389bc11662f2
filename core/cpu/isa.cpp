#include "core/cpu/isa.h"

#include <hwy/targets.h>
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace mobius {
namespace {

struct Isa {
  std::string_view name;
  std::int64_t highway;  // the target it stands for
  std::int64_t better;   // targets to keep Highway from choosing
  dnnl_cpu_isa_t dnnl_limit;
};

constexpr std::int64_t avx512_targets = HWY_AVX3 | HWY_AVX3_DL;
// oneDNN may use every extension beside AVX-512 (bf16, AMX): it is the level of the processor.
constexpr std::array<Isa, 2> known_isas{{
    {"avx2", HWY_AVX2, avx512_targets, dnnl_cpu_isa_avx2},
    {"avx512", HWY_AVX3, 0, dnnl_cpu_isa_all},
}};

void limit_to(const Isa& isa) {
  if (!(hwy::SupportedTargets() & isa.highway))
    throw Error("MOBIUS_ISA={}: this processor or build does not have it", isa.name);
  if (isa.better) hwy::DisableTargets(isa.better);
  if (dnnl_set_max_cpu_isa(isa.dnnl_limit) != dnnl_success)
    throw Error("MOBIUS_ISA={}: oneDNN refused the setting (it has already run)", isa.name);
}

}  // namespace

void choose_isa() {
  const char* wanted = std::getenv("MOBIUS_ISA");
  if (!wanted) return;
  for (const Isa& isa : known_isas) {
    if (isa.name == wanted) return limit_to(isa);
  }
  throw Error("MOBIUS_ISA: expected avx2 or avx512, got '{}'", wanted);
}

std::string isa_name() {
  const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

}  // namespace mobius
