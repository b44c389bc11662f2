// Attention by feature products, in time and memory linear in the sequence, parallel over heads and
// over spans of the sequence, in three launches each way:
//
//   moments   of every span of keys: S = sum_j k_j v_j^T and, if normalized, z = sum_j k_j;
//   scan      the moments of all spans before each one, and of all together, added up in order;
//   apply     the moments before its span to every query, and the keys of its own span by a small
//             masked product.
//
// The backward pass does the same with the moments of queries behind a span. All are matrix
// products in T of tiles in shared memory. Every sum has a fixed order: the keys' gradients add up
// the heads of their group within a block.
//
// Legend: M features, Dv value dimension; B, H, G, Nq, Nk as in core/ops/attention.h. The first
// `lead` keys are seen by every query; then, if causal, query i sees key lead + i and those before.
// Buffers: all outputs are overwritten (=).
#include <algorithm>

#include "core/cuda/kernels.h"
#include "core/cuda/rows.cuh"
#include "core/ops/linear_attention.h"
#include "core/round.h"

namespace mobius {
namespace cuda {
namespace {

// ---- products of tiles: 256 threads have a tile of 64 x 64 sums, each 4 x 4 of them

constexpr int tile = 64, product_threads = 256, per_thread = 4;
constexpr int blocks_resident = 2;  // on a multiprocessor, at least
constexpr int padded = tile + 4;    // spreads a column over the banks, and keeps 16-byte alignment

/// Depth of the slabs of operands in shared memory.
template <class T>
constexpr int depth = 64 / static_cast<int>(sizeof(T));

template <class T>
using Slab = T[padded];

template <class T>
struct alignas(access_bytes) Slabs {
  Slab<T> a[depth<T>], b[depth<T>];
};

/// Elements of 16 bytes.
template <class T>
constexpr int piece = access_bytes / static_cast<int>(sizeof(T));

/// The first row or column of a tile in piece n of the thread number `index` of 16. Pieces of
/// neighbours lie side by side, so that a warp reads shared memory without conflicts.
template <class T>
__device__ int piece_begin(int index, int n) {
  return n * (tile / per_thread) * piece<T> + index * piece<T>;
}
__device__ int thread_row() { return static_cast<int>(threadIdx.x) / (tile / per_thread); }
__device__ int thread_column() { return static_cast<int>(threadIdx.x) % (tile / per_thread); }

/// The sums of a thread, by row.
template <class T>
struct Sums {
  static constexpr int pieces = per_thread / piece<T>;
  Pack<T, piece<T>> at[per_thread][pieces];

  __device__ void add(int r, int c, T x, T y) {
    T& sum = at[r][c / piece<T>][c % piece<T>];
    sum = fma(x, y, sum);
  }
  /// Calls f(row, column, pack) with the place in the tile of each piece.
  template <class F>
  __device__ void for_pieces(F&& f) {
#pragma unroll
    for (int r = 0; r < per_thread; ++r) {
      const int row = piece_begin<T>(thread_row(), r / piece<T>) + r % piece<T>;
#pragma unroll
      for (int n = 0; n < pieces; ++n) f(row, piece_begin<T>(thread_column(), n), at[r][n]);
    }
  }
};

/// The thread's rows or columns of a slab at one depth.
template <class T>
__device__ void read_pieces(const Slab<T>& from, int index, T (&to)[per_thread]) {
  struct alignas(access_bytes) Piece {
    T at[piece<T>];
  };
#pragma unroll
  for (int n = 0; n < per_thread / piece<T>; ++n) {
    const Piece read = *reinterpret_cast<const Piece*>(&from[piece_begin<T>(index, n)]);
#pragma unroll
    for (int i = 0; i < piece<T>; ++i) to[n * piece<T> + i] = read.at[i];
  }
}

/// sums += a^T b, a[depth, 64] and b[depth, 64].
template <class T>
__device__ void multiply(const Slab<T>* a, const Slab<T>* b, Sums<T>& sums) {
#pragma unroll
  for (int k = 0; k < depth<T>; ++k) {
    T x[per_thread], y[per_thread];
    read_pieces(a[k], thread_row(), x);
    read_pieces(b[k], thread_column(), y);
#pragma unroll
    for (int r = 0; r < per_thread; ++r)
#pragma unroll
      for (int c = 0; c < per_thread; ++c) sums.add(r, c, x[r], y[c]);
  }
}

/// An operand of a product in global memory: element (i, k) is load(i, k), i < 64 and k the depth.
/// Neighbours along the depth lie side by side if load.along_depth, else those along i.
template <class T, class Load>
class Operand {
 public:
  __device__ Operand(const Load& load, Slab<T>* slabs) : load_(load), slabs_(slabs) {}

