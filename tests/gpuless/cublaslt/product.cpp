#include "tests/gpuless/cublaslt/product.h"

#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "tests/gpuless/ptx/fault.h"

namespace mobius::gpuless::lt {
namespace {

// ---- elements

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  bits += 0x7fff + ((bits >> 16) & 1);  // to nearest, ties to even
  return static_cast<std::uint16_t>(bits >> 16);
}

/// To 10 bits of mantissa, to nearest, ties away from zero.
float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::isfinite(value) ? std::bit_cast<float>((bits + 0x1000) & ~0x1fffu) : value;
}

/// How an element is stored, and what it is computed in.
template <class Stored>
struct Storage {
  using Value = Stored;
  static Value load(Stored x) { return x; }
  static Stored store(Value x) { return x; }
};
template <>
struct Storage<std::uint16_t> {
  using Value = float;
  static Value load(std::uint16_t x) { return from_bf16(x); }
  static std::uint16_t store(Value x) { return to_bf16(x); }
};

// ---- memory

std::uint64_t bytes(std::int64_t elements, const Matrix& matrix) {
  return static_cast<std::uint64_t>(elements * bytes_of(matrix.element));
}

/// Runs of adjacent elements: how many, how long, and how far apart.
struct Runs {
  std::int64_t count, length, stride;
};
Runs runs_of(const Matrix& matrix) {
  const std::int64_t length = matrix.row_major ? matrix.cols : matrix.rows;
  const std::int64_t count = matrix.row_major ? matrix.rows : matrix.cols;
  if (length == matrix.ld || count == 1) return {1, length * count, 0};
  return {count, length, matrix.ld};
}

/// What lies between the runs of a matrix is nobody's concern.
const void* read(const Matrix& matrix, ptx::DeviceMemory& memory, const char* name) {
  const Runs runs = runs_of(matrix);
  for (std::int64_t i = 1; i < runs.count; ++i)
    memory.readable(matrix.address + bytes(i * runs.stride, matrix), bytes(runs.length, matrix),
                    name);
  return memory.readable(matrix.address, bytes(runs.length, matrix), name);
}

void* write(const Matrix& matrix, ptx::DeviceMemory& memory, const char* name) {
  const Runs runs = runs_of(matrix);
  for (std::int64_t i = 1; i < runs.count; ++i)
    memory.writable(matrix.address + bytes(i * runs.stride, matrix), bytes(runs.length, matrix),
                    name);
  return memory.writable(matrix.address, bytes(runs.length, matrix), name);
}

void require_apart(const Matrix& operand, const Matrix& d, const char* name) {
  const auto end = [](const Matrix& x) {
    const Runs runs = runs_of(x);
    return x.address + bytes((runs.count - 1) * runs.stride + runs.length, x);
  };
  if (operand.address < end(d) && d.address < end(operand))
    throw ptx::Fault(std::string("D overlaps ") + name);
}

// ---- products into a dense row-major matrix

/// How a matrix with elements of T looks to a routine that takes row-major matrices.
template <class T>
struct View {
  const T* data;
  std::int64_t rows, cols, ld;
  bool transposed;
};

View<float> view_of(const Matrix& matrix, const void* data, bool tf32,
                    std::vector<float>& storage) {
  const bool direct = matrix.element == Element::f32 && !tf32;
  if (direct)
    return {static_cast<const float*>(data), matrix.rows, matrix.cols, matrix.ld,
            !matrix.row_major};
  // A copy in f32, without what lies between the runs.
  const std::int64_t length = matrix.row_major ? matrix.cols : matrix.rows;
  const std::int64_t count = matrix.row_major ? matrix.rows : matrix.cols;
  storage.resize(static_cast<std::size_t>(count * length));
  for (std::int64_t i = 0; i < count; ++i) {
    float* to = storage.data() + i * length;
    if (matrix.element == Element::bf16) {
      const auto* from = static_cast<const std::uint16_t*>(data) + i * matrix.ld;
      std::transform(from, from + length, to, from_bf16);
    } else {
      const auto* from = static_cast<const float*>(data) + i * matrix.ld;
      std::transform(from, from + length, to, to_tf32);
    }
  }
  return {storage.data(), matrix.rows, matrix.cols, length, !matrix.row_major};
}

void product(const View<float>& a, const View<float>& b, float* out) {
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', a.rows, b.cols,
                                 a.cols, 1, a.data, a.ld, b.data, b.ld, 0, out, b.cols);
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused the product");
}

