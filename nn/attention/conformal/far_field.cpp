#include "nn/attention/conformal/far_field.h"

#include <algorithm>
#include <cmath>

#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/conformal/landmark_basis.h"

namespace mobius {

namespace {

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

// One feature of 0 for every query.
class NoFarField final : public FarField {
 public:
  std::int64_t n_features() const override { return 1; }
  Variable query_features(const BallPoints& points) const override {
    return Variable(points.radius.r.data().zeros_like());
  }
  Variable key_features(const Variable& zeta) const override {
    return Variable(
        Tensor::zeros({zeta.size(0), zeta.size(1), zeta.size(2), 1}, zeta.dtype(), zeta.device()));
  }
};

class NoFarFieldBuilder final : public FarFieldBuilder {
 public:
  std::unique_ptr<FarField> build(const Variable& /*zeta*/) const override {
    return std::make_unique<NoFarField>();
  }
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

void FarFieldOptions::describe(Schema& schema) {
  schema.choice("far_field", kind,
                {{"degrees", FarFieldKind::degrees},
                 {"landmarks", FarFieldKind::landmarks},
                 {"none", FarFieldKind::none}},
                "what stands for far keys: the lowest degrees of the kernel, exactly; kernels "
                "around landmarks; or nothing, which is a sliding window");
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
      .at_most(4096)
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
  if (options.kind == FarFieldKind::none) return std::make_shared<NoFarFieldBuilder>();
  if (options.kind == FarFieldKind::degrees)
    return std::make_shared<DegreeBuilder>(kernel, options.degree);
  return std::make_shared<LandmarkBuilder>(options, kernel, alpha, n_groups, init);
}

}  // namespace mobius
