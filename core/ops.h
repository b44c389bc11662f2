// All operations on tensors, without gradients, family by family: they check shapes, types and
// devices, allocate the result, and call the kernels of their device. Errors: ShapeError naming the
// op and the shapes, and Error where a number is out of range. Differentiable versions of the same
// names: autograd/ops.h.
#pragma once

#include "core/backend.h"
#include "core/ops/attention.h"
#include "core/ops/ball.h"
#include "core/ops/copy.h"
#include "core/ops/decomposition.h"
#include "core/ops/elementwise.h"
#include "core/ops/linear_attention.h"
#include "core/ops/loss.h"
#include "core/ops/matmul.h"
#include "core/ops/norm.h"
#include "core/ops/optimizer.h"
#include "core/ops/points.h"
#include "core/ops/random.h"
#include "core/ops/reduce.h"
#include "core/ops/rope.h"
#include "core/ops/rows.h"
#include "core/ops/softmax.h"
#include "core/ops/special.h"