  /// Reads the slab that begins at depth k, for store().
  __device__ void fetch(std::int64_t k) {
#pragma unroll
    for (int n = 0; n < each; ++n) next_[n] = load_(place(n).i, k + place(n).k);
  }
  __device__ void store() {
#pragma unroll
    for (int n = 0; n < each; ++n) slabs_[place(n).k][place(n).i] = next_[n];
  }
  __device__ const Slab<T>* slab(std::int64_t) const { return slabs_; }

 private:
  static constexpr int each = tile * depth<T> / product_threads;
  struct Place {
    int i, k;
  };
  __device__ Place place(int n) const {
    const int e = n * product_threads + static_cast<int>(threadIdx.x);
    return load_.along_depth ? Place{e / depth<T>, e % depth<T>} : Place{e % tile, e / tile};
  }

  const Load& load_;
  Slab<T>* slabs_;
  T next_[each];
};

/// An operand that is in shared memory, in all its depth.
template <class T>
struct SharedOperand {
  const Slab<T>* slabs;

  __device__ void fetch(std::int64_t) {}
  __device__ void store() {}
  __device__ const Slab<T>* slab(std::int64_t k) const { return slabs + k; }
};

/// sums += the product over depths [0, end). Calls each(k, slab) while the slab of `a` from depth k
/// on is in shared memory. Depths past the end have to be 0 in the operands.
template <class T, class A, class B, class Each>
__device__ void add_product(A a, B b, std::int64_t end, Sums<T>& sums, Each&& each) {
  if (end <= 0) return;
  a.fetch(0);
  b.fetch(0);
  for (std::int64_t k = 0; k < end; k += depth<T>) {
    a.store();
    b.store();
    __syncthreads();
    if (k + depth<T> < end) {
      a.fetch(k + depth<T>);
      b.fetch(k + depth<T>);
    }
    multiply<T>(a.slab(k), b.slab(k), sums);
    each(k, a.slab(k));
    __syncthreads();
  }
}

struct Nothing {
  template <class T>
  __device__ void operator()(std::int64_t, const Slab<T>*) const {}
};

// ---- operands

/// The rows of one head, row i times factors[i]; 0 outside.
template <class T>
struct HeadRows {
  const T *data, *factors;  // factors null: 1
  std::int64_t row_stride, width;

  __device__ T at(std::int64_t i, std::int64_t end, std::int64_t x) const {
    if (i >= end || x >= width) return 0;
    const T value = data[i * row_stride + x];
    return factors ? value * factors[i] : value;
  }
};

/// x[B, heads, n, width], each row dense.
template <class T>
struct Heads {
  const T* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
  std::int64_t heads = 0, n = 0, width = 0;
  const T* factors = nullptr;  // of the rows, [B, heads, n]; null: 1

  Heads() = default;
  explicit Heads(const Tensor& x)
      : data(x.data<T>()),
        batch_stride(x.stride(0)),
        head_stride(x.stride(1)),
        row_stride(x.stride(2)),
        heads(x.size(1)),
        n(x.size(2)),
        width(x.size(3)) {}

  __device__ const T* row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return data + b * batch_stride + h * head_stride + i * row_stride;
  }
  __device__ HeadRows<T> of(std::int64_t b, std::int64_t h) const {
    return {row(b, h, 0), factors ? factors + (b * heads + h) * n : nullptr, row_stride, width};
  }
};

/// Rows [begin, end) by their columns, which are the depth.
template <class T>
struct LoadRows {
  HeadRows<T> rows;
  std::int64_t begin, end;
  static constexpr bool along_depth = true;

