#pragma once

#include "tests/gpuless/ptx/decoder.h"

namespace mobius::ptx {

// Words that integers share with floating-point numbers, for integer types.
void decode_integer_add(Decoder& decoder);
void decode_integer_sub(Decoder& decoder);
void decode_integer_mul(Decoder& decoder);
void decode_integer_mad(Decoder& decoder);
void decode_integer_div(Decoder& decoder);
void decode_integer_min(Decoder& decoder);
void decode_integer_max(Decoder& decoder);
void decode_integer_neg(Decoder& decoder);
void decode_integer_abs(Decoder& decoder);

}  // namespace mobius::ptx
