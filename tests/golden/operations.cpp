#include "tests/golden/operations.h"

#include <optional>

#include "autograd/ops.h"
#include "core/error.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/w2.h"
#include "nn/language_model.h"
#include "tests/device.h"
#include "tests/nn/sparse_reference.h"

namespace mobius::golden {

namespace {

template <class T>
T named(const std::string& name, const std::map<std::string, T>& values) {
  const auto found = values.find(name);
  if (found == values.end()) throw Error("golden: unknown choice '{}'", name);
  return found->second;
}

ConformalWeight weight_of(const Arguments& a) {
  return named<ConformalWeight>(a.text("weight"), {{"newton", ConformalWeight::newton},
                                                   {"poisson", ConformalWeight::poisson},
                                                   {"jacobian", ConformalWeight::jacobian},
                                                   {"custom", ConformalWeight::custom}});
}

ConformalNormalize normalize_of(const Arguments& a) {
  return named<ConformalNormalize>(a.text("normalize"),
                                   {{"none", ConformalNormalize::none},
                                    {"analytic", ConformalNormalize::analytic},
                                    {"empirical", ConformalNormalize::empirical}});
}

// The files state s and gamma in every case; only a custom weight takes them.
ConformalKernel kernel_of(const Arguments& a, std::int64_t d) {
  const ConformalWeight weight = weight_of(a);
  if (weight != ConformalWeight::custom) return conformal_kernel(weight, d);
  return conformal_kernel(weight, d, a.number("s"), a.number("gamma"));
}

AttentionMask mask_of(const Arguments& a) {
  return {.causal = a.flag("causal"), .mask = a.has("mask") ? a.tensor("mask") : Tensor()};
}

Variable parameter_of(const Module& module, const std::string& name) {
  for (const Module::NamedParameter& parameter : module.parameters())
    if (parameter.name == name) return parameter.value;
  throw Error("golden: the module has no parameter '{}'", name);
}

std::unique_ptr<AttentionOptions> options_of(const std::string& kind) {
  return builtin_attentions().choose(kind).options;
}

// An attention layer without biases; its initial values are about to be overwritten.
std::shared_ptr<Attention> build_layer(const AttentionOptions& options, const Arguments& a,
                                       Positions positions) {
  ModelOptions model;
  model.d_model = a["x"].size(-1);
  model.n_heads = a.integer("n_heads");
  model.bias = false;
  model.positions = positions;
  if (a.has("rel")) model.max_distance = (a["rel"].size(0) - 1) / 2;
  return options.build({.model = model,
                        .init = Initializer(/*seed=*/0, /*std=*/1, /*orthogonal=*/false, a.dtype(),
                                            testing::device())});
}

// ---- parts

Outputs run_rope(Arguments& a) {
  return {{"y", rope(a["x"], a.number("base"), a.integer("offset"))}};
}

Outputs run_rms_norm(Arguments& a) {
  return {{"y", rms_norm(a["x"], a["weight"], a.number("eps"))}};
}

Outputs run_layer_norm(Arguments& a) {
  return {{"y", layer_norm(a["x"], a["weight"], a["bias"], a.number("eps"))}};
}

Outputs run_swiglu(Arguments& a) {
  const Initializer init(/*seed=*/0, /*std=*/1, /*orthogonal=*/false, a.dtype(), testing::device());
  const Mlp mlp(init, MlpKind::swiglu, {a["w_gate"].size(1), a["w_gate"].size(0), false, 1});
  for (const std::string name : {"w_gate", "w_up", "w_down"})
    a.load(name, parameter_of(mlp, name + ".weight"));
  return {{"y", mlp.forward(a["x"])}};
}

Outputs run_cross_entropy(Arguments& a) {
  const Variable logits = a["logits"];
  const Labels labels("labels", a.tensor("labels"), logits.size(1));
  return {{"loss", cross_entropy(logits, labels).loss}};
}

Outputs run_adamw(Arguments& a) {
  const Tensor p = a.tensor("p0").clone();
  const Tensor m = p.zeros_like(), v = p.zeros_like();
  const Tensor& grads = a.tensor("grads");
  for (std::int64_t step = 0; step < grads.size(0); ++step) {
    const ParameterUpdate update = {
        grads.slice(0, step, step + 1).squeeze(0).contiguous(), p, {m, v}};
    const std::vector<double> scalars = {a.number("lr"), static_cast<double>(step + 1), 1, 0, 0, 0};
    adamw({.beta1 = a.number("beta1"),
           .beta2 = a.number("beta2"),
           .eps = a.number("eps"),
           .weight_decay = a.number("weight_decay")},
          std::span(&update, 1), placed::from(scalars, {UpdateScalar::count}));
  }
  return {{"p", Variable(p)}};
}

// ---- geometry

Outputs run_log_normalizer(Arguments& a) {
  return {{"log_z", log_normalizer({.r = a["r"], .one_minus_r = affine(a["r"], -1, 1)},
                                   kernel_of(a, a.integer("d")))}};
}

Outputs run_beta_to_radius(Arguments& a) {
  return {{"r", beta_to_radius(a["beta"], kernel_of(a, a.integer("d")).s).r}};
}

Outputs run_jspace_embed(Arguments& a) {
  const ConformalKernel kernel = kernel_of(a, a.integer("d"));
  const BallPoints points = embed_in_ball(a["q"], a["k"], a["alpha"], kernel.s);
  return {{"r", points.radius.r}, {"qhat", points.qhat}, {"zeta", points.zeta}};
}

Outputs run_resolution_limit(Arguments& a) {
  const double s = kernel_of(a, a.integer("d")).s;
  const double limit = resolution_limit(a.number("delta"), a.number("n"), s);
  return {{"r_n", Variable(placed::full({1}, limit, a.dtype()))}};
}

// ---- attention

HeadInputs heads_of(Arguments& a) {
  return {.q = a["q"], .k = a["k"], .v = a["v"], .mask = mask_of(a), .products = a.products()};
}

Outputs run_softmax_attention(Arguments& a) {
  return {{"out", attention(softmax_call(heads_of(a)))}};
}

Outputs run_conformal_attention(Arguments& a) {
  return {{"out", attention(conformal_call(heads_of(a), a["alpha"], kernel_of(a, a["q"].size(-1)),
                                           normalize_of(a)))}};
}

Outputs run_linear_attention(Arguments& a) {
  if (a.number("eps") != linear_attention_eps) throw Error("golden: another eps than ours");
  return {{"out", attention(linear_call(heads_of(a)))}};
}

Outputs run_performer_attention(Arguments& a) {
  // The file is computed without the small numbers that keep sums off 0.
  return {{"out", attention(performer_call(heads_of(a), a.tensor("omega"),
                                           {.feature = 0, .denominator = 0}))}};
}

Outputs run_sparse_attention(Arguments& a) {
  SparseSelection selection{
      .pattern = named<SparsePattern>(a.text("pattern"), {{"local", SparsePattern::local},
                                                          {"strided", SparsePattern::strided},
                                                          {"topk", SparsePattern::topk}})};
  // The file has a number for every key, of which a pattern takes only its own.
  if (selection.pattern == SparsePattern::topk) {
    selection.topk = a.integer("topk");
  } else {
    selection.window = a.integer("window");
  }
  if (selection.pattern == SparsePattern::strided) {
    selection.stride = a.integer("stride");
    selection.n_global = a.integer("n_global");
  }
  const HeadInputs in = heads_of(a);
  return {{"out", attention(sparse_call(in, selection))},
          {"allow", Variable(testing::sparse_allowed(in, selection).to(a.dtype()))}};
}

// The file keeps landmarks, keys and queries as matrices; here they are those of one head.
Variable as_head(const Variable& x) { return reshape(x, {1, 1, x.size(0), x.size(1)}); }
Variable as_matrix(const Variable& x) { return reshape(x, {x.size(2), x.size(3)}); }

Outputs run_landmark_basis(Arguments& a) {
  // gamma and d cancel from Kt.
  const ConformalKernel kernel =
      conformal_kernel(ConformalWeight::custom, a["xi"].size(1), a.number("s"));
  const LandmarkBasis basis(as_head(a["xi"]), kernel, a.number("r_far"), a.number("ridge"));
  const Variable r = as_head(a["r"]);
  return {{"features", as_matrix(basis.features(as_head(a["zeta"])))},
          {"coeffs",
           as_matrix(basis.coeffs(as_head(a["qhat"]), {.r = r, .one_minus_r = affine(r, -1, 1)}))}};
}

Outputs run_hierarchical_attention(Arguments& a) {
  HeadInputs in{.q = a["q"], .k = a["k"], .v = a["v"], .mask = {.causal = true}};
  const ConformalKernel kernel = conformal_kernel(weight_of(a), in.q.size(-1));
  const LandmarkBasis basis(as_head(a["xi"]), kernel, a.number("r_far"), a.number("ridge"));
  const BallPoints points = embed_in_ball(in.q, in.k, a["alpha"], kernel.s);
  return {{"out", attention(hierarchical_call(in, points, basis, kernel, normalize_of(a),
                                              a.integer("window")))}};
}

// Weights of one radius, or of one inverse temperature, over all keys.
Outputs run_exact_attention(Arguments& a) {
  const HeadInputs in{.q = as_head(a["qhat"]), .k = as_head(a["zeta"]), .v = as_head(a["v"])};
  if (a.text("kernel") == "softmax") {
    AttentionCall call = product_call(in);
    call.spec.scale = a.number("beta");
    return {{"out", as_matrix(attention(call))}};
  }
  const std::int64_t n_q = in.q.size(2);
  const auto every_query = [&](double x) {
    return Variable(placed::full({1, 1, n_q, 1}, x, a.dtype()));
  };
  const double r = a.number("r");
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, in.q.size(3));
  if (kernel.s != a.number("s")) throw Error("golden: another exponent than Newton's");
  const BallPoints points{
      .radius = {every_query(r), every_query(1 - r)}, .qhat = in.q, .zeta = in.k};
  return {{"out", as_matrix(attention(conformal_call(in, points, visible_counts(in), kernel,
                                                     ConformalNormalize::analytic)))}};
}

Outputs run_conformal_mha(Arguments& a) {
  ConformalOptions options;
  options.weight = weight_of(a);
  options.normalize = normalize_of(a);
  const std::shared_ptr<Attention> layer =
      build_layer(options, a, a.flag("rope") ? Positions::rope : Positions::none);
  a.load("w_qkv", parameter_of(*layer, "qkv.weight"));
  a.load("w_proj", parameter_of(*layer, "proj.weight"));
  a.load("raw_alpha", parameter_of(*layer, "raw_alpha"));
  return {{"out", layer->forward(a["x"], mask_of(a), {})}};
}

// q, k and v stand in one matrix here, in three in the file, where w2_overlap has a tau, unused.
void load_attention(Arguments& a, const std::string& in, const Module& module,
                    const std::string& at) {
  const Variable qkv = parameter_of(module, at + "qkv.weight");
  const std::int64_t q_width = a[in + "w_q"].size(0);
  a.load(in + "w_q", qkv, 0);
  a.load(in + "w_k", qkv, q_width);
  a.load(in + "w_v", qkv, 2 * q_width);
  a.load(in + "w_o", parameter_of(module, at + "proj.weight"));
  if (a.text("kind") == "w2") a.load(in + "raw_tau", parameter_of(module, at + "raw_tau"));
}

Outputs run_attention_layer(Arguments& a) {
  const auto positions = named<Positions>(a.text("position"), {{"rope", Positions::rope},
                                                               {"alibi", Positions::alibi},
                                                               {"relative", Positions::relative},
                                                               {"none", Positions::none}});
  const std::shared_ptr<Attention> layer = build_layer(*options_of(a.text("kind")), a, positions);
  load_attention(a, "", *layer, "");
  if (positions == Positions::relative) a.load("rel", parameter_of(*layer, "relative"));
  return {{"out", layer->forward(a["x"], mask_of(a), {})}};
}

// ---- the whole model

Outputs run_language_model(Arguments& a) {
  ModelOptions options;
  options.d_model = a.integer("d_model");
  options.n_layers = a.integer("n_layers");
  options.n_heads = a.integer("n_heads");
  options.d_ff = a.integer("d_ff");
  options.mlp = MlpKind::swiglu;
  options.norm = NormKind::rms_norm;
  options.positions = Positions::rope;
  options.bias = false;
  options.tied_head = false;
  const LanguageModel model(options, *options_of(a.text("kind")), a.integer("vocab"),
                            a.tensor("tokens").size(1), /*init_seed=*/0, a.dtype(),
                            testing::device());

  a.load("embed", parameter_of(model, "embedding.weight"));
  a.load("final_norm_weight", parameter_of(model, "final_norm.weight"));
  a.load("final_norm_bias", parameter_of(model, "final_norm.bias"));
  a.load("lm_head", parameter_of(model, "head.weight"));
  for (std::int64_t layer = 0; layer < options.n_layers; ++layer) {
    const std::string block = fmt::format("blocks.{}.", layer), in = fmt::format("l{}_", layer);
    a.load(in + "attn_norm", parameter_of(model, block + "attention_norm.weight"));
    load_attention(a, in, model, block + "attention.");
    a.load(in + "mlp_norm", parameter_of(model, block + "mlp_norm.weight"));
    for (const std::string name : {"w_gate", "w_up", "w_down"})
      a.load(in + name, parameter_of(model, block + "mlp." + name + ".weight"));
  }
  const Tensor& tokens = a.tensor("tokens");
  return {
      {"logits", model.logits(tokens, {})},
      {"loss",
       model
           .loss(RowIndex("tokens", tokens, model.vocab_size()).to(model.device()),
                 Labels("labels", a.tensor("labels"), model.vocab_size()).to(model.device()), {})
           .loss}};
}

}  // namespace

const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> table = {
      {"adamw", run_adamw},
      {"attention_layer", run_attention_layer},
      {"beta_to_radius", run_beta_to_radius},
      {"conformal_attention", run_conformal_attention},
      {"conformal_mha", run_conformal_mha},
      {"cross_entropy", run_cross_entropy},
      {"exact_attention", run_exact_attention},
      {"hierarchical_attention", run_hierarchical_attention},
      {"jspace_embed", run_jspace_embed},
      {"landmark_basis", run_landmark_basis},
      {"language_model", run_language_model},
      {"layer_norm", run_layer_norm},
      {"linear_attention", run_linear_attention},
      {"log_normalizer", run_log_normalizer},
      {"performer_attention", run_performer_attention},
      {"resolution_limit", run_resolution_limit},
      {"rms_norm", run_rms_norm},
      {"rope", run_rope},
      {"softmax_attention", run_softmax_attention},
      {"sparse_attention", run_sparse_attention},
      {"swiglu", run_swiglu},
  };
  return table;
}

}  // namespace mobius::golden
