#include "train/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/train/run_fixture.h"

namespace mobius::config_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ConfigTest : public ::testing::Test {
 protected:
  std::string error_with(const std::vector<std::string>& overrides) {
    return error_of([&] { config_of(kTinyRun, overrides, known_); });
  }
  const Registries known_;
};

TEST_F(ConfigTest, ReadsSectionsAndDefaults) {
  const auto config = config_of(kTinyRun, {"optimizer.name=sgd", "optimizer.lr=0.5"}, known_);
  EXPECT_EQ(config->task.name, "mqar");
  EXPECT_EQ(config->attention.name, "softmax");
  EXPECT_EQ(config->optimizer.name, "sgd");
  EXPECT_EQ(config->optimizer->lr, 0.5);
  EXPECT_EQ(config->train.micro_batch_size(), 4);
  EXPECT_EQ(config->output.dir, "runs/tiny");
}

TEST_F(ConfigTest, ResolvedYamlReadsBackToItself) {
  const std::vector<std::string> overrides = {
      "task={name: mqar, mixture: [{seq_len: 16, n_pairs: 2, weight: 0.1}]}",
      "attention.kind=conformal", "train.clip_grad_norm=null",
      "optimizer.betas=[0.5, 0.123456789012345]"};
  const std::string text = resolved_yaml(*config_of(kTinyRun, overrides, known_));
  EXPECT_EQ(resolved_yaml(*parse_config(text, "resolved", known_)), text);
  EXPECT_THAT(text, AllOf(HasSubstr("0.123456789012345"), HasSubstr("clip_grad_norm: null")));
}

TEST_F(ConfigTest, NeedsATask) {
  EXPECT_THAT(error_of([&] { config_of("train: {max_steps: 3}", {}, known_); }),
              HasSubstr("task.name"));
}

// Keys are misspelt at every depth.
TEST_F(ConfigTest, NamesTheNearestKey) {
  EXPECT_THAT(error_with({"trian.max_steps=3"}),
              AllOf(HasSubstr("trian"), HasSubstr("did you mean 'train'")));
  EXPECT_THAT(error_with({"train.max_step=3"}),
              AllOf(HasSubstr("train.max_step"), HasSubstr("did you mean 'train.max_steps'")));
  EXPECT_THAT(error_with({"train.early_stop.treshold=1"}),
              HasSubstr("did you mean 'train.early_stop.threshold'"));
  EXPECT_THAT(error_with({"task.mixture=[{seq_len: 16, n_pair: 2}]"}), HasSubstr("n_pairs'"));
  EXPECT_THAT(error_with({"attention.kind=sofmax"}), HasSubstr("did you mean 'softmax'"));
  EXPECT_THAT(error_with({"optimizer.momentum=0.5"}), HasSubstr("optimizer.momentum"));
}

TEST_F(ConfigTest, ChecksSectionsAgainstEachOther) {
  EXPECT_THAT(error_with({"train.accumulation_steps=3"}),
              HasSubstr("train.accumulation_steps: must divide batch_size = 8, got 3"));
  EXPECT_THAT(error_with({"schedule.warmup_steps=7"}),
              HasSubstr("schedule.warmup_steps: must not exceed train.max_steps = 6, got 7"));
}