  __device__ T operator()(int i, std::int64_t k) const { return rows.at(begin + i, end, k); }
};

/// Columns from `column` on of rows [begin, end), which are the depth.
template <class T>
struct LoadColumns {
  HeadRows<T> rows;
  std::int64_t begin, end, column;
  static constexpr bool along_depth = false;

  __device__ T operator()(int i, std::int64_t k) const {
    return rows.at(begin + k, end, column + i);
  }
};

/// Columns from `column` on of moments [depth, n_columns] with any strides.
template <class T>
struct LoadMoments {
  const T* data;
  std::int64_t depth_stride, column_stride, n_depth, n_columns, column;
  bool along_depth;

  __device__ T operator()(int i, std::int64_t k) const {
    if (k >= n_depth || column + i >= n_columns) return 0;
    return data[k * depth_stride + (column + i) * column_stride];
  }
};

// ---- spans

/// The positions of a sequence in spans: those of the first `lead`, then those of `own` more, of
/// which each is paired with the positions of the other side of its own span.
struct Spans {
  std::int64_t lead, own, lead_span, own_span;

  __host__ __device__ std::int64_t n_lead() const { return ceil_div(lead, lead_span); }
  __host__ __device__ std::int64_t count() const { return n_lead() + ceil_div(own, own_span); }
  struct Range {
    std::int64_t begin, end;
  };
  __device__ Range operator[](std::int64_t s) const {
    const bool leads = s < n_lead();
    const std::int64_t begin = leads ? s * lead_span : lead + (s - n_lead()) * own_span;
    const std::int64_t end = leads ? lead : lead + own,
                       next = begin + (leads ? lead_span : own_span);
    return {begin, next < end ? next : end};
  }
};

/// Moments [M, Dv] of each span, followed by M sums where there are weights; then those of all
/// spans together: [B * G, count + 1, size].
template <class T>
struct Moments {
  T* data;
  std::int64_t groups, count, m, dv, size;

  __device__ T* at(std::int64_t b, std::int64_t g, std::int64_t s) const {
    return data + ((b * groups + g) * (count + 1) + s) * size;
  }
};

// ---- first launch

/// The moments x^T y of the heads of a group, and the sums of weights[i] x_i.
template <class T>
struct MomentsArguments {
  Heads<T> x, y;     // [B, heads, n, M] and [B, heads, n, Dv], the heads a multiple of the groups
  const T* weights;  // [B, heads, n]; null: 1
  bool has_sums;
  Spans spans;
  Moments<T> to;
};

template <class T>
__global__ void __launch_bounds__(product_threads, blocks_resident)
    moments_kernel(MomentsArguments<T> p) {
  __shared__ Slabs<T> slabs;
  const std::int64_t m_tiles = ceil_div(p.to.m, tile);
  const std::int64_t span = blockIdx.x / m_tiles % p.to.count, m0 = blockIdx.x % m_tiles * tile;
  const std::int64_t group = blockIdx.x / m_tiles / p.to.count,
                     d0 = std::int64_t{blockIdx.y} * tile;
  const std::int64_t b = group / p.to.groups, g = group % p.to.groups;
  const std::int64_t per_group = p.x.heads / p.to.groups;
  const auto [begin, end] = p.spans[span];
  const bool sums_up = p.has_sums && blockIdx.y == 0 && threadIdx.x < tile;
  Sums<T> sums;
  T sum = 0;
  for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) {
    const T* const weights = p.weights ? p.weights + (b * p.x.heads + h) * p.x.n : nullptr;
    const LoadColumns<T> x{p.x.of(b, h), begin, end, m0}, y{p.y.of(b, h), begin, end, d0};
    add_product(Operand<T, LoadColumns<T>>(x, slabs.a), Operand<T, LoadColumns<T>>(y, slabs.b),
                end - begin, sums, [&](std::int64_t k, const Slab<T>* slab) {
                  for (int i = 0; sums_up && i < depth<T> && begin + k + i < end; ++i)
                    sum = fma(slab[i][threadIdx.x], weights ? weights[begin + k + i] : T{1}, sum);
                });
  }
  T* const to = p.to.at(b, g, span);
  sums.for_pieces([&](int row, int column, const Pack<T, piece<T>>& pack) {
    const PackPlace<piece<T>> place(d0 + column, p.to.dv);
    if (m0 + row < p.to.m && !place.is_empty()) store(pack, to + (m0 + row) * p.to.dv, place);
  });
  if (sums_up && m0 + threadIdx.x < p.to.m) to[p.to.m * p.to.dv + m0 + threadIdx.x] = sum;
}

// ---- second launch

/// Replaces the moments of each span by those of all spans before it, or behind it. A thread has
/// one number of all spans.
template <class T>
__global__ void scan_kernel(Moments<T> moments, std::int64_t n_threads, bool from_behind) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread >= n_threads) return;
  T* const first = moments.data + thread / moments.size * (moments.count + 1) * moments.size +
                   thread % moments.size;
  T sum = 0;
  for (std::int64_t i = 0; i < moments.count; ++i) {
    T* const at = first + (from_behind ? moments.count - 1 - i : i) * moments.size;
    const T own = *at;
    *at = sum;
    sum += own;
  }
  first[moments.count * moments.size] = sum;
}

