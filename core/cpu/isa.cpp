#include "core/cpu/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/isa.cpp"
#include <hwy/foreach_target.h>
// The above comes first: it includes this file once for each instruction set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

const char* name_of_target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace mobius {

HWY_EXPORT(name_of_target);

namespace {

struct Isa {
  std::string_view name;
  std::int64_t target;  // Highway's name for it
  dnnl_cpu_isa_t dnnl_limit;
};

// oneDNN may use every extension beside AVX-512 (bf16, AMX): it is the level of the processor.
constexpr std::array<Isa, 2> known_isas{{
    {"avx2", HWY_AVX2, dnnl_cpu_isa_avx2},
    {"avx512", HWY_AVX3, dnnl_cpu_isa_all},
}};

// Not by hwy::DisableTargets: each later call of hwy::SupportedTargets would undo it.
void limit_to(const Isa& isa) {
  hwy::SetSupportedTargetsForTest(0);  // ask the processor, not an earlier choice
  if (!(hwy::SupportedTargets() & HWY_TARGETS & isa.target))
    throw Error("MOBIUS_ISA={}: this processor or build does not have it", isa.name);
  hwy::SetSupportedTargetsForTest(isa.target);
  if (dnnl_set_max_cpu_isa(isa.dnnl_limit) != dnnl_success)
    throw Error("MOBIUS_ISA={}: oneDNN refused the setting (it has already run)", isa.name);
}

}  // namespace

void choose_isa() {
  const char* wanted = std::getenv("MOBIUS_ISA");
  if (!wanted || *wanted == '\0') return;
  for (const Isa& isa : known_isas) {
    if (isa.name == wanted) return limit_to(isa);
  }
  throw Error("MOBIUS_ISA: expected avx2 or avx512, got '{}'", wanted);
}

std::string isa_name() { return HWY_DYNAMIC_DISPATCH(name_of_target)(); }

// The sets of oneDNN are bits of which a larger set has more.
bool isa_has_bf16_products() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) ==
         dnnl_cpu_isa_avx512_core_bf16;
}

}  // namespace mobius

#endif  // HWY_ONCE
