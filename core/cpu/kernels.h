// The families of kernels of the CPU, each in the file or folder of its name. Highway compiles each
// source for AVX2 and AVX-512; one of them is chosen at the start (core/cpu/simd/isa.h).
#pragma once

#include "core/backend.h"

namespace mobius {

CopyKernels& cpu_copy_kernels();
RandomKernels& cpu_random_kernels();
ElementwiseKernels& cpu_elementwise_kernels();
ReduceKernels& cpu_reduce_kernels();
MatmulKernels& cpu_matmul_kernels();
SoftmaxKernels& cpu_softmax_kernels();
AttentionKernels& cpu_attention_kernels();
LinearAttentionKernels& cpu_linear_attention_kernels();
NormKernels& cpu_norm_kernels();
PointsKernels& cpu_points_kernels();
BallKernels& cpu_ball_kernels();
RopeKernels& cpu_rope_kernels();
RowsKernels& cpu_rows_kernels();
LossKernels& cpu_loss_kernels();
SpecialKernels& cpu_special_kernels();
DecompositionKernels& cpu_decomposition_kernels();
OptimizerKernels& cpu_optimizer_kernels();

/// How many elements one task of a parallel elementwise pass gets: enough to hide the cost of
/// sharing, and few enough for the second-level cache (64 KiB of f32).
constexpr std::int64_t elementwise_grain = 1 << 14;

}  // namespace mobius
