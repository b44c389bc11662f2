// The families of kernels of the CPU, each in the file or the room of its name. Each source is
// compiled for AVX2 and AVX-512 side by side by Highway; one is chosen at start
// (core/cpu/simd/isa.h).
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
RopeKernels& cpu_rope_kernels();
RowsKernels& cpu_rows_kernels();
LossKernels& cpu_loss_kernels();
SpecialKernels& cpu_special_kernels();
OptimizerKernels& cpu_optimizer_kernels();

}  // namespace mobius