// ---- third launch

/// For every row r of a head, over the columns of c:
///   sum_x a[r, x] S[x, .] + row_term[r] s + sum_j (<a_r, b_j> + term) c_j,
/// S and s being the moments before (or behind) the span of r, and j the positions of its own span
/// that it is paired with: up to its own, or from its own on. The term is row_terms[r] or
/// pair_terms[j].
template <class T>
struct ApplyArguments {
  Heads<T> a, b, c;
  bool is_behind;  // pairs are j >= r, and the heads of b and c are several to one of a
  std::int64_t lead, own, own_span;  // rows of a: those before `lead` are applied all moments
  std::int64_t pair_lead;            // position of b that pairs with row `lead`
  std::int64_t first_own_span;       // the index of the moments of the first own span
  Moments<T> moments;
  bool is_transposed;   // S is the transposed of the moments
  bool adds_sums;       // whether there is the middle term
  const T* row_terms;   // [B, heads of a, rows]; null: 1 in the middle term, 0 in the last
  const T* pair_terms;  // [B, heads of b, positions]; null: 0

  T* out;  // strided as a tensor like a, of other width
  std::int64_t out_batch_stride, out_head_stride, out_row_stride;

  /// Where not null, rows are divided by `sum_x a[r, x] s[x] + sum_j <a_r, b_j> + eps`, which is
  /// stored: [B, heads of a, rows]. 0 divides to 0.
  T* denominator;
  T eps;
  Heads<T> initial;  // is added; null data: none
};

/// What the blocks of the third launch keep in shared memory.
template <class T>
struct alignas(access_bytes) ApplyShared {
  Slabs<T> slabs;
  Slab<T> weights[tile];  // [position of b, row of a]
  T totals[tile];
};

/// A block: a tile of rows of one head and a tile of columns.
template <class T>
class Apply {
 public:
  __device__ Apply(const ApplyArguments<T>& arguments, ApplyShared<T>& shared)
      : p_(arguments), shared_(shared) {
    const std::int64_t lead_tiles = ceil_div(p_.lead, tile);
    const std::int64_t tiles = lead_tiles + ceil_div(p_.own, tile);
    const std::int64_t t = blockIdx.x % tiles, head = blockIdx.x / tiles;
    b_ = head / p_.a.heads;
    h_ = head % p_.a.heads;
    group_ = h_ / (p_.a.heads / p_.moments.groups);
    own_ = t < lead_tiles ? -1 : t - lead_tiles;
    begin_ = own_ < 0 ? t * tile : p_.lead + own_ * tile;
    end_ = own_ < 0 ? p_.lead : p_.lead + p_.own;
    column_ = std::int64_t{blockIdx.y} * tile;
  }

  __device__ void run() {
    add_moments();
    if (own_ >= 0) add_own_span();
    if (p_.denominator) store_denominators();
    store_rows();
  }

