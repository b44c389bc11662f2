#include "train/studies/far_field/samples.h"

#include <fmt/format.h>

#include <cmath>

#include "core/ops.h"
#include "nn/attention/conformal/conformal.h"
#include "train/results/numbers.h"
#include "train/studies/small_training.h"

namespace mobius {

namespace {

class Draw {
 public:
  Draw(std::int64_t n, std::int64_t d, std::uint64_t seed) : n_(n), d_(d), seed_(seed) {}

  Tensor normal(const char* what, std::int64_t n) const {
    return random_normal({1, 1, n, d_}, 0, 1, {seed_, stream_id(what)}, DType::f64);
  }
  Tensor normal(const char* what) const { return normal(what, n_); }
  Tensor directions(const char* what, std::int64_t n) const {
    return polar(normal(what, n)).direction;
  }
  // n of the rows of a table[1, 1, n_rows, d].
  Tensor some_of(const Tensor& table, const char* what) const {
    Rng rng({seed_, stream_id(what)});
    std::vector<std::int64_t> index(static_cast<std::size_t>(n_));
    for (std::int64_t& i : index)
      i = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(table.size(2))));
    return gather_rows(table.reshape({table.size(2), d_}), Tensor::from(index, {1, 1, n_}));
  }

 private:
  std::int64_t n_, d_;
  std::uint64_t seed_;
};

// What the layers of a model are given, while it is open.
struct Probe {
  struct Layer {
    Tensor q, k, v;  // [1, H, n, d]
    std::vector<double> alpha;
  };
  bool is_open = false;
  std::vector<Layer> layers;
};

// Conformal attention that tells its probe what it is given.
class ProbedLayer final : public ConformalLayer {
 public:
  ProbedLayer(const AttentionContext& context, const ConformalOptions& options, Probe& probe)
      : ConformalLayer(context, options), probe_(probe) {}

 protected:
  Variable attend(const HeadInputs& in) const override {
    if (probe_.is_open)
      probe_.layers.push_back(
          {in.q.data(), in.k.data(), in.v.data(), alpha().data().to_vector<double>()});
    return attention(call(in));
  }
  Variable weights(const HeadInputs& in) const override { return attention_weights(call(in)); }

 private:
  AttentionCall call(const HeadInputs& in) const {
    return conformal_call(in, alpha(), kernel(), normalize());
  }

  Probe& probe_;
};

class ProbedOptions final : public ConformalOptions {
 public:
  explicit ProbedOptions(Probe& probe) : probe_(probe) {}
  std::string kind() const override { return "probed_conformal"; }

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override {
    return std::make_shared<ProbedLayer>(context, *this, probe_);
  }

 private:
  Probe& probe_;
};

Registries with_probe(Probe& probe) {
  Registries known;
  known.attentions.add("probed_conformal", "conformal attention, observed",
                       [&probe] { return std::make_unique<ProbedOptions>(probe); });
  return known;
}

// What the layers get from n test sequences.
std::vector<Probe::Layer> layers_of(const Experiment& experiment, Probe& probe, std::uint64_t first,
                                    std::int64_t n) {
  const NoGradGuard no_grad;
  probe.layers.clear();
  probe.is_open = true;
  experiment.model->logits(experiment.task->sequences(Split::test, 0, first, n).inputs, {});
  probe.is_open = false;
  return probe.layers;
}

// The rows of one head, x[n, H, length, d] -> [1, 1, n length, d].
Tensor head_of(const Tensor& x, std::int64_t head) {
  const Tensor rows = x.slice(1, head, head + 1).to(DType::f64).contiguous();
  return rows.reshape({1, 1, rows.size(0) * rows.size(2), rows.size(3)});
}

std::string training_words(const std::string& what, const SmallTraining& training) {
  const TestPoint& last = training.tests.back();
  return fmt::format(
      "The model trained on {} had a test loss of {:.3f} and an accuracy of {:.1f} % "
      "after {} steps.",
      what, last.score.loss(), 100 * last.score.accuracy(), last.step);
}

}  // namespace

HeadSample random_sample(std::int64_t n, std::int64_t d, double alpha, std::uint64_t seed) {
  const Draw draw(n, d, seed);
  return {.name = fmt::format("random, alpha {}", short_number(alpha)),
          .q = draw.normal("queries"),
          .k = draw.normal("keys"),
          .v = draw.normal("values"),
          .other_q = draw.normal("other queries"),
          .other_k = draw.normal("other keys"),
          .alpha = alpha};
}

HeadSample clustered_sample(std::int64_t n, std::int64_t d, double alpha, std::int64_t n_clusters,
                            double spread, std::uint64_t seed) {
  const Draw draw(n, d, seed);
  const Tensor centres = draw.directions("centres", n_clusters);
  const Tensor values = draw.directions("cluster values", n_clusters);
  const auto near = [&](const Tensor& table, const char* which, const char* noise) {
    return add(draw.some_of(table, which), scale(draw.directions(noise, n), spread));
  };
  const auto query = [&](const char* which, const char* noise) {
    return scale(polar(near(centres, which, noise)).direction, std::sqrt(static_cast<double>(d)));
  };
  return {.name = fmt::format("{} clusters, alpha {}", n_clusters, short_number(alpha)),
          .q = query("cluster of query", "query noise"),
          .k = near(centres, "cluster of key", "key noise"),
          .v = near(values, "cluster of key", "value noise"),
          .other_q = query("cluster of other query", "other query noise"),
          .other_k = near(centres, "cluster of other key", "other key noise"),
          .alpha = alpha};
}

std::vector<HeadSample> trained_samples(const std::string& what, const std::string& yaml,
                                        double alpha, std::int64_t n_others,
                                        const std::function<void(std::int64_t step)>& before_step,
                                        std::vector<std::string>& words) {
  Probe probe;
  const Registries known = with_probe(probe);
  const auto config =
      config_of(fmt::format("{}\nattention: {{kind: probed_conformal, alpha: {}}}\n", yaml, alpha),
                what, known);
  const SmallTraining training = train_in_memory(*config, before_step);
  words.push_back(training_words(what, training));
  const std::vector<Probe::Layer> layers = layers_of(training.experiment, probe, 0, 1),
                                  others = layers_of(training.experiment, probe, 1, n_others);
  std::vector<HeadSample> samples;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    for (std::int64_t head = 0; head < layers[layer].q.size(1); ++head) {
      samples.push_back({.name = fmt::format("{}, layer {}, head {}", what, layer + 1, head + 1),
                         .q = head_of(layers[layer].q, head),
                         .k = head_of(layers[layer].k, head),
                         .v = head_of(layers[layer].v, head),
                         .other_q = head_of(others[layer].q, head),
                         .other_k = head_of(others[layer].k, head),
                         .alpha = layers[layer].alpha[static_cast<std::size_t>(head)]});
    }
  }
  return samples;
}

}  // namespace mobius