// Each fault is reported once, under the key that was set.
TEST_F(ConfigTest, BlamesTheKeyThatWasSet) {
  const auto error_of_text = [&](const std::string& text) {
    return error_of([&] { config_of(text, {}, known_); });
  };
  EXPECT_EQ(error_of_text("task:\n  name: mqar\n  seq_len: 255\n"),
            "tiny.yaml:3:3: task.seq_len: expected an even number, got 255");
  EXPECT_EQ(
      error_of_text("task:\n  name: recall\n  seq_len: 255\n"),
      "tiny.yaml:3:3: task.seq_len: expected an even number (tokens and their repetition), got "
      "255");
  EXPECT_EQ(error_of_text("task:\n  name: mqar\n  seq_len: 10000\n"),
            "tiny.yaml:3:3: task.seq_len: vocab = 8192 is not above seq_len = 10000");
  EXPECT_EQ(error_of_text("task:\n  name: mqar\n  vocab: 200\n"),
            "tiny.yaml:3:3: task.vocab: vocab = 200 is not above seq_len = 256");
  EXPECT_EQ(error_of_text("task:\n  name: mqar\n  n_pairs: 65\n"),
            "tiny.yaml:3:3: task.n_pairs: n_pairs = 65 is more than a quarter of seq_len = 256");
  EXPECT_EQ(error_of_text("task:\n  name: mqar\n  mixture: [{seq_len: 63, n_pairs: 2}]\n"),
            "tiny.yaml:3:14: task.mixture.0.seq_len: expected an even number, got 63");
  EXPECT_EQ(error_of_text("task: {name: mqar}\nmodel:\n  d_model: 65\n"),
            "tiny.yaml:3:3: model.d_model: n_heads = 2 is no divisor of d_model = 65");
  EXPECT_EQ(error_of_text("task: {name: mqar}\nmodel:\n  n_heads: 3\n  positions: rope\n"),
            "tiny.yaml:3:3: model.n_heads: n_heads = 3 is no divisor of d_model = 64");
  EXPECT_EQ(
      error_of_text("task: {name: mqar}\nmodel:\n  n_kv_heads: 3\n"),
      "tiny.yaml:3:3: model.n_kv_heads: n_kv_heads = 3 is neither 0 nor a divisor of n_heads = "
      "2");
  EXPECT_EQ(
      error_of_text("task: {name: mqar}\nmodel:\n  positions: rope\n  d_model: 6\n"),
      "tiny.yaml:3:3: model.positions: rope rotates pairs, so d_model / n_heads must be even, "
      "got 6 / 2 = 3");
}

TEST_F(ConfigTest, RepeatsWhatWasWrittenWithoutControlCharacters) {
  EXPECT_THAT(
      error_with({R"(attention.kind="\e]0;x\asoftmax")"}),
      AllOf(HasSubstr("unknown name '\\x1b]0;x\\x07softmax'"), ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(error_with({R"(model={"d_mo\ndel": 3})"}),
              HasSubstr("model.d_mo\\ndel: unknown key; did you mean 'model.d_model'?"));
  EXPECT_THAT(error_with({R"(model.mlp="\x9f")"}), HasSubstr("unknown choice '\\xc2\\x9f'"));
}

TEST_F(ConfigTest, LimitsTheThreads) {
  EXPECT_EQ(error_with({"train.threads=1024"}), "no error");
  EXPECT_EQ(error_with({"train.threads=100000"}),
            "override train.threads=100000: train.threads: must be in [0, 1024], got 100000");
}

// Whatever devices there are here: device_test.cpp.
TEST_F(ConfigTest, NamesADevice) {
  EXPECT_EQ(config_of(kTinyRun, {}, known_)->train.device, "auto");
  EXPECT_EQ(error_with({"train.device=cpu"}), "no error");
  EXPECT_EQ(error_with({"train.device=cuda"}), "no error");
  EXPECT_EQ(
      error_of([&] { config_of("task: {name: mqar}\ntrain:\n  device: cuda:1\n", {}, known_); }),
      "tiny.yaml:3:3: train.device: expected cuda, got 'cuda:1'; CUDA_VISIBLE_DEVICES=1 chooses "
      "the GPU");
  EXPECT_EQ(error_with({"train.device=gpu"}),
            "override train.device=gpu: train.device: expected auto, cpu or cuda, got 'gpu'");
  const auto config = config_of(kTinyRun, {}, known_);
  EXPECT_TRUE(may_change_on_resume(*config, "train.device"));
}

TEST_F(ConfigTest, ChangesBeginWithTheKindOfTask) {
  const auto mqar = config_of(kTinyRun, {}, known_);
  const auto recall =
      config_of(kTinyRun, {"task={name: recall, vocab: 16, seq_len: 16}", "train.seed=2"}, known_);
  EXPECT_EQ(changes(*mqar, *recall).front().key, "task.name");
}

// Finds the integer keys below a schema that accept 2^62.
void find_unbounded(const Schema& schema, const std::string& path, std::set<std::string>& found) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string key = join_path(path, key_of(*entry));
    if (const auto* section = std::get_if<OptionSection>(entry)) {
      find_unbounded(section->schema(), key, found);
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      find_unbounded(*list->preview().schema, key, found);
    } else if (const auto* field = std::get_if<OptionField>(entry)) {
      if (field->form().type != OptionType::integer) continue;
      constexpr std::int64_t large = std::int64_t{1} << 62;
      const OptionValue value = field->form().is_list
                                    ? OptionValue(std::vector<std::int64_t>{large})
                                    : OptionValue(large);
      if (error_of([&] { field->assign(value); }) == "no error") found.insert(key);
    }
  }
}