 private:
  __device__ std::int64_t span() const { return own_ * tile / p_.own_span; }
  __device__ const T* moments() const {
    const std::int64_t index = own_ < 0 ? p_.moments.count : p_.first_own_span + span();
    return p_.moments.at(b_, group_, index);
  }
  __device__ const T* sums_of_moments() const { return moments() + p_.moments.m * p_.moments.dv; }
  __device__ LoadRows<T> rows_of_a() const { return {p_.a.of(b_, h_), begin_, end_}; }
  /// The thread that has the total of a row of the tile.
  __device__ bool has_total() const { return p_.denominator && threadIdx.x < tile; }

  __device__ void add_moments() {
    const std::int64_t dv = p_.moments.dv, width = p_.a.width;
    const LoadRows<T> a = rows_of_a();
    const LoadMoments<T> s{
        moments(), p_.is_transposed ? 1 : dv, p_.is_transposed ? dv : 1, width, p_.c.width,
        column_,   p_.is_transposed};
    const T* const sums = sums_of_moments();
    add_product(Operand<T, LoadRows<T>>(a, shared_.slabs.a),
                Operand<T, LoadMoments<T>>(s, shared_.slabs.b), width, sums_,
                [&](std::int64_t k, const Slab<T>* slab) {
                  for (int i = 0; has_total() && i < depth<T> && k + i < width; ++i)
                    total_ = fma(slab[i][threadIdx.x], sums[k + i], total_);
                });
  }

  /// The tiles of b in the own span, on this side of the diagonal, for all heads of b.
  __device__ void add_own_span() {
    const std::int64_t tiles_each = p_.own_span / tile, first = span() * tiles_each;
    std::int64_t last = first + tiles_each - 1;
    const std::int64_t last_of_all = ceil_div(p_.own, tile) - 1;
    if (last > last_of_all) last = last_of_all;
    const std::int64_t several = p_.is_behind ? p_.b.heads / p_.a.heads : 1;
    const std::int64_t first_head = p_.is_behind ? h_ * several : group_;
    for (std::int64_t h = first_head; h < first_head + several; ++h)
      for (std::int64_t j = p_.is_behind ? own_ : first; j <= (p_.is_behind ? last : own_); ++j)
        add_pairs(h, j);
  }

  /// Those with tile `own` of head h of b.
  __device__ void add_pairs(std::int64_t h, std::int64_t own) {
    const std::int64_t begin = p_.pair_lead + own * tile, end = p_.pair_lead + p_.own;
    const LoadRows<T> a = rows_of_a(), b{p_.b.of(b_, h), begin, end};
    Sums<T> products;  // transposed: [position of b, row of a]
    add_product(Operand<T, LoadRows<T>>(b, shared_.slabs.a),
                Operand<T, LoadRows<T>>(a, shared_.slabs.b), p_.a.width, products, Nothing());
    store_weights(products, h, own);
    __syncthreads();
    for (int j = 0; has_total() && j < tile; ++j) total_ += shared_.weights[j][threadIdx.x];
    const LoadColumns<T> c{p_.c.of(b_, h), begin, end, column_};
    add_product(SharedOperand<T>{shared_.weights}, Operand<T, LoadColumns<T>>(c, shared_.slabs.b),
                tile, sums_, Nothing());
  }

  /// The products with their terms, 0 for pairs that do not see each other or do not exist.
  __device__ void store_weights(Sums<T>& products, std::int64_t h, std::int64_t own) {
    const T* const row_terms =
        p_.row_terms ? p_.row_terms + (b_ * p_.a.heads + h_) * p_.a.n + begin_ : nullptr;
    const std::int64_t first = p_.pair_lead + own * tile;
    const T* const pair_terms =
        p_.pair_terms ? p_.pair_terms + (b_ * p_.b.heads + h) * p_.b.n + first : nullptr;
    const std::int64_t offset = (own - own_) * tile;  // of position 0 of b from row 0 of a
    products.for_pieces([&](int j, int row, const Pack<T, piece<T>>& pack) {
#pragma unroll
      for (int i = 0; i < piece<T>; ++i) {
        const std::int64_t r = row + i, distance = offset + j - r;
        const bool is_seen = (p_.is_behind ? distance >= 0 : distance <= 0) && begin_ + r < end_ &&
                             own * tile + j < p_.own;
        T weight = pack[i];
        if (is_seen && row_terms) weight += row_terms[r];
        if (is_seen && pair_terms) weight += pair_terms[j];
        shared_.weights[j][r] = is_seen ? weight : T{0};
      }
    });
  }

