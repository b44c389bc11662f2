#pragma once

#include "tests/gpuless/ptx/decoder.h"
#include "tests/gpuless/ptx/program.h"

namespace mobius::ptx {

enum class DirectedOperation { add, sub, mul, fma, div, sqrt, rcp };

/// The operation with the rounding that the opcode names (.rz, .rm or .rp), for f32 and f64. Null
/// for other types.
Run directed(DirectedOperation operation, const Decoder& decoder, const Type& type);

}  // namespace mobius::ptx
