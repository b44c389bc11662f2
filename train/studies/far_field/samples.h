// Queries, keys and values that far fields are tried on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace mobius {

/// The inputs of one head over one sequence, f64 [1, 1, n, d], and its alpha.
struct HeadSample {
  std::string name;
  Tensor q, k, v;
  Tensor other_q, other_k;  // of other sequences, which a far field may be fitted to
  double alpha = 1;
};

/// Independent Gaussian queries, keys and values.
HeadSample random_sample(std::int64_t n, std::int64_t d, double alpha, std::uint64_t seed);

/// Keys and queries near the centres of n_clusters clusters: a centre of length 1 and noise of
/// length `spread`. Values depend on the cluster alone, but for noise of the same share.
HeadSample clustered_sample(std::int64_t n, std::int64_t d, double alpha, std::int64_t n_clusters,
                            double spread, std::uint64_t seed);

/// Trains the model that a configuration describes, without its section `attention`, with conformal
/// attention of this initial alpha, and returns what each head of each layer gets from test
/// sequence 0; the other sequences are the n_others next. `what` begins the names. `before_step` is
/// called as by train_in_memory(). Appends to `words` what became of the training.
std::vector<HeadSample> trained_samples(const std::string& what, const std::string& yaml,
                                        double alpha, std::int64_t n_others,
                                        const std::function<void(std::int64_t step)>& before_step,
                                        std::vector<std::string>& words);

}  // namespace mobius
