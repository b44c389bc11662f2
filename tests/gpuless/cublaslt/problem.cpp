#include "tests/gpuless/cublaslt/problem.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace mobius::gpuless::lt {
namespace {

void require(bool holds, const std::string& reason,
             cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  if (!holds) throw Refusal{status, reason};
}

void require_supported(bool holds, const std::string& reason) {
  require(holds, reason, CUBLAS_STATUS_NOT_SUPPORTED);
}

Element element_of(std::uint32_t type, char name) {
  switch (type) {
    case CUDA_R_32F:
      return Element::f32;
    case CUDA_R_64F:
      return Element::f64;
    case CUDA_R_16BF:
      return Element::bf16;
    default:
      break;
  }
  throw Refusal{CUBLAS_STATUS_NOT_SUPPORTED, fmt::format("the type of {} is {}", name, type)};
}

Matrix matrix_of(const MatrixLayout& layout, char name) {
  require_supported(layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW,
                    fmt::format("the order of {} is {}", name, layout.order));
  require_supported(layout.batch_mode == CUBLASLT_BATCH_MODE_STRIDED && layout.plane_offset == 0,
                    fmt::format("{} has pointer batches or planes", name));
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  require(layout.rows > 0 && layout.cols > 0 && layout.rows <= most && layout.cols <= most,
          fmt::format("{} is {} x {}", name, layout.rows, layout.cols));
  require(layout.batch_count > 0, fmt::format("{} has {} batches", name, layout.batch_count));
  const bool row_major = layout.order == CUBLASLT_ORDER_ROW;
  const auto adjacent = static_cast<std::int64_t>(row_major ? layout.cols : layout.rows);
  require(layout.ld >= adjacent, fmt::format("the leading dimension of {} is {}, less than {}",
                                             name, layout.ld, adjacent));
  return {.element = element_of(layout.type, name),
          .rows = static_cast<std::int64_t>(layout.rows),
          .cols = static_cast<std::int64_t>(layout.cols),
          .ld = layout.ld,
          .row_major = row_major,
          .batch_stride = layout.batch_stride};
}

Matrix operand_of(const MatrixLayout& layout, std::int32_t operation, char name) {
  const Matrix matrix = matrix_of(layout, name);
  require_supported(
      operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C,
      fmt::format("operation {} on {}", operation, name));
  return operation == CUBLAS_OP_N ? matrix : matrix.transposed();
}

/// The rows of the documentation's table of types that this library computes.
void require_types(const MatmulDesc& desc, const Problem& problem) {
  const Element in = problem.a.element, out = problem.d.element;
  require_supported(problem.b.element == in && problem.c.element == out,
                    "A and B, or C and D, differ in type");
  bool supported = false;
  switch (desc.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      supported = (in == Element::f32 && out == Element::f32) ||
                  (in == Element::bf16 && out != Element::f64);
      break;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      supported = in == Element::f32 && out == Element::f32;
      break;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      supported = in == Element::f64 && out == Element::f64;
      break;
    default:
      break;
  }
  const auto scale = out == Element::f64 ? CUDA_R_64F : CUDA_R_32F;
  require_supported(supported && desc.scale_type == scale,
                    fmt::format("compute type {} and scale type {} with these operands",
                                desc.compute_type, desc.scale_type));
}

void require_shapes(const Problem& problem) {
  const auto [m, k] = std::pair(problem.a.rows, problem.a.cols);
  const std::int64_t n = problem.b.cols;
  require(problem.b.rows == k, fmt::format("A has {} columns, and B {} rows", k, problem.b.rows));
  for (const Matrix* result : {&problem.c, &problem.d})
    require(result->rows == m && result->cols == n,
            fmt::format("C and D must be {} x {}, and one is {} x {}", m, n, result->rows,
                        result->cols));
  require_supported(problem.c.row_major == problem.d.row_major, "the orders of C and D differ");
}

void require_batches(const MatrixLayout& a, const MatrixLayout& b, const MatrixLayout& c,
                     const MatrixLayout& d) {
  require(a.batch_count == b.batch_count && b.batch_count == c.batch_count &&
              c.batch_count == d.batch_count,
          "the numbers of batches differ");
  if (d.batch_count == 1) return;
  const auto other = static_cast<std::int64_t>(d.order == CUBLASLT_ORDER_ROW ? d.rows : d.cols);
  // Matrices may interleave if the stride fits between the columns; otherwise they follow.
  const auto adjacent = static_cast<std::int64_t>(d.order == CUBLASLT_ORDER_ROW ? d.cols : d.rows);
  require(d.batch_stride >= adjacent && (d.batch_stride >= d.ld * (other - 1) + adjacent ||
                                         d.batch_stride * (d.batch_count - 1) + adjacent <= d.ld),
          fmt::format("the batches of D overlap: their stride is {}", d.batch_stride));
}

void take_bias(const MatmulDesc& desc, const MatrixLayout& d, Problem& problem) {
  require_supported(desc.bias_type == -1 || static_cast<std::uint32_t>(desc.bias_type) == d.type,
                    "the bias is not of D's type");
  require(desc.bias % static_cast<std::uint64_t>(bytes_of(problem.d.element)) == 0,
          "the bias is not aligned to its elements");
  problem.adds_bias = true;
  problem.bias = desc.bias;
  problem.bias_batch_stride = desc.bias_batch_stride;
}

void take_aux(const MatmulDesc& desc, const MatrixLayout& d, Problem& problem) {
  const std::int64_t granule = problem.activation == Activation::relu ? 128 : 8;
  require(desc.aux_ld % granule == 0 && desc.aux_ld >= problem.d.rows,
          fmt::format("the leading dimension of the epilogue's input is {}: a multiple of {}, not "
                      "less than {}, is needed",
                      desc.aux_ld, granule, problem.d.rows));
  require(problem.batches == 1 || (desc.aux_batch_stride % granule == 0 &&
                                   desc.aux_batch_stride >= desc.aux_ld * problem.d.cols),
          "the batches of the epilogue's input overlap, or are not aligned");
  require_supported(desc.aux_type == -1 || (problem.activation == Activation::gelu &&
                                            static_cast<std::uint32_t>(desc.aux_type) == d.type),
                    "the epilogue's input is not of D's type");
  problem.keeps_input = true;
  problem.aux = desc.aux;
  problem.aux_ld = desc.aux_ld;
  problem.aux_batch_stride = desc.aux_batch_stride;
}

void take_epilogue(const MatmulDesc& desc, const MatrixLayout& d, Problem& problem) {
  bool bias = false, aux = false;
  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      return;
    case CUBLASLT_EPILOGUE_BIAS:
      bias = true;
      break;
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
      aux = true;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      bias = true;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_RELU:
      problem.activation = Activation::relu;
      break;
    case CUBLASLT_EPILOGUE_RELU_AUX:
      aux = true;
      problem.activation = Activation::relu;
      break;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      aux = true;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      bias = true;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_GELU:
      problem.activation = Activation::gelu;
      break;
    case CUBLASLT_EPILOGUE_GELU_AUX:
      aux = true;
      problem.activation = Activation::gelu;
      break;
    default:
      require_supported(false, fmt::format("epilogue {} is not imitated", desc.epilogue));
  }
  require_supported(!problem.d.row_major, "an epilogue needs D in column order");
  if (bias) take_bias(desc, d, problem);
  if (aux) take_aux(desc, d, problem);
}

}  // namespace

