// The kernels on tensor cores by the widths of their operands: D and Dv are completed to the least
// pair that holds them. A pair is compiled in one file, tensor_<the wider>.cu, for all score maps.
#pragma once

#include <utility>

#include "core/ops/attention.h"

namespace mobius::cuda {

struct ForwardCall;
struct BackwardCall;
struct QueryGradientCall;

/// Rows of a tile.
struct TileSize {
  int queries, keys;
};

template <int kD, int kDv>
struct TensorKernels {
  static TileSize forward_tile();
  static TileSize query_gradient_tile();
  static void forward(const AttentionSpec& spec, const ForwardCall& call);
  static void key_gradients(const AttentionSpec& spec, const BackwardCall& call);
  static void query_gradients(const AttentionSpec& spec, const QueryGradientCall& call);
};

/// The largest D and Dv.
constexpr std::int64_t tensor_max_width = 256;

/// Calls fn(kernels) with the TensorKernels and the widths for d and dv.
template <class Fn>
decltype(auto) with_tensor_kernels(std::int64_t d, std::int64_t dv, const Fn& fn) {
  const auto fits = [&](int width, int value_width) { return d <= width && dv <= value_width; };
  if (fits(32, 32)) return fn(TensorKernels<32, 32>(), 32, 32);
  if (fits(64, 32)) return fn(TensorKernels<64, 32>(), 64, 32);
  if (fits(64, 64)) return fn(TensorKernels<64, 64>(), 64, 64);
  if (fits(128, 64)) return fn(TensorKernels<128, 64>(), 128, 64);
  if (fits(128, 128)) return fn(TensorKernels<128, 128>(), 128, 128);
  return fn(TensorKernels<256, 256>(), 256, 256);
}

}  // namespace mobius::cuda
