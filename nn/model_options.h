// Sizes and choices of a LanguageModel.
#pragma once

#include <cstdint>

#include "core/options/schema.h"
#include "nn/attention/positions.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace mobius {

enum class InitKind { normal, orthogonal };

/// The section `model` of a configuration.
struct ModelOptions {
  std::int64_t d_model = 64;
  std::int64_t n_layers = 2;
  std::int64_t n_heads = 2;
  std::int64_t n_kv_heads = 0;  // heads of keys and values, a divisor of n_heads; 0: n_heads
  std::int64_t d_ff = 0;        // 0: see hidden_width()
  MlpKind mlp = MlpKind::gelu;
  NormKind norm = NormKind::layer_norm;  // inside the blocks
  NormKind final_norm = NormKind::layer_norm;
  Positions positions = Positions::learned;
  double rope_base = 10000;
  std::int64_t max_distance = 128;  // of relative positions: farther keys share one number
  bool bias = true;                 // of the linear layers in the blocks; the head has none
  bool tied_head = true;
  double dropout = 0;            // after the embedding, and after attention and MLP
  double attention_dropout = 0;  // of the weights of attention, where it has them
  InitKind init = InitKind::normal;
  double init_std = 0.02;

  void describe(Schema& schema);
  /// Throws ConfigError if a value is out of range or a combination is impossible.
  void validate() const;

  std::int64_t head_dim() const { return d_model / n_heads; }

  /// The hidden width of the MLPs: d_ff, or if that is 0, 4 d_model for gelu and 8/3 d_model
  /// rounded up to a multiple of 8 for swiglu, whose three matrices are then as large as the two of
  /// gelu.
  std::int64_t hidden_width() const;
  /// 1 / sqrt(2 n_layers): factor on the initial values of the layers that write to the residual
  /// stream, so that its variance does not grow with depth (GPT-2).
  double residual_gain() const;
};

}  // namespace mobius
