#include "train/studies/spectra/matrices.h"

#include <fmt/format.h>

#include <cmath>

#include "core/ops.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"
#include "train/results/numbers.h"
#include "train/studies/kernel_values.h"
#include "train/studies/ranges.h"

namespace mobius {

namespace {

Tensor normal(const Shape& shape, std::uint64_t seed, std::string_view purpose) {
  return random_normal(shape, 0, 1, {seed, stream_id(purpose)}, DType::f64);
}

// x_t = c x_(t-1) + sqrt(1 - c^2) e_t for rows e_t of variance 1, which keeps the variance.
Tensor slow_walk(const Tensor& noise, double c) {
  std::vector<double> rows = noise.to_vector<double>();
  const auto d = static_cast<std::size_t>(noise.size(-1));
  for (std::size_t i = d; i < rows.size(); ++i)
    rows[i] = c * rows[i - d] + std::sqrt(1 - c * c) * rows[i];
  return Tensor::from(rows, noise.shape());
}

// `far_field` makes the far field of the kernel.
template <class Make>
NamedWeights hierarchical(const std::string& name, const SpectrumSettings& in_all, double alpha,
                          const Make& far_field) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, in_all.d);
  return {fmt::format("hierarchical, {}, alpha {}", name, short_number(alpha)),
          [=, window = in_all.window](const HeadInputs& in) {
            const BallPoints points = embed_in_ball(in.q, in.k, f64_scalar(alpha), kernel.s);
            return attention_weights(hierarchical_call(in, points, far_field(kernel), kernel,
                                                       ConformalNormalize::analytic, window))
                .data();
          },
          /*is_causal_only=*/true};
}

std::vector<NamedWeights> hierarchical_variants(const SpectrumSettings& settings,
                                                std::uint64_t seed) {
  const Variable landmarks(normal({1, 1, settings.n_landmarks, settings.d}, seed, "e9 landmarks"));
  std::vector<NamedWeights> all;
  for (const double alpha : settings.alphas) {
    all.push_back(hierarchical("degree 1", settings, alpha, [](const ConformalKernel& kernel) {
      return DegreeBasis(kernel, 1);
    }));
  }
  const double alpha = settings.alphas.front();
  all.push_back(hierarchical(fmt::format("{} landmarks", settings.n_landmarks), settings, alpha,
                             [landmarks, alpha](const ConformalKernel& kernel) {
                               const FarFieldOptions far;
                               return LandmarkBasis(landmarks, kernel,
                                                    far.landmark_radius(kernel, alpha), far.ridge);
                             }));
  return all;
}

// A variant by the call that it makes of q and k.
template <class Call>
NamedWeights by_call(std::string name, const Call& call) {
  return {std::move(name),
          [call](const HeadInputs& in) { return attention_weights(call(in)).data(); }};
}

// Queries and keys as means of Gaussians with equal deviations.
HeadInputs as_gaussians(HeadInputs in) {
  const auto widened = [](const Variable& mu) {
    return concat({mu, Variable(Tensor::zeros(mu.shape(), DType::f64))}, -1);
  };
  in.q = widened(in.q);
  in.k = widened(in.k);
  return in;
}

}  // namespace

void SpectrumSettings::describe(Schema& schema) {
  schema.field("n", n, "queries, and keys").at_least(16).at_most(2048);
  schema.field("d", d, "dimension of a head").at_least(4).at_most(1024);
  schema.field("alphas", alphas, "factors on the inverse temperatures of conformal attention")
      .above(0)
      .at_most(1e6);
  schema.field("window", window, "newest keys of local and hierarchical attention").positive();
  schema.field("topk", topk, "largest scores of sparse topk").positive();
  schema.field("n_features", n_features, "of performer").positive().at_most(100000);
  schema
      .field("n_landmarks", n_landmarks,
             "of hierarchical attention, and the rank of the best approximation")
      .positive()
      .at_most(100000);
  schema.field("correlation", correlation, "of neighbouring tokens, where tokens are correlated")
      .at_least(0)
      .below(1);
  schema.field("subspace", subspace, "dimension of the tokens that do not fill the head")
      .positive();
  require_some(schema, "alphas", alphas);
  const auto at_most = [&schema](const char* key, const std::int64_t& value,
                                 const std::int64_t& limit, const char* name) {
    schema.check(key, [&value, &limit, name] {
      if (value > limit) throw ConfigError("expected at most {} = {}, got {}", name, limit, value);
    });
  };
  at_most("window", window, n, "n");
  at_most("topk", topk, n, "n");
  at_most("subspace", subspace, d, "d");
}

