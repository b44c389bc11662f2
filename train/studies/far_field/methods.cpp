#include "train/studies/far_field/methods.h"

#include <algorithm>
#include <cmath>

#include "core/ops.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/conformal/degrees.h"
#include "nn/attention/conformal/landmark_basis.h"
#include "train/studies/kernel_values.h"

namespace mobius {

namespace {

BallPoints points_of(const HeadSample& sample, const ConformalKernel& kernel) {
  return embed_in_ball(Variable(sample.q), Variable(sample.k), f64_scalar(sample.alpha), kernel.s);
}

BallPoints other_points(HeadSample sample, const ConformalKernel& kernel) {
  sample.q = sample.other_q;
  sample.k = sample.other_k;
  return points_of(sample, kernel);
}

// The norm of what is lost of a matrix when all but its n largest singular values are.
double tail_of(const Tensor& singular_values, std::int64_t n) {
  const std::vector<double> values = singular_values.to_vector<double>();
  double lost = 0;
  for (std::size_t i = static_cast<std::size_t>(n); i < values.size(); ++i)
    lost += values[i] * values[i];
  return std::sqrt(lost);
}

HeadInputs inputs_of(const HeadSample& sample) {
  return {.q = Variable(sample.q),
          .k = Variable(sample.k),
          .v = Variable(sample.v),
          .mask = {.causal = true}};
}

AttentionCall exact_call(const HeadSample& sample, const ConformalKernel& kernel) {
  const HeadInputs in = inputs_of(sample);
  return conformal_call(in, points_of(sample, kernel), visible_counts(in), kernel,
                        ConformalNormalize::analytic);
}

double norm_of(const Tensor& x) { return std::sqrt(sum_of_squares(x.contiguous())); }

// The mean over positions of |missed| / |exact|, of x[1, 1, n, d]; an exact zero does not count.
double mean_ratio(const Tensor& missed, const Tensor& exact) {
  const auto lengths = [](const Tensor& x) {
    return polar(x.contiguous()).length.to_vector<double>();
  };
  const std::vector<double> a = lengths(missed), b = lengths(exact);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (b[i] == 0) continue;
    sum += a[i] / b[i];
    ++count;
  }
  return sum / std::max(count, 1.0);
}

template <class Call>
FarError error_of_call(const Call& call, const HeadSample& sample, const ConformalKernel& kernel) {
  const AttentionCall exact = exact_call(sample, kernel);
  const Tensor out = attention(exact).data(), weights = attention_weights(exact).data();
  const Tensor missed = sub(attention(call).data(), out);
  return {.output = norm_of(missed) / norm_of(out),
          .query = mean_ratio(missed, out),
          .weights = norm_of(sub(attention_weights(call).data(), weights)) / norm_of(weights)};
}

// K / E[K] of products u[..., n, m] and radii broadcastable to them.
Variable unit_mean_kernel(const ConformalKernel& kernel, const Radius& radius, const Variable& u) {
  const Variable& r = radius.r;
  const Variable distance = affine(square(r), 1, 1) - scale(r * u, 2);
  // log Z belongs to the kernel whose peak is 1, which is larger by (1-r)^(2s).
  const Variable log_kernel = scale(scale(log(radius.one_minus_r), 2) - log(distance), kernel.s) -
                              log_normalizer(radius, kernel);
  return exp(log_kernel);
}

// What degrees 0 and 1 leave of that.
Variable remainder(const ConformalKernel& kernel, const Radius& radius, const Variable& u) {
  const Variable dipole =
      scale(degree_eigenvalue(kernel, radius.r, 1), static_cast<double>(kernel.d)) * u;
  return unit_mean_kernel(kernel, radius, u) - affine(dipole, 1, 1);
}

class ControlVariates final : public FarField {
 public:
  ControlVariates(const ConformalKernel& kernel, const Tensor& landmarks, double r_far,
                  double ridge)
      : kernel_(kernel), r_far_(r_far), degrees_(kernel, 1), xi_(polar(landmarks).direction) {
    const std::int64_t m = landmarks.size(2);
    const Tensor gram = at_r_far(matmul(xi_, transpose(xi_, -1, -2))).data();
    const double peak = at_r_far(f64_scalar(1)).data().item();
    Tensor ridged = gram.clone();
    for (std::int64_t a = 0; a < m; ++a)
      ridged.slice(2, a, a + 1).slice(3, a, a + 1).fill((1 + ridge) * peak);
    whitener_ = Variable(inverse_cholesky(ridged));
  }

