#include "nn/attention/far_field.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "nn/attention/degree_basis.h"
#include "nn/attention/weights.h"

namespace mobius {

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();
// The largest logarithm of a factor on a kernel, as for near keys: e^80 is finite in f32.
constexpr double largest_log_factor = 80;

// 2r / (1-r)^2, with which log Kt = -s log1p(sharpness (1-u)).
double sharpness_of(double r) { return 2 * r / ((1 - r) * (1 - r)); }

Variable constant(double x, const Variable& like) {
  return Variable(Tensor::full({}, x, like.dtype(), like.device()));
}

// u8 [m, m]: 1 on the diagonal.
Tensor diagonal_of(std::int64_t m, Device device) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(m * m));
  for (std::int64_t a = 0; a < m; ++a) values[static_cast<std::size_t>(a * (m + 1))] = 1;
  return Tensor::from(values, {m, m}, device);
}

// x[B, 1 or G, ...] for every one of n_heads heads.
Variable for_heads(const Variable& x, std::int64_t n_heads) {
  return x.size(1) == 1 ? x : for_every_head(x, n_heads);
}

// Kt(r, u) of products u: (1 + sharpness (1-u))^-s. Rounding may lift u above 1, and a large
// sharpness would turn the base negative.
Variable kernel_of_products(const Variable& u, double sharpness, double s) {
  Variable base = affine(u, -sharpness, 1 + sharpness);
  if (sharpness > 1e4) base = clamp(base, 1, no_limit);
  return power(base, -s);
}

// Some of n keys, evenly spaced from the first to the last; [B, G, m, d].
Variable spaced_keys(const Variable& zeta, std::int64_t m) {
  const auto last = static_cast<double>(zeta.size(2) - 1);
  std::vector<Variable> keys;
  for (std::int64_t a = 0; a < m; ++a) {
    const double share = m == 1 ? 0 : static_cast<double>(a) / static_cast<double>(m - 1);
    const auto position = static_cast<std::int64_t>(std::lround(share * last));
    keys.push_back(slice(zeta, 2, position, position + 1));
  }
  return concat(keys, 2);
}

class LandmarkBuilder final : public FarFieldBuilder {
 public:
  LandmarkBuilder(const FarFieldOptions& options, const ConformalKernel& kernel, double alpha,
                  std::int64_t n_groups, const Initializer& init)
      : options_(options), kernel_(kernel), r_far_(options.landmark_radius(kernel, alpha)) {
    const Shape shape{n_groups, options.n_landmarks, kernel.d};
    const auto drawn = [&] {
      if (!init.has_values()) return init.zeros(shape);
      return random_normal(shape, 0, 1, init.key("landmarks"), init.dtype(), init.device());
    };
    if (options.landmark_source == LandmarkSource::random)
      landmarks_ = Variable(register_buffer("landmarks", drawn()));
    if (options.landmark_source == LandmarkSource::learned)
      landmarks_ = register_parameter("landmarks", drawn());
  }

  std::unique_ptr<FarField> build(const Variable& zeta) const override {
    Variable landmarks;
    if (options_.landmark_source == LandmarkSource::keys) {
      landmarks = spaced_keys(zeta, options_.n_landmarks);
    } else {
      const Shape& shape = landmarks_.shape();
      landmarks = reshape(landmarks_, {1, shape[0], shape[1], shape[2]});
    }
    return std::make_unique<LandmarkBasis>(landmarks, kernel_, r_far_, options_.ridge);
  }

 private:
  FarFieldOptions options_;
  ConformalKernel kernel_;
  double r_far_;
  Variable landmarks_;  // [G, m, d]; undefined if they are keys
};

class DegreeBuilder final : public FarFieldBuilder {
 public:
  DegreeBuilder(const ConformalKernel& kernel, std::int64_t degree)
      : kernel_(kernel), degree_(degree) {}

  std::unique_ptr<FarField> build(const Variable& /*zeta*/) const override {
    return std::make_unique<DegreeBasis>(kernel_, degree_);
  }

 private:
  ConformalKernel kernel_;
  std::int64_t degree_;
};

}  // namespace

LandmarkBasis::LandmarkBasis(const Variable& landmarks, const ConformalKernel& kernel, double r_far,
                             double ridge)
    : kernel_(kernel), r_far_(r_far) {
  if (landmarks.ndim() != 4 || landmarks.size(3) != kernel.d) {
    throw ShapeError("landmark basis: expected landmarks [B or 1, G or 1, m, {}], got {}", kernel.d,
                     to_string(landmarks.shape()));
  }
  if (!(r_far > 0 && r_far < 1))
    throw Error("landmark basis: expected r_far in (0, 1), got {}", r_far);
  if (!(ridge > 0)) throw Error("landmark basis: expected a ridge above 0, got {}", ridge);
  xi_ = polar(landmarks).direction;
  // A landmark's kernel with itself is 1 wherever it lies. Left to the products, that would cost
  // the digits of the gradient: far larger numbers, all along the landmark, would have to cancel.
  const Variable gram =
      where(diagonal_of(n_features(), xi_.device()), constant(1 + ridge, xi_), features(xi_));
  whitener_ = inverse_cholesky(gram);
}