  __device__ void store_denominators() {
    const std::int64_t r = begin_ + threadIdx.x;
    if (threadIdx.x < tile) {
      const T denominator = total_ + p_.eps;
      shared_.totals[threadIdx.x] = denominator == 0 ? T{0} : 1 / denominator;
      if (blockIdx.y == 0 && r < end_)
        p_.denominator[(b_ * p_.a.heads + h_) * p_.a.n + r] = denominator;
    }
    __syncthreads();
  }

  __device__ void store_rows() {
    T* const out = p_.out + b_ * p_.out_batch_stride + h_ * p_.out_head_stride;
    const T* const row_terms =
        p_.row_terms ? p_.row_terms + (b_ * p_.a.heads + h_) * p_.a.n : nullptr;
    sums_.for_pieces([&](int row, int column, Pack<T, piece<T>>& pack) {
      const std::int64_t r = begin_ + row;
      const PackPlace<piece<T>> place(column_ + column, p_.c.width);
      if (r >= end_ || place.is_empty()) return;
      if (p_.adds_sums)
        add_scaled(row_terms ? row_terms[r] : T{1}, load(sums_of_moments(), place), pack);
      if (p_.denominator) {
#pragma unroll
        for (int i = 0; i < piece<T>; ++i) pack[i] *= shared_.totals[row];
      }
      if (p_.initial.data) add_scaled(T{1}, load(p_.initial.row(b_, h_, r), place), pack);
      store(pack, out + r * p_.out_row_stride, place);
    });
  }

  __device__ static void add_scaled(T factor, const Pack<T, piece<T>>& x, Pack<T, piece<T>>& to) {
#pragma unroll
    for (int i = 0; i < piece<T>; ++i) to[i] = fma(factor, x[i], to[i]);
  }

  const ApplyArguments<T>& p_;
  ApplyShared<T>& shared_;
  std::int64_t b_, h_, group_;
  std::int64_t own_;  // number of the tile among the own ones; -1: a leading one
  std::int64_t begin_, end_, column_;
  Sums<T> sums_;
  T total_ = 0;
};

template <class T>
__global__ void __launch_bounds__(product_threads, blocks_resident)
    apply_kernel(ApplyArguments<T> p) {
  __shared__ ApplyShared<T> shared;
  Apply<T>(p, shared).run();
}

// ---- before the backward pass of normalized attention

/// inverse[i] = 1 / denominator[i], or 0, and terms[i] = -inverse[i] <grad_out_i, out_i>, for all
/// rows of [B, H, Nq].
template <class T>
__global__ void __launch_bounds__(most_in_team)
    normalization_kernel(Heads<T> out, Heads<T> grad_out, const T* denominator, std::int64_t n_rows,
                         T* inverse, T* terms) {
  constexpr int width = pack_width<T>;
  const std::int64_t r = row_of_team();
  T sum = 0;
  if (r < n_rows) {
    const std::int64_t i = r % out.n, h = r / out.n % out.heads, b = r / out.n / out.heads;
    const T *const y = out.row(b, h, i), *const dy = grad_out.row(b, h, i);
    for_packs_of_row<width>(out.width, pack_shift<width>(y), [&](PackPlace<width> place) {
      const auto a = load(y, place), d = load(dy, place);
#pragma unroll
      for (int k = 0; k < width; ++k) sum = fma(a[k], d[k], sum);
    });
  }
  sum = team_sum(sum);
  if (r >= n_rows || threadIdx.x != 0) return;
  inverse[r] = denominator[r] == 0 ? T{0} : 1 / denominator[r];
  terms[r] = -inverse[r] * sum;
}

// ---- launches

/// Sizes of one call.
struct LinearShape {
  explicit LinearShape(const LinearAttentionInputs& in)
      : batch(in.q.size(0)),
        heads(in.q.size(1)),
        groups(in.k.size(1)),
        n_q(in.q.size(2)),
        n_k(in.k.size(2)),
        m(in.q.size(3)),
        dv(in.v.size(3)),
        lead(in.causal ? n_k - n_q : n_k),
        own(in.causal ? n_q : 0) {}