/// The elements of a matrix as a dense row-major one.
std::vector<double> packed(const Matrix& matrix, const double* data) {
  std::vector<double> result(static_cast<std::size_t>(matrix.rows * matrix.cols));
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    for (std::int64_t j = 0; j < matrix.cols; ++j)
      result[static_cast<std::size_t>(i * matrix.cols + j)] =
          data[i * matrix.row_stride() + j * matrix.col_stride()];
  return result;
}

/// out[cols] += the product of `inner` factors and as many rows of b.
void add_rows(const double* factors, const double* b, std::int64_t inner, std::int64_t cols,
              double* out) {
  std::int64_t k = 0;
  for (; k + 4 <= inner; k += 4) {  // four rows for one pass over the sums
    const double* row = b + k * cols;
    for (std::int64_t j = 0; j < cols; ++j) {
      double sum = out[j];
      sum += factors[k] * row[j];
      sum += factors[k + 1] * row[cols + j];
      sum += factors[k + 2] * row[2 * cols + j];
      sum += factors[k + 3] * row[3 * cols + j];
      out[j] = sum;
    }
  }
  for (; k < inner; ++k)
    for (std::int64_t j = 0; j < cols; ++j) out[j] += factors[k] * b[k * cols + j];
}

void product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t rows,
             std::int64_t inner, std::int64_t cols, double* out) {
  constexpr std::int64_t inner_block = 64;  // so many rows of b stay in cache
  constexpr std::int64_t row_block = 16;
  std::fill(out, out + rows * cols, 0.0);
#pragma omp parallel for
  for (std::int64_t first = 0; first < rows; first += row_block)
    for (std::int64_t k = 0; k < inner; k += inner_block)
      for (std::int64_t i = first; i < std::min(first + row_block, rows); ++i)
        add_rows(a.data() + i * inner + k, b.data() + k * cols, std::min(inner_block, inner - k),
                 cols, out + i * cols);
}

/// a b, dense and row-major.
template <class Value>
std::vector<Value> product(const Problem& problem, const Matrix& a, const Matrix& b,
                           ptx::DeviceMemory& memory) {
  const void* a_data = read(a, memory, "an operand of cublasLtMatmul");
  const void* b_data = read(b, memory, "an operand of cublasLtMatmul");
  std::vector<Value> result(static_cast<std::size_t>(a.rows * b.cols));
  if constexpr (std::is_same_v<Value, float>) {
    std::vector<float> a_storage, b_storage;
    product(view_of(a, a_data, problem.rounds_to_tf32, a_storage),
            view_of(b, b_data, problem.rounds_to_tf32, b_storage), result.data());
  } else {
    product(packed(a, static_cast<const double*>(a_data)),
            packed(b, static_cast<const double*>(b_data)), a.rows, a.cols, b.cols, result.data());
  }
  return result;
}

// ---- what follows a product

template <class Value>
Value gelu(Value x) {
  const Value slope = static_cast<Value>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const Value inner = slope * (x + static_cast<Value>(0.044715) * x * x * x);
  return static_cast<Value>(0.5) * x * (1 + std::tanh(inner));
}

/// Where the input of an activation is kept, for one batch: column by column, as D.
template <class Stored>
class Aux {
 public:
  Aux(const Problem& problem, std::int64_t batch, ptx::DeviceMemory& memory)
      : is_mask_(problem.activation == Activation::relu), ld_(problem.aux_ld) {
    if (!problem.keeps_input) return;
    const std::int64_t width = is_mask_ ? 1 : 8 * static_cast<std::int64_t>(sizeof(Stored));
    const auto in_bytes = [&](std::int64_t elements) {
      return static_cast<std::uint64_t>(elements * width / 8);
    };
    // The end of a column beyond D's rows belongs to the library.
    data_ = memory.writable(problem.aux + in_bytes(batch * problem.aux_batch_stride),
                            in_bytes(ld_ * problem.d.cols), "the epilogue of cublasLtMatmul");
    std::memset(data_, 0, in_bytes(ld_ * problem.d.cols));
  }
  void keep(std::int64_t row, std::int64_t col, typename Storage<Stored>::Value x) {
    if (!data_) return;
    const std::int64_t i = col * ld_ + row;
    if (is_mask_)
      static_cast<std::uint8_t*>(data_)[i / 8] |= static_cast<std::uint8_t>((x > 0) << (i % 8));
    else
      static_cast<Stored*>(data_)[i] = Storage<Stored>::store(x);
  }