Variable LandmarkBasis::features(const Variable& zeta) const {
  return kernel_of_products(matmul(zeta, transpose(xi_, -1, -2)), sharpness_of(r_far_), kernel_.s);
}

// With a factor c = f^-s on the kernel, c Kt = (f (1 + sharpness (1-u)))^-s: the factor costs
// nothing for each landmark. One over the mean of Kt is such a factor.
Variable LandmarkBasis::kernel_of(const Variable& qhat, const Radius& radius,
                                  bool unit_mean) const {
  const Radius near{.r = minimum(radius.r, constant(r_far_, qhat)),
                    .one_minus_r = maximum(radius.one_minus_r, constant(1 - r_far_, qhat))};
  Variable sharpness = scale(near.r, 2) / square(near.one_minus_r);
  Variable at_zero = affine(sharpness, 1, 1);
  if (unit_mean) {
    const Variable log_z = clamp(log_normalizer(near, kernel_), -largest_log_factor, no_limit);
    const Variable f = exp(scale(log_z, 1 / kernel_.s));
    sharpness = sharpness * f;
    at_zero = at_zero * f;
  }
  const Variable xi = for_heads(xi_, qhat.size(1));
  return power(at_zero - matmul(qhat * sharpness, transpose(xi, -1, -2)), -kernel_.s);
}

Variable LandmarkBasis::coeffs(const Variable& qhat, const Radius& radius) const {
  const Variable w = for_heads(whitener_, qhat.size(1));
  return matmul(matmul(kernel_of(qhat, radius, /*unit_mean=*/false), transpose(w, -1, -2)), w);
}

Variable LandmarkBasis::query_features(const BallPoints& points) const {
  const Variable w = for_heads(whitener_, points.qhat.size(1));
  return matmul(kernel_of(points.qhat, points.radius, /*unit_mean=*/true), transpose(w, -1, -2));
}

Variable LandmarkBasis::key_features(const Variable& zeta) const {
  return matmul(features(zeta), transpose(whitener_, -1, -2));
}

void FarFieldOptions::describe(Schema& schema) {
  schema.choice("far_field", kind,
                {{"degrees", FarFieldKind::degrees}, {"landmarks", FarFieldKind::landmarks}},
                "what stands for far keys: the lowest degrees of the kernel, exactly, or kernels "
                "around landmarks");
  const auto of_degrees = [this] { return kind == FarFieldKind::degrees; };
  const auto of_landmarks = [this] { return kind == FarFieldKind::landmarks; };
  schema
      .field("far_degree", degree,
             "highest degree kept: 0 the mean of the far values, 1 their dipole as well, 2 their "
             "quadrupole, with d^2 / 2 features")
      .at_least(0)
      .at_most(2)
      .only_if(of_degrees, "far_field: degrees");
  schema.field("n_landmarks", n_landmarks, "landmarks of the far field of a head")
      .positive()
      .only_if(of_landmarks, "far_field: landmarks");
  schema
      .choice("landmark_source", landmark_source,
              {{"random", LandmarkSource::random},
               {"learned", LandmarkSource::learned},
               {"keys", LandmarkSource::keys}},
              "landmarks drawn from the seed, trained, or keys (which look ahead)")
      .only_if(of_landmarks, "far_field: landmarks");
  schema
      .field(
          "r_far", r_far,
          "largest radius with which a query sees far keys, and of the landmarks' kernels; null: "
          "that of an inverse temperature of 2 alpha")
      .above(0)
      .below(1)
      .only_if(of_landmarks, "far_field: landmarks");
  schema.field("ridge", ridge, "added to the diagonal of the landmarks' Gram matrix")
      .positive()
      .only_if(of_landmarks, "far_field: landmarks");
}

double FarFieldOptions::landmark_radius(const ConformalKernel& kernel, double alpha) const {
  if (r_far) return *r_far;
  const double beta = 2 * alpha;
  return std::min(beta / (std::hypot(kernel.s, beta) + kernel.s), largest_radius);
}

std::shared_ptr<FarFieldBuilder> make_far_field_builder(const FarFieldOptions& options,
                                                        const ConformalKernel& kernel, double alpha,
                                                        std::int64_t n_groups,
                                                        const Initializer& init) {
  if (options.kind == FarFieldKind::degrees)
    return std::make_shared<DegreeBuilder>(kernel, options.degree);
  return std::make_shared<LandmarkBuilder>(options, kernel, alpha, n_groups, init);
}

}  // namespace mobius