std::int64_t bytes_of(Element element) {
  switch (element) {
    case Element::bf16:
      return 2;
    case Element::f32:
      return 4;
    case Element::f64:
      break;
  }
  return 8;
}

Matrix Matrix::transposed() const {
  Matrix result = *this;
  std::swap(result.rows, result.cols);
  result.row_major = !row_major;
  return result;
}

Matrix Matrix::of_batch(std::int64_t batch) const {
  Matrix result = *this;
  result.address += static_cast<std::uint64_t>(batch * batch_stride * bytes_of(element));
  return result;
}

std::string Problem::name() const {
  std::string result = fmt::format("cublasLtMatmul {} x {} x {}", d.rows, d.cols, a.cols);
  if (batches > 1) result += fmt::format(", {} batches", batches);
  return result;
}

Problem problem_of(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b,
                   const MatrixLayout& c, const MatrixLayout& d) {
  require_supported(desc.trans_c == CUBLAS_OP_N && desc.fill_mode == CUBLAS_FILL_MODE_FULL &&
                        desc.fast_accumulation == 0,
                    "C is transposed, or a triangle is filled, or accumulation is fast");
  require_supported(desc.pointer_mode == CUBLASLT_POINTER_MODE_HOST ||
                        desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE,
                    "alpha or beta is a vector");
  Problem problem{.a = operand_of(a, desc.trans_a, 'A'),
                  .b = operand_of(b, desc.trans_b, 'B'),
                  .c = matrix_of(c, 'C'),
                  .d = matrix_of(d, 'D'),
                  .batches = d.batch_count,
                  .rounds_to_tf32 = desc.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32,
                  .scales_on_device = desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE};
  require_types(desc, problem);
  require_shapes(problem);
  require_batches(a, b, c, d);
  take_epilogue(desc, d, problem);
  return problem;
}

}  // namespace mobius::gpuless::lt