  std::int64_t n_features() const override { return degrees_.n_features() + xi_.size(2); }
  Variable query_features(const BallPoints& points) const override {
    const Radius& radius = points.radius;
    const Radius near{.r = clamp(radius.r, 0, r_far_),
                      .one_minus_r = clamp(radius.one_minus_r, 1 - r_far_, 1)};
    const Variable u = matmul(points.qhat, transpose(xi_, -1, -2));
    return concat({degrees_.query_features(points), whitened(remainder(kernel_, near, u))}, -1);
  }
  Variable key_features(const Variable& zeta) const override {
    const Variable u = matmul(zeta, transpose(xi_, -1, -2));
    return concat({degrees_.key_features(zeta), whitened(at_r_far(u))}, -1);
  }

 private:
  Variable at_r_far(const Variable& u) const {
    return remainder(kernel_, {.r = f64_scalar(r_far_), .one_minus_r = f64_scalar(1 - r_far_)}, u);
  }
  Variable whitened(const Variable& x) const { return matmul(x, transpose(whitener_, -1, -2)); }

  ConformalKernel kernel_;
  double r_far_;
  DegreeBasis degrees_;
  Variable xi_, whitener_;
};

class LeadingQuadrupole final : public FarField {
 public:
  LeadingQuadrupole(const ConformalKernel& kernel, const Tensor& directions)
      : kernel_(kernel), degrees_(kernel, 1), directions_(directions) {}

  std::int64_t n_features() const override {
    const std::int64_t n = directions_.size(-1);
    return degrees_.n_features() + n * (n + 1) / 2;
  }
  // (d + 2) / 2 mu_2 (d u^2 - |q|^2), where u and q are those of the leading directions.
  Variable query_features(const BallPoints& points) const override {
    const auto d = static_cast<double>(kernel_.d);
    const Variable leading = matmul(points.qhat, directions_);
    const Variable factor = scale(degree_eigenvalue(kernel_, points.radius.r, 2), (d + 2) / 2);
    const Variable low = degrees_.query_features(points);
    const Variable mean = slice(low, -1, 0, 1) - factor * sum(square(leading), {-1}, true);
    return concat({mean, slice(low, -1, 1, low.size(-1)),
                   pair_products(leading, /*off_diagonal=*/2) * scale(factor, d)},
                  -1);
  }
  Variable key_features(const Variable& zeta) const override {
    return concat(
        {degrees_.key_features(zeta), pair_products(matmul(zeta, directions_), /*off_diagonal=*/1)},
        -1);
  }

 private:
  ConformalKernel kernel_;
  DegreeBasis degrees_;
  Variable directions_;  // [d, n_directions]
};

}  // namespace

Tensor cluster_centres(const Tensor& keys, std::int64_t m, std::int64_t n_rounds,
                       std::uint64_t seed) {
  const std::int64_t n = keys.size(2), d = keys.size(3);
  const Tensor zeta = polar(keys.contiguous()).direction.reshape({n, d});
  Rng rng({seed, stream_id("k-means")});
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::int64_t>(i);
    std::swap(order[i], order[rng.below(i + 1)]);
  }
  order.resize(static_cast<std::size_t>(std::min(m, n)));
  Tensor centres = gather_rows(zeta, Tensor::from(order, {std::min(m, n)}));
  for (std::int64_t round = 0; round < n_rounds; ++round) {
    const Tensor nearest = argmax(matmul(zeta, centres.transpose(0, 1)));
    const Tensor sums = scatter_add_rows(zeta, nearest, centres.size(0));
    const auto [direction, length] = polar(sums);
    const Tensor is_empty = compare(CompareOp::less, length, Tensor::full({1}, 1e-9, DType::f64));
    centres = where(is_empty, centres, direction);
  }
  return centres.reshape({1, 1, centres.size(0), d});
}

double radius_quantile(const HeadSample& sample, double share) {
  const ConformalKernel kernel = conformal_kernel(ConformalWeight::newton, sample.q.size(3));
  std::vector<double> radii = points_of(sample, kernel).radius.r.data().to_vector<double>();
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(radii.size() - 1));
  std::nth_element(radii.begin(), radii.begin() + at, radii.end());
  return radii[static_cast<std::size_t>(at)];
}

