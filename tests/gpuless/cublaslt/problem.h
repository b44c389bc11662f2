// A matrix product that cuBLASLt's documentation supports, made of its descriptors.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <string>

#include "tests/gpuless/cublaslt/descriptors.h"

namespace mobius::gpuless::lt {

enum class Element { f32, f64, bf16 };
std::int64_t bytes_of(Element element);

/// A matrix in memory. Elements of one row, or of one column, are adjacent; the other stride is ld.
struct Matrix {
  std::uint64_t address = 0;
  Element element = Element::f32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  bool row_major = false;
  std::int64_t batch_stride = 0;

  std::int64_t row_stride() const { return row_major ? ld : 1; }
  std::int64_t col_stride() const { return row_major ? 1 : ld; }
  /// The same memory, read the other way.
  Matrix transposed() const;
  Matrix of_batch(std::int64_t batch) const;
};

enum class Activation { none, relu, gelu };

/// D = activation(alpha A B + beta C + bias), with A and B as they are multiplied: op() has been
/// applied to them.
struct Problem {
  Matrix a, b, c, d;  // m x k, k x n, m x n, m x n
  std::int64_t batches = 1;
  bool rounds_to_tf32 = false;
  bool scales_on_device = false;

  Activation activation = Activation::none;
  bool adds_bias = false;
  std::uint64_t bias = 0;  // the address of an element of D's type for each of D's rows
  std::int64_t bias_batch_stride = 0;
  bool keeps_input = false;
  /// Where what goes into the activation is kept: numbers of D's type for gelu, bits for relu.
  std::uint64_t aux = 0;
  std::int64_t aux_ld = 0;  // elements, or bits
  std::int64_t aux_batch_stride = 0;

  std::string name() const;
};

/// Why a product is refused.
struct Refusal {
  cublasStatus_t status;
  std::string reason;
};

/// Throws Refusal for what the documentation of the real library excludes.
Problem problem_of(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b,
                   const MatrixLayout& c, const MatrixLayout& d);

}  // namespace mobius::gpuless::lt
