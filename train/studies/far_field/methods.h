// Far fields that the study compares: those of the layer, and candidates that are not in it.
// Legend: M features, d dimension of a head, m landmarks.
#pragma once

#include <memory>

#include "nn/attention/conformal/conformal.h"
#include "nn/attention/conformal/far_field.h"
#include "train/studies/far_field/samples.h"

namespace mobius {

/// Returns m centres of the directions of keys [1, 1, n, d] by `n_rounds` rounds of spherical
/// k-means, from m of the keys. A centre without keys stays where it is.
Tensor cluster_centres(const Tensor& keys, std::int64_t m, std::int64_t n_rounds,
                       std::uint64_t seed);

/// Returns the radius that a share of the sample's queries stay below.
double radius_quantile(const HeadSample& sample, double share);

/// Degrees 0 and 1 exactly, and landmarks for what they leave of the kernel: the exact degrees are
/// control variates. `landmarks` is [1, 1, m, d].
std::unique_ptr<FarField> control_variates(const ConformalKernel& kernel, const Tensor& landmarks,
                                           double r_far, double ridge);

/// Degrees 0 and 1 exactly, and degree 2 in the n_directions leading directions of keys
/// [1, 1, n, d].
std::unique_ptr<FarField> leading_quadrupole(const ConformalKernel& kernel, const Tensor& keys,
                                             std::int64_t n_directions);

/// Moves landmarks [1, 1, m, d] by n_steps of Adam towards the least mean square error of the
/// kernel of unit mean, over queries and keys of the sample's other sequence.
Tensor learned_landmarks(const HeadSample& sample, const ConformalKernel& kernel,
                         const Tensor& start, double r_far, double ridge, std::int64_t n_steps);

/// What a far field loses on a sample, in causal attention with a window of exact keys.
struct FarError {
  double output = 0;   // |out - exact| / |exact| over all positions
  double query = 0;    // the same for one position, in the mean over the positions
  double weights = 0;  // of the weights: the expected error of the output if values are independent
};

FarError error_of(const FarField& far_field, const HeadSample& sample,
                  const ConformalKernel& kernel, std::int64_t window);
/// The same where far keys are left out.
FarError error_of_window(const HeadSample& sample, const ConformalKernel& kernel,
                         std::int64_t window);

/// Returns the least `weights` error that any M features can have on these very keys: of the
/// weights of late queries on early keys, a rectangle that the far field must fill, all but the M
/// largest singular values are lost (Eckart and Young 1936).
double least_weights_error(const HeadSample& sample, const ConformalKernel& kernel,
                           std::int64_t window, std::int64_t n_features);

/// Returns the least `weights` error that any M features can have that are fixed before the keys
/// are drawn uniformly from the sphere (least_error()), given what is lost without a far field.
double least_fixed_error(const HeadSample& sample, const ConformalKernel& kernel,
                         double window_error, std::int64_t n_features);

/// Returns the least error that any M features can have that are fixed before the sequence is
/// known, between all queries and keys of the sample's other sequences, where every query counts
/// alike.
double least_pooled_error(const HeadSample& sample, const ConformalKernel& kernel,
                          std::int64_t n_features);

/// Operations of one query, forward, with M features, relative to the exact window alone:
/// products, sums and the solve of landmarks.
double cost_of(const FarField& far_field, bool has_landmarks, std::int64_t d, std::int64_t window);

}  // namespace mobius