 private:
  bool is_mask_;
  std::int64_t ld_;
  void* data_ = nullptr;
};

/// The bias of one batch; null for none.
template <class Stored>
const Stored* bias_of(const Problem& problem, std::int64_t batch, ptx::DeviceMemory& memory) {
  if (!problem.adds_bias) return nullptr;
  const auto offset = batch * problem.bias_batch_stride * static_cast<std::int64_t>(sizeof(Stored));
  return static_cast<const Stored*>(
      memory.readable(problem.bias + static_cast<std::uint64_t>(offset),
                      static_cast<std::uint64_t>(problem.d.rows) * sizeof(Stored),
                      "the epilogue of cublasLtMatmul"));
}

template <class Stored>
void multiply_batch(const Problem& problem, const Scales& scales, std::int64_t batch,
                    ptx::DeviceMemory& memory) {
  using Value = typename Storage<Stored>::Value;
  const Matrix a = problem.a.of_batch(batch), b = problem.b.of_batch(batch);
  const Matrix c = problem.c.of_batch(batch), d = problem.d.of_batch(batch);
  require_apart(a, d, "A");
  require_apart(b, d, "B");
  // Rows of the dense result are runs of D.
  const std::vector<Value> sums =
      d.row_major ? product<Value>(problem, a, b, memory)
                  : product<Value>(problem, b.transposed(), a.transposed(), memory);
  const auto alpha = static_cast<Value>(scales.alpha), beta = static_cast<Value>(scales.beta);
  const auto* old =
      beta == 0 ? nullptr
                : static_cast<const Stored*>(read(c, memory, "an operand of cublasLtMatmul"));
  const Stored* bias = bias_of<Stored>(problem, batch, memory);
  Aux<Stored> aux(problem, batch, memory);
  auto* out = static_cast<Stored*>(write(d, memory, "cublasLtMatmul"));

  const std::int64_t runs = d.row_major ? d.rows : d.cols;
  const std::int64_t length = d.row_major ? d.cols : d.rows;
  for (std::int64_t run = 0; run < runs; ++run) {
    for (std::int64_t i = 0; i < length; ++i) {
      Value x = alpha * sums[static_cast<std::size_t>(run * length + i)];
      if (old) x += beta * Storage<Stored>::load(old[run * c.ld + i]);
      if (bias) x += Storage<Stored>::load(bias[i]);  // D is in column order
      aux.keep(i, run, x);
      if (problem.activation == Activation::relu) x = std::max(x, Value{0});
      if (problem.activation == Activation::gelu) x = gelu(x);
      out[run * d.ld + i] = Storage<Stored>::store(x);
    }
  }
}

/// Small products are done before a second thread has begun.
class FewThreads {
 public:
  explicit FewThreads(const Problem& problem) : before_(omp_get_max_threads()) {
    constexpr std::int64_t small = std::int64_t{1} << 25;
    if (problem.d.rows * problem.d.cols * problem.a.cols < small) omp_set_num_threads(1);
  }
  ~FewThreads() { omp_set_num_threads(before_); }
  FewThreads(const FewThreads&) = delete;
  FewThreads& operator=(const FewThreads&) = delete;

 private:
  int before_;
};

double scale_at(std::uint64_t address, bool is_double, ptx::DeviceMemory& memory) {
  const void* data = memory.readable(address, is_double ? 8 : 4, "a scale of cublasLtMatmul");
  return is_double ? *static_cast<const double*>(data) : *static_cast<const float*>(data);
}

}  // namespace

void multiply(const Problem& problem, Scales scales, ptx::DeviceMemory& memory) {
  if (problem.scales_on_device) {
    const bool is_double = problem.d.element == Element::f64;
    scales.alpha = scale_at(scales.alpha_address, is_double, memory);
    scales.beta = scale_at(scales.beta_address, is_double, memory);
  }
  const FewThreads few(problem);
  for (std::int64_t batch = 0; batch < problem.batches; ++batch) {
    switch (problem.d.element) {
      case Element::f32:
        multiply_batch<float>(problem, scales, batch, memory);
        break;
      case Element::f64:
        multiply_batch<double>(problem, scales, batch, memory);
        break;
      case Element::bf16:
        multiply_batch<std::uint16_t>(problem, scales, batch, memory);
        break;
    }
  }
}

}  // namespace mobius::gpuless::lt