Tensor learned_landmarks(const HeadSample& sample, const ConformalKernel& kernel,
                         const Tensor& start, double r_far, double ridge, std::int64_t n_steps) {
  const BallPoints points = other_points(sample, kernel);
  const Variable u = matmul(points.qhat, transpose(points.zeta, -1, -2));
  const Variable exact = unit_mean_kernel(kernel, points.radius, u);
  const Tensor landmarks = start.clone();
  const Tensor m = landmarks.zeros_like(), v = landmarks.zeros_like();
  for (std::int64_t step = 1; step <= n_steps; ++step) {
    const Variable xi(landmarks.clone(), /*requires_grad=*/true);
    const LandmarkBasis basis(xi, kernel, r_far, ridge);
    const Variable got =
        matmul(basis.query_features(points), transpose(basis.key_features(points.zeta), -1, -2));
    backward(mean(square(got - exact)));
    const ParameterUpdate update{xi.grad(), landmarks, {m, v}};
    const std::vector<double> scalars{
        /*learning rate=*/0.02, static_cast<double>(step), 1, 0, 0, 0};
    adamw({.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-12, .weight_decay = 0}, std::span(&update, 1),
          Tensor::from(scalars, {UpdateScalar::count}));
  }
  return landmarks;
}

std::unique_ptr<FarField> control_variates(const ConformalKernel& kernel, const Tensor& landmarks,
                                           double r_far, double ridge) {
  return std::make_unique<ControlVariates>(kernel, landmarks, r_far, ridge);
}

std::unique_ptr<FarField> leading_quadrupole(const ConformalKernel& kernel, const Tensor& keys,
                                             std::int64_t n_directions) {
  const std::int64_t n = keys.size(2), d = keys.size(3);
  const Tensor zeta = polar(keys.contiguous()).direction.reshape({n, d});
  const Tensor vectors = symmetric_eigen(matmul(zeta.transpose(0, 1), zeta)).vectors;
  return std::make_unique<LeadingQuadrupole>(kernel,
                                             vectors.slice(1, d - n_directions, d).contiguous());
}

FarError error_of(const FarField& far_field, const HeadSample& sample,
                  const ConformalKernel& kernel, std::int64_t window) {
  return error_of_call(hierarchical_call(inputs_of(sample), points_of(sample, kernel), far_field,
                                         kernel, ConformalNormalize::analytic, window),
                       sample, kernel);
}

FarError error_of_window(const HeadSample& sample, const ConformalKernel& kernel,
                         std::int64_t window) {
  AttentionCall call = exact_call(sample, kernel);
  call.spec.mask.window = window;
  return error_of_call(call, sample, kernel);
}

double least_pooled_error(const HeadSample& sample, const ConformalKernel& kernel,
                          std::int64_t n_features) {
  const BallPoints points = other_points(sample, kernel);
  const Variable& r = points.radius.r;
  const Variable u = matmul(points.qhat, transpose(points.zeta, -1, -2));
  const Variable log_kernel = scale(log(affine(square(r), 1, 1) - scale(r * u, 2)), -kernel.s);
  const Variable rows = polar(exp(log_kernel - max(log_kernel, -1, /*keepdim=*/true))).direction;
  return tail_of(singular_values(rows.data()), n_features) /
         std::sqrt(static_cast<double>(rows.size(2)));
}

double least_weights_error(const HeadSample& sample, const ConformalKernel& kernel,
                           std::int64_t window, std::int64_t n_features) {
  const std::int64_t n = sample.q.size(2), half = n / 2;
  const Tensor weights = attention_weights(exact_call(sample, kernel)).data();
  const Tensor rectangle =
      weights.slice(2, std::min(half + window, n - 1), n).slice(3, 0, half).contiguous();
  return tail_of(singular_values(rectangle), n_features) / norm_of(weights);
}

// Queries count by the mean square of their weights, 1 / share of degree 0, as they do in the error
// without a far field.
double least_fixed_error(const HeadSample& sample, const ConformalKernel& kernel,
                         double window_error, std::int64_t n_features) {
  double lost = 0, total = 0;
  for (const double r : points_of(sample, kernel).radius.r.data().to_vector<double>()) {
    const double energy = 1 / degree_shares(kernel, r, 1)[0];
    const double error = least_error(kernel, r, n_features);
    lost += energy * error * error;
    total += energy;
  }
  return window_error * std::sqrt(lost / total);
}

double cost_of(const FarField& far_field, bool has_landmarks, std::int64_t d, std::int64_t window) {
  constexpr double chunk = 64;  // queries and keys that the kernels take at a time
  const auto dim = static_cast<double>(d), m = static_cast<double>(far_field.n_features());
  const double near = (static_cast<double>(window) + chunk / 2) * 2 * dim;
  const double moments = 2 * m * dim + chunk / 2 * (m + dim);
  const double landmarks = has_landmarks ? 2 * m * dim + m * m : 0;
  return (near + moments + landmarks) / near;
}

}  // namespace mobius
