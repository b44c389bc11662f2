#include "nn/attention/positions.h"

#include <bit>
#include <cmath>

#include "core/error.h"

namespace mobius {

namespace {

// n_k - 1 - t for t = 0 ... n_q + n_k - 2.
Tensor distances(std::int64_t n_q, std::int64_t n_k, DType dtype, Device device) {
  return affine(Tensor::arange(n_q + n_k - 1, dtype, device), -1, static_cast<double>(n_k - 1));
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t n_heads) {
  if (n_heads < 1) throw Error("alibi: expected at least 1 head, got {}", n_heads);
  const auto slope = [](std::int64_t step, std::int64_t n) {
    return std::exp2(-8 * static_cast<double>(step) / static_cast<double>(n));
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(slope(h + 1, power));
  for (std::int64_t h = 0; h < n_heads - power; ++h) slopes.push_back(slope(2 * h + 1, 2 * power));
  return slopes;
}

Tensor alibi_bias(const Tensor& slopes, std::int64_t n_q, std::int64_t n_k) {
  const Tensor distance = distances(n_q, n_k, slopes.dtype(), slopes.device());
  return mul(slopes, minimum(distance, neg(distance)));
}

Variable relative_bias(const Variable& table, std::int64_t n_heads, std::int64_t n_q,
                       std::int64_t n_k) {
  if (table.ndim() != 1 || table.size(0) % 2 == 0)
    throw ShapeError("relative_bias: expected a table of 2 max + 1 numbers, got {}",
                     to_string(table.shape()));
  const auto max = static_cast<double>((table.size(0) - 1) / 2);
  // The host computes these, so nothing is read back; f64 holds every distance.
  const Tensor distance = distances(n_q, n_k, DType::f64, Device{});
  const Tensor entry = affine(unary({UnaryOp::clamp, -max, max}, distance), 1, max).to(DType::i64);
  const RowIndex entries = RowIndex("relative_bias", entry, table.size(0)).to(table.device());
  const Variable shared = gather_rows(reshape(table, {table.size(0), 1}), entries);
  const Variable each_head(Tensor::zeros({n_heads, 1}, table.dtype(), table.device()));
  return each_head + reshape(shared, {1, n_q + n_k - 1});
}

}  // namespace mobius
