// One tile of queries against one tile of keys: what the forward and the backward pass share.
//
// Included once per instruction set, between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() of
// its own (Highway's convention for -inl.h files).
#if defined(MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#undef MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#else
#define MOBIUS_CORE_CPU_ATTENTION_TILE_INL_H_
#endif

#include <algorithm>
#include <array>

#include "core/cpu/attention/rows-inl.h"
#include "core/cpu/gemm/tile_gemm-inl.h"
#include "core/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace mobius {
namespace HWY_NAMESPACE {

/// Zeroed scratch memory of n elements, from the backend's cache.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : memory_(Tensor::empty({n}, dtype_of<T>())), data_(memory_.data<T>()) {
    std::fill(data_, data_ + n, T{0});
  }
  T* data() { return data_; }
  T* row(std::int64_t i, std::int64_t width) { return data_ + i * width; }

 private:
  Tensor memory_;
  T* data_;
};

/// How a tile of block_k keys is packed as the operand B of a product: as its columns, [D,
/// block_k], for products over D, or as its rows, [block_k, D], for products over the keys.
enum class KeysAs { columns, rows };

template <class T>
class TilePacking {
 public:
  TilePacking(KeysAs keys_as, std::int64_t d)
      : keys_as_(keys_as),
        d_(d),
        columns_(keys_as == KeysAs::columns ? attention_block_k : d),
        rows_(keys_as == KeysAs::columns ? d : attention_block_k) {}

  /// Elements of a packed tile.
  std::int64_t size() const { return round_up(columns_, panel_columns<T>()) * rows_; }
  Panels<T> panels(const T* tile) const {
    return {tile, panel_columns<T>(), rows_ * panel_columns<T>()};
  }
  /// Packs `count` keys, `stride` apart. Columns past the last are 0.
  void pack(const T* keys, std::int64_t stride, std::int64_t count, T* tile) const {
    if (keys_as_ == KeysAs::columns) {
      pack_columns(keys, stride, count, tile);
    } else {
      pack_rows(keys, stride, count, tile);
    }
  }

 private:
  void pack_columns(const T* keys, std::int64_t stride, std::int64_t count, T* tile) const {
    const std::int64_t columns = panel_columns<T>(), panel = d_ * columns;
    for (std::int64_t j = 0; j < attention_block_k; j += columns, tile += panel) {
      const std::int64_t filled = std::clamp<std::int64_t>(count - j, 0, columns);
      if (filled < columns) std::fill(tile, tile + panel, T{0});
      transpose_tile(keys + j * stride, filled, d_, stride, tile, columns);
    }
  }
  void pack_rows(const T* keys, std::int64_t stride, std::int64_t count, T* tile) const {
    const std::int64_t columns = panel_columns<T>();
    for (std::int64_t c = 0; c < d_; c += columns, tile += attention_block_k * columns) {
      const std::int64_t filled = std::min(columns, d_ - c);
      for (std::int64_t j = 0; j < count; ++j) {
        std::copy_n(keys + j * stride + c, filled, tile + j * columns);
        std::fill(tile + j * columns + filled, tile + (j + 1) * columns, T{0});
      }
    }
  }

  KeysAs keys_as_;
  std::int64_t d_, columns_, rows_;
};

/// All key tiles of x[B, G, N, D], packed.
template <class T>
class PackedTiles {
 public:
  PackedTiles(KeysAs keys_as, const Tensor& x)
      : packing_(keys_as, x.size(3)),
        tiles_(ceil_div(x.size(2), attention_block_k)),
        memory_(Tensor::empty({x.size(0) * x.size(1) * tiles_, packing_.size()}, x.dtype())) {
    const HeadRows<T> keys(x);
    const std::int64_t groups = x.size(1), n = x.size(2);
    parallel_for_each(memory_.size(0), 4, [&](std::int64_t t) {
      const std::int64_t bg = t / tiles_, first = t % tiles_ * attention_block_k;
      packing_.pack(keys.row(bg / groups, bg % groups, first), keys.row_stride,
                    std::min(attention_block_k, n - first),
                    memory_.data<T>() + t * packing_.size());
    });
  }

