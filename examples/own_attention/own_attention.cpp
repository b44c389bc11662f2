// An attention variant and a task of one's own: `own_attention` is `mobius` with two kinds more.
// docs/extending.md walks through this file.
#include <cmath>

#include "nn/attention/multi_head.h"
#include "train/commands/commands.h"

using namespace mobius;

namespace {

// Softmax over cosines: out_i = sum_j softmax_j(s cos(q_i, k_j)) v_j, with a learned s > 0 a head.
class CosineAttention final : public FusedAttention {
 public:
  CosineAttention(const AttentionContext& context, double sharpness)
      : FusedAttention(context),
        log_sharpness_(register_parameter(
            "log_sharpness", context.init.full({n_heads(), 1, 1}, std::log(sharpness)))) {}

  void tell_parameters(DiagnosticsSink& sink) const override {
    sink.tell({"sharpness", exp(log_sharpness_).data().to_vector<double>()});
  }

 protected:
  AttentionCall call(const HeadInputs& in) const override {
    AttentionCall call = product_call(in);
    call.inputs.q = polar(in.q).direction * exp(log_sharpness_);
    call.inputs.k = polar(in.k).direction;
    return call;
  }

 private:
  Variable log_sharpness_;
};

class CosineOptions final : public AttentionOptions {
 public:
  double sharpness = 10;

  std::string kind() const override { return "cosine"; }
  void describe(Schema& schema) override {
    schema.field("sharpness", sharpness, "initial factor on the cosines").positive();
  }

 protected:
  std::shared_ptr<Attention> make(const AttentionContext& context) const override {
    return std::make_shared<CosineAttention>(context, sharpness);
  }
};

// `length` random letters, then the same backwards; the second half is to be said.
class ReverseTask final : public Task {
 public:
  ReverseTask(std::int64_t length, std::uint64_t seed) : length_(length), seed_(seed) {}

  std::int64_t vocab_size() const override { return 26; }
  std::int64_t max_seq_len() const override { return 2 * length_ - 1; }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return 256; }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    std::vector<std::int32_t> inputs, labels;
    for (std::uint64_t i = first; i < first + static_cast<std::uint64_t>(count); ++i) {
      Rng rng({seed_, sequence_stream("reverse", static_cast<std::uint64_t>(length_), split, i)});
      std::vector<std::int32_t> text;
      for (std::int64_t t = 0; t < length_; ++t)
        text.push_back(static_cast<std::int32_t>(rng.below(26)));
      text.insert(text.end(), text.rbegin(), text.rend());
      inputs.insert(inputs.end(), text.begin(), text.end() - 1);
      labels.insert(labels.end(), static_cast<std::size_t>(length_ - 1), ignored_label);
      labels.insert(labels.end(), text.begin() + length_, text.end());
    }
    const Shape shape{count, max_seq_len()};
    return {.inputs = Tensor::from(inputs, shape),
            .labels = Tensor::from(labels, shape),
            .scored = {},
            .group = group};
  }

 private:
  const std::int64_t length_;
  const std::uint64_t seed_;
  const std::vector<std::string> groups_{"reverse"};
};

class ReverseOptions final : public TaskOptions {
 public:
  std::int64_t length = 12;

  void describe(Schema& schema) override {
    schema.field("length", length, "letters to say backwards").at_least(2);
  }
  std::unique_ptr<Task> build(std::uint64_t seed) const override {
    return std::make_unique<ReverseTask>(length, seed);
  }
};

}  // namespace

int main(int argc, char** argv) {
  Registries known;
  known.attentions.add<CosineOptions>("cosine", "cosines, softmax over the keys");
  known.tasks.add<ReverseOptions>("reverse", "letters, to be said backwards");
  return static_cast<int>(run_command_line(argc, argv, known));
}
