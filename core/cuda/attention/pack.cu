// Packing of operands for tensor cores. A thread makes 16 bytes of a packed row.
// Buffers: overwritten (=), padding included.
#include "core/cuda/attention/pack.cuh"
#include "core/cuda/launch.cuh"
#include "core/cuda/reduce.cuh"

namespace mobius::cuda {
namespace {

constexpr int chunk = 8;  // elements of 16 bytes

/// Where the rows of one operand come from and go to.
struct PackJob {
  HeadRows<const float> from;  // [B, heads, n, columns]
  int heads, n, columns;
  bool is_of_queries;  // and to be multiplied by their factors
  __nv_bfloat16* to;   // [B, heads, rows, width]
  int rows, width;
  std::int64_t chunks;
};

PackJob make_job(const Tensor& from, bool is_of_queries, int width, Tensor& memory) {
  const int n = static_cast<int>(from.size(2)), rows = round_up(n, tensor_row_unit);
  const std::int64_t heads = from.size(0) * from.size(1);
  memory = Tensor::empty({heads, rows, width}, DType::bf16, from.device());
  return {.from = HeadRows<const float>(from),
          .heads = static_cast<int>(from.size(1)),
          .n = n,
          .columns = static_cast<int>(from.size(3)),
          .is_of_queries = is_of_queries,
          .to = static_cast<__nv_bfloat16*>(memory.raw()),
          .rows = rows,
          .width = width,
          .chunks = heads * rows * width / chunk};
}

PackedRows packed(const PackJob& job) { return {job.to, job.rows, job.width}; }

/// A chunk of a packed operand.
struct ChunkPosition {
  int b, h, i, column;
  std::int64_t row;  // in [B, heads, rows]