  std::int64_t batch, heads, groups, n_q, n_k, m, dv;
  std::int64_t lead, own;  // keys

  /// Of `lead` positions and the own ones. Moments of a span take as much memory as Dv rows of k:
  /// own spans are that long, and there are just enough leading ones to fill a device.
  Spans spans(std::int64_t lead_positions) const {
    constexpr std::int64_t blocks = 512;
    const std::int64_t tiles = std::max<std::int64_t>(
        1, batch * groups * ceil_div(m, std::int64_t{tile}) * ceil_div(dv, std::int64_t{tile}));
    const std::int64_t n_lead = ceil_div(blocks, tiles);
    return {lead_positions, own,
            round_up(std::max<std::int64_t>(1, ceil_div(lead_positions, n_lead)), tile),
            tile * (dv > 2 * tile          ? 4
                    : m * dv > tile * tile ? 2
                                           : 1)};
  }
};

/// The moments before, or behind, each span, in the memory that they lie in.
template <class T>
class SpanMoments {
 public:
  SpanMoments(const LinearShape& shape, const Spans& spans, const Heads<T>& x, const Heads<T>& y,
              const T* weights, bool has_sums, bool from_behind, Device device) {
    const std::int64_t size = shape.m * shape.dv + (has_sums ? shape.m : 0);
    const std::int64_t matrices = shape.batch * shape.groups, count = spans.count();
    memory_ = Tensor::empty({matrices, count + 1, size}, dtype_of<T>(), device);
    moments_ = {memory_.data<T>(), shape.groups, count, shape.m, shape.dv, size};
    const MomentsArguments<T> p{x, y, weights, has_sums, spans, moments_};
    // Without values, there is still a block for the sums.
    const std::int64_t columns = std::max<std::int64_t>(shape.dv, has_sums ? 1 : 0);
    launch(moments_kernel<T>,
           {.grid = dim3(static_cast<unsigned>(matrices * count * ceil_div(shape.m, tile)),
                         static_cast<unsigned>(ceil_div(columns, tile))),
            .block = dim3(product_threads)},
           p);
    launch(scan_kernel<T>, for_elements(matrices * size), moments_, matrices * size, from_behind);
  }
  const Moments<T>& moments() const { return moments_; }

 private:
  Tensor memory_;
  Moments<T> moments_;
};

template <class T>
void launch_apply(const LinearShape& shape, ApplyArguments<T> p, const Tensor& out) {
  p.out = out.data<T>();
  p.out_batch_stride = out.stride(0);
  p.out_head_stride = out.stride(1);
  p.out_row_stride = out.stride(2);
  const std::int64_t tiles = ceil_div(p.lead, tile) + ceil_div(p.own, tile);
  const std::int64_t columns = std::max<std::int64_t>(p.c.width, p.denominator ? 1 : 0);
  launch(apply_kernel<T>,
         {.grid = dim3(static_cast<unsigned>(shape.batch * p.a.heads * tiles),
                       static_cast<unsigned>(ceil_div(columns, tile))),
          .block = dim3(product_threads)},
         p);
}

template <class T>
void linear_attention(const LinearAttentionInputs& in, const Tensor& out,
                      const Tensor& denominator) {
  const LinearShape shape(in);
  const Spans spans = shape.spans(shape.lead);
  const Heads<T> q(in.q), k(in.k), v(in.v);
  const SpanMoments<T> before(shape, spans, k, v, nullptr, in.normalized, false, in.q.device());
  ApplyArguments<T> p{};
  p.a = q;
  p.b = k;
  p.c = v;
  p.lead = shape.n_q - shape.own;
  p.own = shape.own;
  p.own_span = spans.own_span;
  p.pair_lead = shape.lead;
  p.first_own_span = spans.n_lead();
  p.moments = before.moments();
  p.denominator = in.normalized ? denominator.data<T>() : nullptr;
  p.eps = static_cast<T>(in.eps);
  if (in.initial.defined()) p.initial = Heads<T>(in.initial);
  launch_apply(shape, p, out);
}