// Numbers that are added or multiplied have a limit; the others need none.
TEST_F(ConfigTest, IntegersNearTheirLimitsAreRefusedOrSafe) {
  std::set<std::string> found;
  for (const std::string& attention : known_.attentions.names()) {
    for (const std::string& task : known_.tasks.names()) {
      Config config(known_);
      config.attention = known_.attentions.choose(attention);
      config.task = known_.tasks.choose(task);
      find_unbounded(*describe(config), "", found);
    }
  }
  EXPECT_THAT(found, ::testing::ElementsAre("attention.feature_seed", "attention.n_global",
                                            "attention.stride", "attention.topk",
                                            "attention.window", "train.seed"));
  EXPECT_EQ(error_with({"attention={kind: sparse, window: 9223372036854775807}"}), "no error");
  EXPECT_EQ(
      error_with({"model={d_model: 16, positions: relative, max_distance: 4611686018427387904}"}),
      "override model={d_model: 16, positions: relative, max_distance: 4611686018427387904}: "
      "model.max_distance: must be at most 1000000000000000, got 4611686018427387904");
}

TEST_F(ConfigTest, AnEarlyStopCanAct) {
  const auto with = [&](const std::string& metric, const std::string& threshold) {
    return error_with({"train.early_stop={metric: " + metric + ", threshold: " + threshold + "}"});
  };
  for (const char* threshold : {"99", "1.0001", "-0.1"})
    EXPECT_THAT(with("accuracy", threshold),
                HasSubstr("train.early_stop.threshold: an accuracy lies in [0, 1], got "));
  for (const char* threshold : {"0", "-1"})
    EXPECT_THAT(with("loss", threshold), HasSubstr("train.early_stop.threshold: no loss gets to "));
  for (const char* threshold : {"0.5", "1"}) {
    EXPECT_EQ(with("accuracy", threshold), "no error");
    EXPECT_EQ(with("loss", threshold), "no error");
  }
  EXPECT_EQ(with("loss", "99"), "no error");
}

