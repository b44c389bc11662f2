// The instruction set that the CPU kernels use: the best one that the processor has, or the one
// that the environment variable MOBIUS_ISA names (avx2 or avx512), for tests of each.
#pragma once

#include <string>

namespace mobius {

/// Makes Highway and oneDNN use one instruction set; to be called once, before either has run.
/// Throws Error on an unknown value of MOBIUS_ISA, or on one that the processor lacks.
void choose_isa();

/// The set that the kernels run on, as Highway names it: "AVX2", "AVX3" (AVX-512).
std::string isa_name();

/// What rounding depends on, for people and files: the set of the kernels and of oneDNN's products,
/// "avx2", "avx512", "avx512_bf16" or "avx512_amx". Computations agree to the bit where it is the
/// same.
std::string instruction_set();

/// Whether it has products of bf16 operands (AVX-512 BF16, AMX), which oneDNN then uses.
bool isa_has_bf16_products();
/// Whether oneDNN multiplies them by AMX.
bool isa_has_amx();

}  // namespace mobius
