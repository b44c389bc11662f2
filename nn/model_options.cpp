#include "nn/model_options.h"

#include <cmath>

#include "core/error.h"
#include "core/options/validate.h"

namespace mobius {

namespace {

bool heads_fit(const ModelOptions& model) {
  return model.n_heads > 0 && model.d_model % model.n_heads == 0;
}

void require_heads_fit(const ModelOptions& model) {
  if (!heads_fit(model))
    throw ConfigError("n_heads = {} is no divisor of d_model = {}", model.n_heads, model.d_model);
}

}  // namespace

void ModelOptions::describe(Schema& schema) {
  schema.field("d_model", d_model, "width of the residual stream").positive();
  schema.field("n_layers", n_layers, "number of blocks").positive().at_most(4096);
  schema.field("n_heads", n_heads, "attention heads; divides d_model").positive();
  schema
      .field("n_kv_heads", n_kv_heads,
             "heads of keys and values, each shared by equally many heads; divides n_heads; 0: as "
             "many as heads")
      .non_negative();
  schema
      .field("d_ff", d_ff,
             "hidden width of the MLP; 0: 4 d_model for gelu, 8/3 d_model rounded up to a multiple "
             "of 8 for swiglu")
      .non_negative();
  schema.choice("mlp", mlp, {{"gelu", MlpKind::gelu}, {"swiglu", MlpKind::swiglu}},
                "MLP of a block");
  const std::vector<std::pair<std::string, NormKind>> norms = {{"layer_norm", NormKind::layer_norm},
                                                               {"rms_norm", NormKind::rms_norm}};
  schema.choice("norm", norm, norms, "normalisation inside the blocks");
  schema.choice("final_norm", final_norm, norms, "normalisation before the head");
  schema.choice(
      "positions", positions,
      {{"learned", Positions::learned},
       {"rope", Positions::rope},
       {"alibi", Positions::alibi},
       {"relative", Positions::relative},
       {"none", Positions::none}},
      "how positions are told: a learned table, rotary q and k, scores that fall with the distance "
      "(alibi), a learned number by distance, or not at all");
  schema.field("rope_base", rope_base, "base of the rotary frequencies")
      .positive()
      .only_if([this] { return positions == Positions::rope; }, "positions: rope");
  schema
      .field("max_distance", max_distance,
             "largest distance that relative positions tell from larger ones")
      .positive()
      .only_if([this] { return positions == Positions::relative; }, "positions: relative");
  schema.field("bias", bias, "whether the linear layers of the blocks have a bias");
  schema.field("tied_head", tied_head, "whether the head is the embedding table");
  schema.field("dropout", dropout, "dropout after the embedding, attention and MLP")
      .non_negative()
      .below(1);
  schema.field("attention_dropout", attention_dropout, "dropout of the weights of attention")
      .non_negative()
      .below(1);
  schema.choice("init", init, {{"normal", InitKind::normal}, {"orthogonal", InitKind::orthogonal}},
                "initial matrices: N(0, init_std^2) or orthogonal");
  schema.field("init_std", init_std, "standard deviation of initial matrices")
      .positive()
      .only_if([this] { return init == InitKind::normal; }, "init: normal");

  // If two numbers do not fit together, the error names the one that was set.
  const auto blames_heads = [this] { return n_heads != ModelOptions().n_heads; };
  schema.check("n_heads", [this, blames_heads] {
    if (blames_heads()) require_heads_fit(*this);
  });
  schema.check("d_model", [this, blames_heads] {
    if (!blames_heads()) require_heads_fit(*this);
  });
  schema.check("n_kv_heads", [this] {
    if (n_kv_heads < 0 || (n_kv_heads > 0 && n_heads % n_kv_heads != 0))
      throw ConfigError("n_kv_heads = {} is neither 0 nor a divisor of n_heads = {}", n_kv_heads,
                        n_heads);
  });
  schema.check("positions", [this] {
    if (heads_fit(*this) && positions == Positions::rope && head_dim() % 2 != 0)
      throw ConfigError("rope rotates pairs, so d_model / n_heads must be even, got {} / {} = {}",
                        d_model, n_heads, head_dim());
  });
}

// The described values are their own defaults, so a program may set numbers that have no effect.
void ModelOptions::validate() const {
  ModelOptions model = *this;
  mobius::validate(*mobius::describe(model), "model");
}

std::int64_t ModelOptions::hidden_width() const {
  if (d_ff > 0) return d_ff;
  if (mlp == MlpKind::gelu) return 4 * d_model;
  const std::int64_t multiple = 8;
  return (8 * d_model + 3 * multiple - 1) / (3 * multiple) * multiple;
}

double ModelOptions::residual_gain() const {
  return 1 / std::sqrt(2 * static_cast<double>(n_layers));
}

}  // namespace mobius