  /// The tile that starts at key j0 of matrix bg.
  Panels<T> tile(std::int64_t bg, std::int64_t j0) const {
    const std::int64_t at = bg * tiles_ + j0 / attention_block_k;
    return packing_.panels(memory_.data<T>() + at * packing_.size());
  }

 private:
  TilePacking<T> packing_;
  std::int64_t tiles_;
  Tensor memory_;
};

/// A packed tile in scratch memory.
template <class T>
class ScratchTile {
 public:
  ScratchTile(KeysAs keys_as, std::int64_t d) : packing_(keys_as, d), memory_(packing_.size()) {}
  void pack(const T* keys, std::int64_t stride, std::int64_t count) {
    packing_.pack(keys, stride, count, memory_.data());
  }
  Panels<T> panels() { return packing_.panels(memory_.data()); }

 private:
  TilePacking<T> packing_;
  Scratch<T> memory_;
};

/// to[rows, width] = source rows (n columns); rows past `count` are 0.
template <class T>
void copy_rows(const T* source, std::int64_t stride, std::int64_t count, std::int64_t n, T* to,
               std::int64_t width) {
  for (std::int64_t i = 0; i < count; ++i) std::copy_n(source + i * stride, n, to + i * width);
  std::fill(to + count * width, to + attention_block_q * width, T{0});
}

/// Queries [i0, i1) of a head, times their factors, in rows of `width`.
template <class T>
void load_queries(const AttentionProblem<T>& p, std::int64_t b, std::int64_t h, std::int64_t i0,
                  std::int64_t i1, T* to, std::int64_t width) {
  for (std::int64_t i = i0; i < i1; ++i) {
    const T factor = p.query_factor(b, h, i);
    const T* const source = p.q.row(b, h, i);
    T* const row = to + (i - i0) * width;
    for (std::int64_t c = 0; c < p.d; ++c) row[c] = factor * source[c];
  }
  std::fill(to + (i1 - i0) * width, to + attention_block_q * width, T{0});
}

/// A query tile [i0, i1) of one head against the key tile that starts at j0.
struct TilePosition {
  std::int64_t b, h, i0, i1, j0;
};

/// The numbers that `Map` takes, for query i and the keys of a tile.
template <class Map, class T>
RowNumbers<T> row_numbers(const AttentionProblem<T>& p, const TilePosition& at, std::int64_t i) {
  RowNumbers<T> row;
  for_each_number(
      [&](const NumberKind& number, const NumberUse& use, const NumberRows<const T>& all,
          RowNumber<T>& x) HWY_ATTR {
        if (!use.is_taken || !all.data) return;
        if (number.of == NumberOf::query)
          x.value = all.data[p.row_of(at.b, at.h, i) * all.stride];
        else if (number.of == NumberOf::key)
          x.keys = all.data + (at.b * p.groups + p.group_of(at.h)) * all.stride + at.j0;
        else
          x.keys = all.data + at.h * all.stride + at.j0 - i + p.n_q - 1;
      },
      Map::uses, p.numbers, row);
  return row;
}

/// Factors of the weights of one row of a tile under dropout: 0 or 1 / (1 - rate). The number of
/// weight (b, h, i, j) is its index in [B, H, Nq, Nk], whatever the tiling.
template <class T>
void dropout_row(const AttentionProblem<T>& p, const TilePosition& at, std::int64_t i,
                 std::int64_t width, T* factors) {
  const auto keep = static_cast<T>(1 / (1 - p.spec.dropout));
  const auto limit = static_cast<std::uint32_t>(p.spec.dropout * 4294967296.0);
  const auto first = static_cast<std::uint64_t>(p.row_of(at.b, at.h, i) * p.n_k + at.j0);
  std::uint64_t block = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words{};
  for (std::int64_t j = 0; j < width; ++j) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(j);
    if (index / 4 != block) {
      block = index / 4;
      words = philox(p.spec.dropout_key, block);
    }
    factors[j] = words[index % 4] < limit ? T{0} : keep;
  }
}

template <class T>
void multiply_row(const T* factors, std::int64_t width, T* row) {
  const Lanes<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < width; j += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, factors + j), hn::LoadU(d, row + j)), d, row + j);
}

}  // namespace HWY_NAMESPACE
}  // namespace mobius
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
