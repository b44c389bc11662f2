// The operands of attention by name, and the score maps that there are. Plain enough for a device's
// compiler. Legend: core/ops/attention.h.
#pragma once

namespace mobius {

/// From the product <q_i, k_j> to an unnormalised weight: one file each in core/score_maps/.
enum class ScoreMap {
  /// exp(scale t_i <q_i, k_j> + key_bias_j + distance_bias[p - j])
  dot,
  /// exp(min(g_i - s log a_ij, log_cap)), a_ij = 1 - t_i <q_i, k_j> > 0, q and k of unit length
  conformal
};
inline constexpr ScoreMap score_maps[] = {ScoreMap::dot, ScoreMap::conformal};

enum class WeightNormalizer {
  softmax,  // w / sum_j w, by a running maximum
  none      // w as it is: no reduction over the keys at all
};

/// One X for each operand: a Tensor, a Variable, a gradient, what a kernel holds of a row. A score
/// map takes some of the numbers and refuses the others.
template <class X>
struct AttentionOperands {
  X q{};              // [B, H, Nq, D]
  X k{};              // [B, G, Nk, D]
  X v{};              // [B, G, Nk, Dv]
  X key_bias{};       // [B, G, Nk]
  X distance_bias{};  // [H, Nq + Nk - 1]; pairs with j - i = t - (Nq - 1) read entry t
  X sharpness{};      // t_i, [B, H, Nq]
  X log_factor{};     // g_i, [B, H, Nq]
};

/// What a number belongs to; it determines the shape.
enum class NumberOf { query, key, distance };

struct NumberKind {
  const char* name;
  NumberOf of;
  double absent;  // the value that stands for a number that is not given
};

/// What a score map does with a number.
struct NumberUse {
  bool is_taken = false;
  bool is_required = false;
  bool multiplies_query = false;  // before the products; its gradient comes from that of the query
};
inline constexpr NumberUse optional_number{.is_taken = true};
inline constexpr NumberUse required_number{.is_taken = true, .is_required = true};
inline constexpr NumberUse optional_factor{.is_taken = true, .multiplies_query = true};

}  // namespace mobius