HeadInputs inputs_of(const Tokens& tokens, bool is_causal) {
  const Variable k(tokens.k);
  return {.q = Variable(tokens.q), .k = k, .v = k, .mask = {.causal = is_causal}};
}

std::vector<Tokens> tokens_of(const SpectrumSettings& settings, std::uint64_t seed) {
  const Shape shape = {1, 1, settings.n, settings.d};
  const Tensor own_q = normal(shape, seed, "e9 q"), own_k = normal(shape, seed, "e9 k");
  const Tensor walk = slow_walk(normal(shape, seed, "e9 walk"), settings.correlation);
  const auto half = [&](const Tensor& own) { return scale(add(walk, own), std::sqrt(0.5)); };
  const Tensor axes = scale(normal({1, 1, settings.subspace, settings.d}, seed, "e9 axes"),
                            1 / std::sqrt(static_cast<double>(settings.subspace)));
  const auto projected = [&](const Tensor& own) {
    return matmul(own.slice(-1, 0, settings.subspace).contiguous(), axes);
  };
  return {{"independent", "independent Gaussian queries and keys", own_q, own_k},
          {"correlated",
           fmt::format("queries and keys that share half of their variance with a slow walk, whose "
                       "neighbours have correlation {}",
                       settings.correlation),
           half(own_q), half(own_k)},
          {"low_rank",
           fmt::format("Gaussian queries and keys in {} of {} dimensions", settings.subspace,
                       settings.d),
           projected(own_q), projected(own_k)}};
}

NamedWeights conformal_variant(std::int64_t d, ConformalWeight weight, double alpha) {
  const ConformalKernel kernel = conformal_kernel(weight, d);
  const char* name = weight == ConformalWeight::newton    ? "conformal"
                     : weight == ConformalWeight::poisson ? "conformal poisson"
                                                          : "conformal jacobian";
  return {fmt::format("{}, alpha {}", name, short_number(alpha)),
          [kernel, alpha](const HeadInputs& in) {
            return attention_weights(
                       conformal_call(in, f64_scalar(alpha), kernel, ConformalNormalize::none))
                .data();
          }};
}

std::vector<NamedWeights> variants_of(const SpectrumSettings& settings, std::uint64_t seed) {
  std::vector<NamedWeights> all;
  all.push_back(by_call("softmax", [](const HeadInputs& in) { return softmax_call(in); }));
  for (const double alpha : settings.alphas)
    all.push_back(conformal_variant(settings.d, ConformalWeight::newton, alpha));
  all.push_back(conformal_variant(settings.d, ConformalWeight::poisson, settings.alphas.back()));
  all.push_back(conformal_variant(settings.d, ConformalWeight::jacobian, settings.alphas.back()));
  for (NamedWeights& variant : hierarchical_variants(settings, seed))
    all.push_back(std::move(variant));
  all.push_back(by_call("linear", [](const HeadInputs& in) { return linear_call(in); }));
  const Tensor omega = orthogonal_gaussian(settings.n_features, settings.d,
                                           {seed, stream_id("e9 omega")}, DType::f64);
  all.push_back(by_call(fmt::format("performer, {} features", settings.n_features),
                        [omega](const HeadInputs& in) { return performer_call(in, omega); }));
  all.push_back(
      by_call("w2", [tau = 2 * std::sqrt(static_cast<double>(settings.d))](const HeadInputs& in) {
        return w2_call(as_gaussians(in), Variable(Tensor::full({1, 1, 1}, tau, DType::f64)));
      }));
  const auto sparse = [&](const std::string& name, const SparseSelection& selection) {
    all.push_back(
        by_call(name, [selection](const HeadInputs& in) { return sparse_call(in, selection); }));
  };
  sparse(fmt::format("sparse local, window {}", settings.window),
         {.pattern = SparsePattern::local, .window = settings.window});
  sparse(fmt::format("sparse topk, {} keys", settings.topk),
         {.pattern = SparsePattern::topk, .topk = settings.topk});
  return all;
}

}  // namespace mobius
