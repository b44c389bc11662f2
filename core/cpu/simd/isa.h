// The instruction set of the CPU kernels: the best of the processor, or the one that the
// environment variable MOBIUS_ISA names (avx2 or avx512), to test each.
#pragma once

#include <string>

namespace mobius {

/// Makes Highway and oneDNN use one instruction set. Must be called once, before either runs.
/// Throws Error if MOBIUS_ISA is unknown or the processor lacks it.
void choose_isa();

/// Returns Highway's name of the instruction set of the kernels: "AVX2", "AVX3" (AVX-512).
std::string isa_name();

/// Returns the instruction set of the kernels and of oneDNN's products, for output and files:
/// "avx2", "avx512", "avx512_bf16" or "avx512_amx". Rounding depends on it: computations with equal
/// sets agree to the bit.
std::string instruction_set();

/// Whether the instruction set has products of bf16 operands (AVX-512 BF16, AMX), which oneDNN
/// uses.
bool isa_has_bf16_products();
/// Whether oneDNN multiplies bf16 operands by AMX.
bool isa_has_amx();

}  // namespace mobius
