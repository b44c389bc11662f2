// The model of every experiment: embedding, pre-norm blocks, final norm, head.
#pragma once

#include <memory>
#include <vector>

#include "autograd/ops.h"
#include "nn/attention/attention.h"
#include "nn/module.h"

namespace mobius {

enum class Positions { learned, rope, none };
enum class NormKind { rms_norm, layer_norm };
enum class MlpKind { swiglu, gelu };
enum class InitKind { normal, orthogonal };

/// Sizes and choices of a LanguageModel; the section `model` of a configuration.
struct ModelOptions {
  std::int64_t d_model = 64;
  std::int64_t n_layers = 2;
  std::int64_t n_heads = 2;
  std::int64_t d_ff =
      0;  // 0: 4 d_model for gelu, 8/3 d_model rounded up to a multiple of 8 for swiglu
  MlpKind mlp = MlpKind::gelu;
  NormKind norm = NormKind::layer_norm;  // inside the blocks
  NormKind final_norm = NormKind::layer_norm;
  Positions positions = Positions::learned;
  double rope_base = 10000;
  bool bias = true;  // of linear layers
  bool tied_head = true;
  double dropout = 0;  // after the embedding, and after attention and MLP
  InitKind init = InitKind::normal;
  double init_std = 0.02;

  void describe(Schema& schema);
};

class LanguageModel : public Module {
 public:
  /// vocab_size and max_seq_len come from the task; init_seed makes the initial values.
  LanguageModel(const ModelOptions& model, const AttentionOptions& attention,
                std::int64_t vocab_size, std::int64_t max_seq_len, std::uint64_t init_seed,
                DType dtype = DType::f32, Device device = {});

  /// tokens[B, N] (i32 or i64) -> hidden states [B, N, d_model], normalised, ready for the head.
  Variable hidden(const Tensor& tokens, const ForwardContext& context);
  /// [B, N, V].
  Variable logits(const Tensor& tokens, const ForwardContext& context);
  /// Mean cross-entropy over the labels[B, N] that are not -100; see linear_cross_entropy().
  LossResult loss(const Tensor& tokens, const Tensor& labels, const ForwardContext& context,
                  double normalizer = 0);

  std::int64_t vocab_size() const;
  std::int64_t max_seq_len() const;
  /// One a layer, for diagnostics.
  const std::vector<std::shared_ptr<Attention>>& attentions() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace mobius
