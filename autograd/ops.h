// All differentiable operations, family by family. Each is the function of the same name in
// core/ops/ with its gradient beside it; shapes and errors are as there.
#pragma once

#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear_attention.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/norm.h"
#include "autograd/ops/points.h"
#include "autograd/ops/random.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/rope.h"
#include "autograd/ops/rows.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/softmax.h"
#include "autograd/ops/special.h"
#include "core/ops.h"
