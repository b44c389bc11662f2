// Times causal attention alone, forward and backward or forward alone: one kind of attention at one
// length, by the functions in nn/attention/, including the work around the kernel. Prints one JSON
// line; see bench/README.md for the arguments, the contract, and the PyTorch peer.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/process_memory.h"
#include "bench/timing.h"
#include "core/parallel.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"

namespace {

using namespace mobius;

struct Arguments {
  std::string kernel = "softmax";
  std::int64_t batch = 4, heads = 8, head_dim = 64, seq_len = 1024;
  double warm_s = 1, time_s = 2;
  std::size_t calls = 3;
  bool forward_only = false;
  Machine machine;
};

// A kind of attention with its inputs and sizes.
struct Kernel {
  std::int64_t qk_dim;  // width of queries and keys
  double gflop;         // of the seven products over the visible pairs; 0 if there are none
  std::function<Variable(const HeadInputs& in)> attend;
  std::vector<Variable> parameters = {};  // trained with q, k and v
};

const AttentionMask causal{.causal = true};

double as_double(std::int64_t n) { return static_cast<double>(n); }

// Of the seven products, four are qk_dim wide (the scores, computed forward and backward, dq and
// dk) and three head_dim wide (out, dv, dw); one of each kind is of the forward pass. A
// multiply-add is two flop.
double products_gflop(const Arguments& a, std::int64_t qk_dim, double pairs) {
  const std::int64_t width = a.forward_only ? qk_dim + a.head_dim : 4 * qk_dim + 3 * a.head_dim;
  return 2e-9 * as_double(a.batch * a.heads) * pairs * as_double(width);
}

// Returns half the square.
double causal_pairs(const Arguments& a) { return as_double(a.seq_len * a.seq_len) / 2; }

// Makes one number per head.
Variable per_head(const Arguments& a, double value) {
  return Variable(Tensor::full({a.heads, 1, 1}, value, DType::f32, a.machine.device()),
                  /*requires_grad=*/true);
}

Variable attend(const Arguments& a, AttentionCall call) {
  call.spec.precision = a.machine.precision;
  return attention(call);
}

Kernel softmax(const Arguments& a) {
  return {.qk_dim = a.head_dim,
          .gflop = products_gflop(a, a.head_dim, causal_pairs(a)),
          .attend = [=](const HeadInputs& in) { return attend(a, softmax_call(in)); }};
}

// The newton kernel, including the map of q, k and a learned alpha to the ball.
Kernel conformal(const Arguments& a, ConformalNormalize normalize) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, a.head_dim);
  const Variable alpha = per_head(a, 1);
  return {.qk_dim = a.head_dim,
          .gflop = products_gflop(a, a.head_dim, causal_pairs(a)),
          .attend =
              [=](const HeadInputs& in) {
                return attend(a, conformal_call(in, alpha, kernel, normalize));
              },
          .parameters = {alpha}};
}

// The same near the query, with 48 learned landmarks or the kernel's lowest degrees beyond.
Kernel conformal_hierarchical(const Arguments& a, FarFieldKind kind) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, a.head_dim);
  const Variable alpha = per_head(a, 1);
  FarFieldOptions far;
  far.kind = kind;
  if (kind == FarFieldKind::landmarks) far.landmark_source = LandmarkSource::learned;
  const auto builder = make_far_field_builder(
      far, kernel, /*alpha=*/1, a.heads,
      Initializer(/*seed=*/1, /*std=*/1, /*orthogonal=*/false, DType::f32, a.machine.device()));
  std::vector<Variable> parameters{alpha};
  for (const Module::NamedParameter& parameter : builder->parameters())
    parameters.push_back(parameter.value);
  return {.qk_dim = a.head_dim,
          .gflop = 0,
          .attend =
              [=, window = ConformalHierarchicalOptions().window](const HeadInputs& in) {
                const BallPoints points = embed_in_ball(in.q, in.k, alpha, kernel.s);
                return attention(hierarchical_call(in, points, *builder->build(points.zeta), kernel,
                                                   ConformalNormalize::analytic, window));
              },
          .parameters = parameters};
}

// Takes [mu ; raw sigma], with RoPE and a learned tau.
Kernel w2(const Arguments& a) {
  const Variable tau = per_head(a, 16);
  return {
      .qk_dim = 2 * a.head_dim,
      .gflop = products_gflop(a, 2 * a.head_dim, causal_pairs(a)),
      .attend =
          [=](const HeadInputs& in) { return attend(a, w2_call(in, tau, /*rope_base=*/10000)); },
      .parameters = {tau}};
}

// Like w2, but its scores are products of the head dimension.
Kernel w2_overlap(const Arguments& a) {
  return {.qk_dim = 2 * a.head_dim,
          .gflop = products_gflop(a, a.head_dim, causal_pairs(a)),
          .attend = [=](const HeadInputs& in) {
            return attend(a, w2_overlap_call(in, /*rope_base=*/10000));
          }};
}

Kernel linear_kernel(const Arguments& a) {
  return {.qk_dim = a.head_dim, .gflop = 0, .attend = [](const HeadInputs& in) {
            return attention(linear_call(in));
          }};
}

