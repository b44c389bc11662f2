// A configuration with every sort of key, for the tests of reading and writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/options/registry.h"
#include "core/options/schema.h"

namespace mobius::config_fixture {

struct Attention {
  virtual ~Attention() = default;
  virtual void describe(Schema& schema) = 0;
};

struct Softmax : Attention {
  double scale = 1;
  void describe(Schema& schema) override {
    schema.field("scale", scale, "of the scores").positive();
  }
};

struct Sparse : Attention {
  int window = 64;
  std::string pattern = "local";
  void describe(Schema& schema) override {
    schema.field("window", window, "keys each query sees").positive();
    schema.field("pattern", pattern, "which keys").one_of({"local", "strided"});
    schema.check("window", [this] {
      if (window % 2 != 0) throw ConfigError("must be even, got {}", window);
    });
  }
};

inline Registry<Attention> attentions() {
  Registry<Attention> registry;
  registry.add<Softmax>("softmax", "scaled dot product").add<Sparse>("sparse", "a window of keys");
  return registry;
}

struct Size {
  int seq_len = 64;
  int n_pairs = 4;
  void describe(Schema& schema) {
    schema.field("seq_len", seq_len, "tokens").positive();
    schema.field("n_pairs", n_pairs, "key-value pairs").positive();
    schema.check("n_pairs", [this] {
      if (4 * n_pairs > seq_len)
        throw ConfigError("{} pairs need seq_len {}", n_pairs, 4 * n_pairs);
    });
  }
};

struct Mlp {
  std::string kind = "swiglu";
  double dropout = 0;
  void describe(Schema& schema) {
    schema.field("kind", kind, "form").one_of({"swiglu", "gelu"});
    schema.field("dropout", dropout, "share of units dropped").at_least(0).below(1);
  }
};

struct Model {
  int d_model = 128;
  int n_heads = 4;
  bool tied = true;
  Mlp mlp;
  void describe(Schema& schema) {
    schema.field("d_model", d_model, "width").at_least(1);
    schema.field("n_heads", n_heads, "heads").at_least(1);
    schema.field("tied", tied, "share the embedding with the head");
    schema.section("mlp", mlp, "the feed-forward part");
    schema.check("n_heads", [this] {
      if (d_model % n_heads != 0) {
        throw ConfigError("must divide model.d_model {}, got {}", d_model, n_heads);
      }
    });
  }
};

enum class Precision { f32, f64 };

struct Optimizer {
  double lr = 0;
  std::vector<double> betas = {0.9, 0.95};
  std::optional<double> clip = 1.0;
  void describe(Schema& schema) {
    schema.field("lr", lr, "peak learning rate").positive().required();
    schema.field("betas", betas, "decay of the moments").at_least(0).below(1);
    schema.field("clip", clip, "largest gradient norm, null for none").positive();
  }
};

struct RunOptions {
  Registry<Attention> registry = attentions();
  std::vector<Size> mixture;
  Model model;
  Chosen<Attention> attention = registry.choose("softmax");
  Optimizer optimizer;
  std::int64_t max_steps = 1000;
  std::vector<std::int64_t> save_at;
  Precision precision = Precision::f32;
  std::string note;
  std::vector<std::string> tags;

  void describe(Schema& schema) {
    schema.section("task", "what is learned").list("mixture", mixture, "sizes, mixed evenly");
    schema.section("model", model, "the network");
    schema.section("attention", "how tokens meet")
        .variant("kind", attention, registry, "which attention");
    schema.section("optimizer", optimizer, "how weights move");
    Schema& train = schema.section("train", "the loop");
    train.field("max_steps", max_steps, "steps").at_least(0).unbounded();
    train.field("save_at", save_at, "steps to keep for ever").positive().unbounded();
    train.choice("precision", precision, {{"f32", Precision::f32}, {"f64", Precision::f64}},
                 "of the arithmetic");
    Schema& output = schema.section("output", "what is written");
    output.field("note", note, "free text");
    output.field("tags", tags, "labels of the run");
  }
};

}  // namespace mobius::config_fixture