/// With n_i = grad_out_i / denominator_i and e_i = -<grad_out_i, out_i> / denominator_i:
///   dq_i = sum_j (<n_i, v_j> + e_i) k_j,  dv_j = sum_i <q_i, k_j> n_i,
///   dk_j = sum_i (<n_i, v_j> + e_i) q_i
/// over the pairs where i sees j; without normalisation, n_i = grad_out_i and e_i = 0.
template <class T>
class LinearBackward {
 public:
  LinearBackward(const LinearAttentionInputs& in, const Tensor& out, const Tensor& denominator,
                 const Tensor& grad_out)
      : shape_(in), is_normalized_(in.normalized), q_(in.q), k_(in.k), v_(in.v), n_(grad_out) {
    if (!is_normalized_) return;
    const std::int64_t n_rows = denominator.numel();
    normalization_ = Tensor::empty({2, n_rows}, in.q.dtype(), in.q.device());
    T* const inverse = normalization_.data<T>();
    terms_ = inverse + n_rows;
    launch(normalization_kernel<T>, for_teams(n_rows, ceil_div(shape_.dv, pack_width<T>)),
           Heads<T>(out), n_, denominator.data<T>(), n_rows, inverse, inverse + n_rows);
    n_.factors = inverse;
  }

  void query_gradients(const Tensor& grad_q) const {
    const Spans spans = shape_.spans(shape_.lead);
    const SpanMoments<T> before(shape_, spans, k_, v_, nullptr, is_normalized_, false,
                                grad_q.device());
    ApplyArguments<T> p = arguments(spans, before);
    p.a = n_;
    p.b = v_;
    p.c = k_;
    p.lead = shape_.n_q - shape_.own;
    p.pair_lead = shape_.lead;
    p.is_transposed = true;
    p.adds_sums = is_normalized_;
    p.row_terms = terms_;
    launch_apply(shape_, p, grad_q);
  }

  void key_gradients(const Tensor& grad_k, const Tensor& grad_v) const {
    const Spans spans = shape_.spans(shape_.n_q - shape_.own);
    const SpanMoments<T> behind(shape_, spans, q_, n_, terms_, is_normalized_, true,
                                grad_k.device());
    ApplyArguments<T> p = arguments(spans, behind);
    p.is_behind = true;
    p.lead = shape_.lead;
    p.a = k_;
    p.b = q_;
    p.c = n_;
    launch_apply(shape_, p, grad_v);
    p.a = v_;
    p.b = n_;
    p.c = q_;
    p.is_transposed = true;
    p.adds_sums = is_normalized_;
    p.pair_terms = terms_;
    launch_apply(shape_, p, grad_k);
  }

 private:
  ApplyArguments<T> arguments(const Spans& spans, const SpanMoments<T>& moments) const {
    ApplyArguments<T> p{};
    p.own = shape_.own;
    p.own_span = spans.own_span;
    p.first_own_span = spans.n_lead();
    p.moments = moments.moments();
    return p;
  }

  LinearShape shape_;
  bool is_normalized_;
  Heads<T> q_, k_, v_, n_;
  Tensor normalization_;
  const T* terms_ = nullptr;  // e, [B, H, Nq]; null unless normalized
};

class CudaLinearAttention final : public LinearAttentionKernels {
 public:
  void linear_attention(const LinearAttentionInputs& in, const Tensor& out,
                        const Tensor& denominator) override {
    dispatch_real("linear_attention", in.q.dtype(),
                  [&]<class T>(TypeTag<T>) { cuda::linear_attention<T>(in, out, denominator); });
  }

  void linear_attention_backward(const LinearAttentionInputs& in, const Tensor& out,
                                 const Tensor& denominator, const Tensor& grad_out,
                                 const LinearAttentionGrads& grads) override {
    dispatch_real("linear_attention_backward", in.q.dtype(), [&]<class T>(TypeTag<T>) {
      const LinearBackward<T> backward(in, out, denominator, grad_out);
      backward.query_gradients(grads.q);
      backward.key_gradients(grads.k, grads.v);
    });
  }
};

}  // namespace
}  // namespace cuda

LinearAttentionKernels& cuda_linear_attention_kernels() {
  return only<cuda::CudaLinearAttention>();
}

}  // namespace mobius