// An attention that cannot work with the model around it is refused before anything is built.
TEST_F(ConfigTest, RefusesAttentionThatDoesNotGoWithTheModel) {
  const auto refusal_of = [&](const std::string& kind, const std::string& model) {
    const std::string text =
        "task: {name: mqar}\nmodel: {" + model + "}\nattention: {kind: " + kind;
    return error_of<ConfigError>([&] { config_of(text + "}\n", {}, known_); });
  };
  for (const std::string kind : {"conformal", "conformal_hierarchical", "linear", "performer"}) {
    for (const std::string positions : {"alibi", "relative"}) {
      EXPECT_THAT(refusal_of(kind, "positions: " + positions),
                  StartsWith("tiny.yaml:3:13: attention.kind: " + kind + ": positions " +
                             positions + " do not go with it: "));
    }
  }
  for (const std::string kind : {"conformal_hierarchical", "linear", "performer"}) {
    EXPECT_THAT(refusal_of(kind, "attention_dropout: 0.1"),
                StartsWith("tiny.yaml:3:13: attention.kind: " + kind + ": attention_dropout does"));
  }
  EXPECT_EQ(
      refusal_of("conformal", "d_model: 4, n_heads: 4"),
      "tiny.yaml:3:13: attention.kind: conformal: expected a head dimension of at least 2, got "
      "1");
  for (const std::string& kind : known_.attentions.names()) {
    for (const char* positions : {"learned", "rope", "none"}) {
      EXPECT_EQ(refusal_of(kind, std::string("positions: ") + positions), "no error") << kind;
    }
  }
}

TEST_F(ConfigTest, RefusesToTrainWithLandmarksThatLookAhead) {
  const auto refusal_of = [&](const std::string& source) {
    const std::string text =
        "task: {name: mqar}\nattention: {kind: conformal_hierarchical, far_field: landmarks, "
        "landmark_source: ";
    return error_of<ConfigError>([&] { config_of(text + source + "}\n", {}, known_); });
  };
  EXPECT_THAT(
      refusal_of("keys"),
      StartsWith("tiny.yaml:2:13: attention.kind: landmark_source: keys cannot be trained"));
  EXPECT_EQ(refusal_of("learned"), "no error");
}

// An option that would do nothing is an error, not a surprise.
TEST_F(ConfigTest, RefusesOptionsWithoutEffect) {
  EXPECT_THAT(error_with({"schedule.kind=constant", "schedule.min_lr_ratio=0.1"}),
              HasSubstr("schedule.min_lr_ratio: has no effect"));
  EXPECT_THAT(error_with({"eval.map_layers=[1]"}),
              HasSubstr("eval.map_layers: has no effect unless attention_maps: true"));
  EXPECT_THAT(error_with({"train.early_stop.threshold=0.9", "eval.every=0"}),
              HasSubstr("eval.every is 0"));
  EXPECT_THAT(error_with({"optimizer.name=sgd", "optimizer.momentum=0", "optimizer.nesterov=true"}),
              HasSubstr("optimizer.nesterov"));
  EXPECT_THAT(error_with({"train.early_stop.metric=loss"}),
              HasSubstr("train.early_stop.metric: has no effect unless threshold: NUMBER"));
  EXPECT_EQ(error_with({"model.rope_base=500"}),
            "override model.rope_base=500: model.rope_base: has no effect unless positions: rope");
  EXPECT_THAT(error_with({"model.max_distance=4", "model.positions=alibi"}),
              HasSubstr("model.max_distance: has no effect unless positions: relative"));
  EXPECT_THAT(error_with({"model.init=orthogonal", "model.init_std=0.1"}),
              HasSubstr("model.init_std: has no effect unless init: normal"));
  EXPECT_THAT(error_with({"attention={kind: conformal, weight: custom, s: 2, gamma: 1}"}),
              HasSubstr("attention.gamma: has no effect"));
  const auto error_of_pattern = [&](const std::string& pattern) {
    return error_with({"attention={kind: sparse, pattern: " + pattern + "}"});
  };
  EXPECT_THAT(error_of_pattern("topk, window: 8"),
              HasSubstr("attention.window: has no effect unless pattern: local or strided"));
  EXPECT_THAT(error_of_pattern("local, stride: 8"), HasSubstr("attention.stride: has no effect"));
  EXPECT_THAT(error_of_pattern("topk, n_global: 8"), HasSubstr("attention.n_global: has no"));
  EXPECT_THAT(error_of_pattern("strided, topk: 8"), HasSubstr("attention.topk: has no effect"));
}

