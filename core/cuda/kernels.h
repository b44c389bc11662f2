// The families of kernels of a CUDA device, each in the file or folder of its name. nvcc compiles
// them; this header is plain C++.
#pragma once

#include "core/backend.h"

namespace mobius {

CopyKernels& cuda_copy_kernels();
RandomKernels& cuda_random_kernels();
ElementwiseKernels& cuda_elementwise_kernels();
ReduceKernels& cuda_reduce_kernels();
MatmulKernels& cuda_matmul_kernels();
SoftmaxKernels& cuda_softmax_kernels();
AttentionKernels& cuda_attention_kernels();
LinearAttentionKernels& cuda_linear_attention_kernels();
NormKernels& cuda_norm_kernels();
PointsKernels& cuda_points_kernels();
BallKernels& cuda_ball_kernels();
RopeKernels& cuda_rope_kernels();
RowsKernels& cuda_rows_kernels();
LossKernels& cuda_loss_kernels();
SpecialKernels& cuda_special_kernels();
DecompositionKernels& cuda_decomposition_kernels();
OptimizerKernels& cuda_optimizer_kernels();

}  // namespace mobius