Kernel performer(const Arguments& a) {
  const Tensor omega =
      orthogonal_gaussian(PerformerOptions().n_features, a.head_dim, {1, 5}, DType::f32)
          .to(a.machine.device());
  return {.qk_dim = a.head_dim, .gflop = 0, .attend = [=](const HeadInputs& in) {
            return attention(performer_call(in, omega));
          }};
}

Kernel sparse(const Arguments& a, SparsePattern pattern) {
  const SparseSelection selection{.pattern = pattern};
  const double window = as_double(std::min(selection.window, a.seq_len));
  const double pairs = window * (as_double(a.seq_len) - (window - 1) / 2);
  return {.qk_dim = a.head_dim,
          .gflop = pattern == SparsePattern::local ? products_gflop(a, a.head_dim, pairs) : 0,
          .attend = [=](const HeadInputs& in) { return attend(a, sparse_call(in, selection)); }};
}

using KernelFactory = std::function<Kernel(const Arguments&)>;

KernelFactory conformal_by(ConformalNormalize normalize) {
  return [=](const Arguments& a) { return conformal(a, normalize); };
}

KernelFactory hierarchical_by(FarFieldKind kind) {
  return [=](const Arguments& a) { return conformal_hierarchical(a, kind); };
}

KernelFactory sparse_by(SparsePattern pattern) {
  return [=](const Arguments& a) { return sparse(a, pattern); };
}

std::map<std::string, KernelFactory> kernels() {
  return {{"softmax", softmax},
          {"conformal", conformal_by(ConformalNormalize::analytic)},
          {"conformal_none", conformal_by(ConformalNormalize::none)},
          {"conformal_empirical", conformal_by(ConformalNormalize::empirical)},
          {"conformal_hierarchical", hierarchical_by(FarFieldKind::landmarks)},
          {"conformal_degrees", hierarchical_by(FarFieldKind::degrees)},
          {"w2", w2},
          {"w2_overlap", w2_overlap},
          {"linear", linear_kernel},
          {"performer", performer},
          {"sparse_local", sparse_by(SparsePattern::local)},
          {"sparse_strided", sparse_by(SparsePattern::strided)},
          {"sparse_topk", sparse_by(SparsePattern::topk)}};
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::vector<std::string> names;
  for (const auto& [name, factory] : kernels()) names.push_back(name);
  CLI::App app{"Times one kind of causal attention, forward and backward."};
  app.add_option("--kernel", a.kernel)->check(CLI::IsMember(names));
  app.add_option("--batch", a.batch);
  app.add_option("--heads", a.heads);
  app.add_option("--head-dim", a.head_dim);
  app.add_option("--seq-len", a.seq_len);
  app.add_option("--warm-s", a.warm_s, "warm up for at least this long, and two calls");
  app.add_option("--time-s", a.time_s, "time calls for at least this long");
  app.add_option("--calls", a.calls, "and at least so many; if 1, warm up by time alone");
  app.add_flag("--forward", a.forward_only, "time the forward pass alone");
  add_machine_options(app, a.machine);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

std::vector<double> time_attention(const Arguments& a, const Kernel& kernel) {
  const Device device = a.machine.device();
  // [B, H, N, D] with the layout of a model: heads are interleaved in memory.
  const auto heads = [&](std::int64_t width, std::uint64_t stream) {
    return random_normal({a.batch, a.seq_len, a.heads, width}, 0, 1, {1, stream}, DType::f32,
                         device)
        .transpose(1, 2);
  };
  const bool has_backward = !a.forward_only;
  Variable q(heads(kernel.qk_dim, 1), has_backward), k(heads(kernel.qk_dim, 2), has_backward);
  Variable v(heads(a.head_dim, 3), has_backward);
  const Tensor grad = heads(a.head_dim, 4);
  std::vector<Variable> leaves = kernel.parameters;
  leaves.insert(leaves.end(), {q, k, v});
  const auto call = [&] {
    for (Variable& leaf : leaves) leaf.zero_grad();
    const Variable out = kernel.attend({.q = q, .k = k, .v = v, .mask = causal});
    if (has_backward) backward(out, grad);
    wait_for(device);
  };
  time_calls(call, a.warm_s, a.calls > 1 ? 2 : 0);
  return time_calls(call, a.time_s, a.calls);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const double base = resident_mb();
  const Kernel kernel = kernels().at(a.kernel)(a);
  const std::vector<double> ms = time_attention(a, kernel);
  const double memory = peak_mb();  // before the large product
  const double device_memory = device_peak_mb(a.machine.device());
  fmt::print(
      R"({{"name": "Mobius", "kernel": "{}", "precision": "{}", "pass": "{}", "n": {}, "ms": {:.4f}, )"
      R"("ms_min": {:.4f}, "peak_mb": {:.1f}, "base_mb": {:.1f}, "device_mb": {:.1f}, )"
      R"("gflop": {:.3f}, "matmul_gflop_s": {:.1f}, "threads": {}}})"
      "\n",
      a.kernel, a.machine.precision_name(), a.forward_only ? "forward" : "both", a.seq_len,
      ms[ms.size() / 2], ms.front(), memory, base, device_memory, kernel.gflop, matmul_gflop_s(),
      num_threads());
}