// A resolved configuration states every value, even those without effect.
TEST_F(ConfigTest, TakesDefaultsWithoutEffect) {
  for (const std::string& kind : known_.attentions.names()) {
    for (const char* positions : {"none", "rope", "learned"}) {
      const std::vector<std::string> overrides = {"attention.kind=" + kind,
                                                  std::string("model.positions=") + positions};
      const std::string text = resolved_yaml(*config_of(kTinyRun, overrides, known_));
      EXPECT_EQ(error_of([&] { parse_config(text, "resolved", known_); }), "no error") << kind;
    }
  }
}

TEST_F(ConfigTest, ListsChanges) {
  const auto before = config_of(kTinyRun, {"task={name: mqar}"}, known_);
  const auto after = config_of(
      kTinyRun, {"optimizer.lr=0.25", "task={name: mqar, mixture: [{seq_len: 16, n_pairs: 2}]}"},
      known_);
  std::vector<std::string> found;
  for (const ConfigChange& change : changes(*before, *after)) {
    found.push_back(change.key + ": " + change.before + " -> " + change.after);
  }
  EXPECT_THAT(found, ::testing::UnorderedElementsAre(
                         "optimizer.lr: 0.001 -> 0.25", "task.mixture.0.seq_len:  -> 16",
                         "task.mixture.0.n_pairs:  -> 2", "task.mixture.0.weight:  -> 1.0"));
  EXPECT_TRUE(changes(*before, *before).empty());
}

TEST_F(ConfigTest, KnowsWhatMayChangeOnResume) {
  const auto recall =
      parse_config("task: {name: recall, vocab: 16, seq_len: 16}\n", "recall.yaml", known_);
  const auto lm = parse_config("task: {name: lm, text: a.txt, seq_len: 8}\n", "lm.yaml", known_);
  for (const char* key : {"task.text", "task.tokens", "task.validation", "task.tokenizer_model"}) {
    EXPECT_TRUE(may_change_on_resume(*lm, key)) << key << " says where, not what";
    EXPECT_FALSE(may_change_on_resume(*recall, key)) << key << " is not of this task";
  }
  EXPECT_FALSE(may_change_on_resume(*lm, "task.seq_len"));
  for (const char* key : {"task.vocab", "task.name", "model.d_model", "attention.kind",
                          "optimizer.name", "train.seed", "train.batch_size"}) {
    EXPECT_FALSE(may_change_on_resume(*recall, key)) << key;
  }
  for (const char* key : {"optimizer.lr", "train.max_steps", "train.threads", "eval.every",
                          "schedule.kind", "checkpoint.keep_last", "output.dir"}) {
    EXPECT_TRUE(may_change_on_resume(*recall, key)) << key;
  }
}

TEST(EarlyStop, IsReachedAtTheThreshold) {
  const Score half{.loss_sum = 2, .n_labels = 4, .n_correct = 2, .n_scored = 4};
  const auto reached = [&](Metric metric, std::optional<double> threshold) {
    return EarlyStopOptions{.metric = metric, .threshold = threshold}.is_reached(half);
  };
  EXPECT_FALSE(reached(Metric::accuracy, std::nullopt));
  EXPECT_TRUE(reached(Metric::accuracy, 0.5));
  EXPECT_FALSE(reached(Metric::accuracy, 0.51));
  EXPECT_TRUE(reached(Metric::loss, 0.5));
  EXPECT_FALSE(reached(Metric::loss, 0.49));
}

// The predictions of such a model mean nothing, however many of them are right.
TEST(EarlyStop, IsNeverReachedByAScoreThatIsNotFinite) {
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    const Score right{.loss_sum = loss, .n_labels = 4, .n_correct = 4, .n_scored = 4};
    for (const Metric metric : {Metric::loss, Metric::accuracy})
      EXPECT_FALSE((EarlyStopOptions{.metric = metric, .threshold = 1.0}.is_reached(right)));
  }
}

}  // namespace
}  // namespace mobius::config_test
