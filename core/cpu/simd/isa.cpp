#include "core/cpu/simd/isa.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/simd/isa.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h must come first: it includes this file once per instruction set.
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
#include <utility>

#include "core/error.h"

namespace mobius {

HWY_EXPORT(name_of_target);

namespace {

struct Isa {
  std::string_view name;
  std::int64_t target;  // Highway's identifier
  dnnl_cpu_isa_t dnnl_limit;
};

// With AVX-512, oneDNN may also use every extension of the processor (bf16, AMX).
constexpr std::array<Isa, 2> known_isas{{
    {"avx2", HWY_AVX2, dnnl_cpu_isa_avx2},
    {"avx512", HWY_AVX3, dnnl_cpu_isa_all},
}};

// Does not use hwy::DisableTargets, which later calls of hwy::SupportedTargets would undo.
void limit_to(const Isa& isa) {
  hwy::SetSupportedTargetsForTest(0);  // drops an earlier choice
  if (!(hwy::SupportedTargets() & HWY_TARGETS & isa.target))
    throw Error("MOBIUS_ISA={}: this processor or build does not have it", isa.name);
  hwy::SetSupportedTargetsForTest(isa.target);
  if (dnnl_set_max_cpu_isa(isa.dnnl_limit) != dnnl_success)
    throw Error("MOBIUS_ISA={}: oneDNN refused the setting (it has already run)", isa.name);
}

// The instruction sets of oneDNN are bit masks; a larger set includes the bits of a smaller one.
bool dnnl_uses(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

// Returns the set that oneDNN uses, which ONEDNN_MAX_CPU_ISA in the environment may limit.
std::string_view dnnl_set() {
  constexpr std::array<std::pair<std::string_view, dnnl_cpu_isa_t>, 5> sets{
      {{"avx512_amx", dnnl_cpu_isa_avx512_core_amx},
       {"avx512_bf16", dnnl_cpu_isa_avx512_core_bf16},
       {"avx512", dnnl_cpu_isa_avx512_core},
       {"avx2", dnnl_cpu_isa_avx2},
       {"avx", dnnl_cpu_isa_avx}}};
  for (const auto& [name, isa] : sets) {
    if (dnnl_uses(isa)) return name;
  }
  return "sse41";
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

std::string instruction_set() {
  const std::string kernels = isa_name() == "AVX2" ? "avx2" : "avx512";
  const std::string products(dnnl_set());
  return products.starts_with(kernels) ? products : kernels + " with products by " + products;
}

bool isa_has_bf16_products() { return dnnl_uses(dnnl_cpu_isa_avx512_core_bf16); }

bool isa_has_amx() { return dnnl_uses(dnnl_cpu_isa_avx512_core_amx); }

}  // namespace mobius

#endif  // HWY_ONCE