  __device__ ChunkPosition(const PackJob& job, std::int64_t index) {
    const int per_row = job.width / chunk;
    row = index / per_row;
    column = static_cast<int>(index % per_row) * chunk;
    const auto matrix = static_cast<int>(row / job.rows);
    i = static_cast<int>(row % job.rows);
    h = matrix % job.heads;
    b = matrix / job.heads;
  }
};

/// Columns [first, first + 8) of a row of n, zeros past the end.
__device__ void load_chunk(const float* row, int first, int n, float (&x)[chunk]) {
  const float* const from = row + first;
  if (first + chunk <= n && reinterpret_cast<std::uintptr_t>(from) % sizeof(float4) == 0) {
    const float4 low = reinterpret_cast<const float4*>(from)[0];
    const float4 high = reinterpret_cast<const float4*>(from)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    return;
  }
#pragma unroll
  for (int c = 0; c < chunk; ++c) x[c] = first + c < n ? from[c] : 0.0f;
}

__device__ void store_chunk(const float (&x)[chunk], const PackJob& job, const ChunkPosition& at) {
  *reinterpret_cast<uint4*>(job.to + at.row * job.width + at.column) = make_uint4(
      pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
}

struct PackJobs {
  PackJob job[3];
};

/// The jobs' chunks, one after the other.
template <class Map>
__global__ void pack_rows(const Map map, const AttentionProblem<float> p, const PackJobs jobs) {
  std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
#pragma unroll
  for (int s = 0; s < 3; ++s) {
    const PackJob& job = jobs.job[s];
    if (index < 0) return;
    if (index < job.chunks) {
      const ChunkPosition at(job, index);
      float x[chunk] = {};
      if (at.i < job.n) {
        load_chunk(job.from.row(at.b, at.h, at.i), at.column, job.columns, x);
        if (job.is_of_queries) {
          const float factor = query_numbers(map, p, at.b, at.h, at.i).factor;
#pragma unroll
          for (int c = 0; c < chunk; ++c) x[c] *= factor;
        }
      }
      store_chunk(x, job, at);
    }
    index -= job.chunks;
  }
}

/// What becomes the rows of the queries.
struct QueryRowsJob {
  HeadRows<const float> out;
  const float* lse;  // [B, H, Nq], null without a softmax
  float* rows;       // QueryRows
};

/// Writes the row of a query; a query past the last has no weights.
template <class Map>
__device__ void store_query_row(const Map& map, const AttentionProblem<float>& p,
                                const QueryRowsJob& job, std::int64_t kind_stride,
                                const ChunkPosition& at, float mean) {
  const bool exists = at.i < p.n_q;
  float* const to = job.rows + at.row;
  to[QueryRows::log2_sum * kind_stride] =
      exists && job.lse ? job.lse[p.row_of(at.b, at.h, at.i)] * log2_e : INFINITY;
  to[QueryRows::mean * kind_stride] = mean;
  const QueryNumbers<float> query = query_numbers(map, p, at.b, at.h, at.i);
  constexpr AttentionOperands<NumberUse> uses = Map::uses;
  int kind = QueryRows::numbers;
  scores::for_each_number(
      [&](const NumberKind& what, const NumberUse& use, const Number<float>& x) {
        if (what.of == NumberOf::query && use.is_taken && !use.multiplies_query)
          to[kind++ * kind_stride] = x.value;
      },
      uses, query.numbers);
}

/// Packs grad_out, and the rows of the queries with the means <grad_out_i, out_i>, of grad_out as
/// rounded: what products with it are compared with.
template <class Map>
__global__ void pack_gradient_rows(const Map map, const AttentionProblem<float> p,
                                   const PackJob job, const QueryRowsJob rows) {
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  float sum = 0;
  const ChunkPosition at(job, index < job.chunks ? index : 0);
  if (index < job.chunks) {
    float x[chunk] = {}, out[chunk] = {};
    if (at.i < job.n) {
      load_chunk(job.from.row(at.b, at.h, at.i), at.column, job.columns, x);
      load_chunk(rows.out.row(at.b, at.h, at.i), at.column, job.columns, out);
    }
    store_chunk(x, job, at);
#pragma unroll
    for (int c = 0; c < chunk; ++c)
      sum = fmaf(__bfloat162float(__float2bfloat16_rn(x[c])), out[c], sum);
  }
  // The lanes of a row are adjacent, and their number divides that of a warp.
  for (int offset = job.width / chunk / 2; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(all_lanes, sum, offset);
  const std::int64_t kind_stride = job.chunks * chunk / job.width;
  if (index < job.chunks && at.column == 0) store_query_row(map, p, rows, kind_stride, at, sum);
}

/// Rows of numbers, zeros before and behind.
Tensor padded_numbers(const Tensor& x, std::int64_t before, std::int64_t behind) {
  const std::int64_t n = x.size(-1), rows = x.numel() / n;
  const Tensor padded = Tensor::zeros({rows, before + n + behind}, x.dtype(), x.device());
  padded.slice(1, before, before + n).copy_from(x.reshape({rows, n}));
  return padded;
}

/// The numbers of keys and distances with room for whole tiles; `memory` keeps them.
AttentionOperands<const float*> pad_pair_numbers(const AttentionInputs& inputs, int key_rows,
                                                 std::vector<Tensor>& memory) {
  AttentionOperands<const float*> padded;
  scores::for_each_number(
      [&](const NumberKind& kind, const Tensor& x, const float*& to) {
        if (kind.of == NumberOf::query || !x.defined() || x.numel() == 0) return;
        const bool is_of_keys = kind.of == NumberOf::key;
        memory.push_back(is_of_keys ? padded_numbers(x, 0, key_rows - x.size(-1))
                                    : padded_numbers(x, tensor_row_unit, tensor_row_unit));
        to = memory.back().data<float>();
      },
      inputs, padded);
  return padded;
}

}  // namespace

PackedInputs pack_inputs(const AttentionSpec& spec, const AttentionInputs& inputs,
                         TensorWidths widths) {
  std::vector<Tensor> memory(3);
  const AttentionProblem<float> problem(spec, inputs);
  return scores::with_score(spec, [&](auto map, auto is_softmax) -> PackedInputs {
    const PackJobs jobs{{make_job(inputs.q, map.scales_queries, widths.d, memory[0]),
                         make_job(inputs.k, false, widths.d, memory[1]),
                         make_job(inputs.v, false, widths.dv, memory[2])}};
    const std::int64_t chunks = jobs.job[0].chunks + jobs.job[1].chunks + jobs.job[2].chunks;
    launch(pack_rows<decltype(map)>, for_elements(chunks), map, problem, jobs);
    const AttentionOperands<const float*> pair_numbers =
        pad_pair_numbers(inputs, jobs.job[1].rows, memory);
    return {{problem, is_softmax, packed(jobs.job[0]), packed(jobs.job[1]), packed(jobs.job[2]),
             pair_numbers},
            memory};
  });
}

PackedGradients pack_gradients(const AttentionSpec& spec, const TensorCall& call,
                               TensorWidths widths, const Tensor& out, const Tensor& lse,
                               const Tensor& grad_out) {
  std::vector<Tensor> memory(2);
  return scores::with_score(spec, [&](auto map, auto) -> PackedGradients {
    const PackJob job = make_job(grad_out, false, widths.dv, memory[0]);
    const std::int64_t rows = job.chunks * chunk / job.width;
    memory[1] = Tensor::empty({query_kinds<decltype(map)>(), rows}, DType::f32, out.device());
    const QueryRowsJob rows_job{HeadRows<const float>(out),
                                call.is_softmax ? lse.data<float>() : nullptr,
                                memory[1].data<float>()};
    const FastScore<decltype(map)> score(spec);  // whose map prepares numbers as its kernels expect
    launch(pack_gradient_rows<decltype(map)>, for_elements(job.chunks), score.map, call.problem,
           job, rows_job);
    return {packed(job), {memory[1].data<float>(), rows}, memory};
  });
}

}  // namespace mobius::cuda
