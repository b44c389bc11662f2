#include "train/config/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/error_of.h"
#include "tests/train/config_fixture.h"
#include "train/config/writer.h"

namespace mobius::reader_test {
namespace {

using config_fixture::Precision;
using config_fixture::RunOptions;
using config_fixture::Softmax;
using config_fixture::Sparse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kBase = "optimizer: {lr: 1e-3}\n";

void read_into(RunOptions& run, const std::string& text,
               const std::vector<std::string>& overrides = {}) {
  ConfigDocument document = ConfigDocument::from_text(text, "f.yaml");
  for (const std::string& assignment : overrides) document.override_with(assignment);
  read_config(document, *describe(run));
}

std::string refusal_of_text(const std::string& text) {
  RunOptions run;
  return error_of<ConfigError>([&] { read_into(run, text); });
}

// Returns the error of a correct file with this text after it.
std::string refusal_of(const std::string& text) { return refusal_of_text(kBase + text); }

std::string refusal_of_override(const std::string& assignment) {
  RunOptions run;
  return error_of<ConfigError>([&] { read_into(run, kBase, {assignment}); });
}

TEST(ConfigReader, SetsEverySortOfKey) {
  RunOptions run;
  read_into(run,
            "task:\n"
            "  mixture: [{seq_len: 32, n_pairs: 2}, {seq_len: 128}]\n"
            "model:\n"
            "  d_model: 64\n"
            "  tied: false\n"
            "  mlp:\n"
            "    kind: gelu\n"
            "    dropout: .5\n"
            "attention: {window: 8, kind: sparse}\n"
            "optimizer:\n"
            "  lr: 1e-4\n"
            "  betas: [0, 0.99]\n"
            "  clip: null\n"
            "train: {max_steps: 1e3, save_at: [10, 1e2], precision: f64}\n"
            "output:\n"
            "  note: no\n"
            "  tags: [1e-4, 'true', on]\n");
  ASSERT_EQ(run.mixture.size(), 2u);
  EXPECT_EQ(run.mixture[0].n_pairs, 2);
  EXPECT_EQ(run.mixture[1].seq_len, 128);
  EXPECT_EQ(run.mixture[1].n_pairs, 4);
  EXPECT_EQ(run.model.d_model, 64);
  EXPECT_EQ(run.model.n_heads, 4);
  EXPECT_FALSE(run.model.tied);
  EXPECT_EQ(run.model.mlp.kind, "gelu");
  EXPECT_EQ(run.model.mlp.dropout, 0.5);
  EXPECT_EQ(run.attention.name, "sparse");
  EXPECT_EQ(dynamic_cast<Sparse&>(*run.attention).window, 8);
  EXPECT_EQ(run.optimizer.lr, 1e-4);
  EXPECT_THAT(run.optimizer.betas, ElementsAre(0, 0.99));
  EXPECT_FALSE(run.optimizer.clip.has_value());
  EXPECT_EQ(run.max_steps, 1000);
  EXPECT_THAT(run.save_at, ElementsAre(10, 100));
  EXPECT_EQ(run.precision, Precision::f64);
  EXPECT_EQ(run.note, "no");
  EXPECT_THAT(run.tags, ElementsAre("1e-4", "true", "on"));
}

TEST(ConfigReader, LeavesWhatIsNotMentionedAtItsDefault) {
  RunOptions run;
  read_into(run, kBase);
  EXPECT_EQ(to_yaml(*describe(run)), [] {
    RunOptions untouched;
    untouched.optimizer.lr = 1e-3;
    return to_yaml(*describe(untouched));
  }());
}

TEST(ConfigReader, OverridesWinOverTheFile) {
  RunOptions run;
  read_into(run, "optimizer: {lr: 1e-3, betas: [0.5, 0.5]}\ntask: {mixture: [{seq_len: 32}]}\n",
            {"optimizer.lr=+3", "optimizer.betas=[.1, 0.2]", "task.mixture.0.seq_len=0x100",
             "attention.kind=sparse", "attention.window=2", "output.note=", "output.note=\"\"",
             "model.mlp.dropout=1.e-4"});
  EXPECT_EQ(run.optimizer.lr, 3);
  EXPECT_THAT(run.optimizer.betas, ElementsAre(0.1, 0.2));
  EXPECT_EQ(run.mixture.at(0).seq_len, 256);
  EXPECT_EQ(dynamic_cast<Sparse&>(*run.attention).window, 2);
  EXPECT_EQ(run.note, "");
  EXPECT_EQ(run.model.mlp.dropout, 1e-4);
}

// Keys are misspelt at every depth, in the file and in overrides.
TEST(ConfigReader, RefusesMisspeltKeysAtEveryDepth) {
  const std::vector<std::pair<std::string, std::string>> in_file{
      {"trian: {max_steps: 1}\n", "f.yaml:2:1: trian: unknown key; did you mean 'train'?"},
      {"train:\n  max_step: 1\n",
       "f.yaml:3:3: train.max_step: unknown key; did you mean 'train.max_steps'?"},
      {"model:\n  mpl: {kind: gelu}\n",
       "f.yaml:3:3: model.mpl: unknown key; did you mean 'model.mlp'?"},
      {"model:\n  mlp:\n    droput: 0.1\n",
       "f.yaml:4:5: model.mlp.droput: unknown key; did you mean 'model.mlp.dropout'?"},
      {"attention:\n  kid: sparse\n",
       "f.yaml:3:3: attention.kid: unknown key; did you mean 'attention.kind'?"},
      {"attention:\n  kind: sparse\n  windw: 8\n",
       "f.yaml:4:3: attention.windw: unknown key; did you mean 'attention.window'?"},
      {"attention:\n  windw: 8\n",
       "f.yaml:3:3: attention.windw: unknown key; did you mean 'attention.window'?"},
      {"task:\n  mixture:\n    - seqlen: 32\n",
       "f.yaml:4:7: task.mixture.0.seqlen: unknown key; did you mean 'task.mixture.0.seq_len'?"}};
  for (const auto& [text, message] : in_file) EXPECT_EQ(refusal_of(text), message) << text;

  const std::vector<std::pair<std::string, std::string>> in_override{
      {"trian.max_steps=1", "trian: unknown key; did you mean 'train'?"},
      {"train.max_step=1", "train.max_step: unknown key; did you mean 'train.max_steps'?"},
      {"model.mpl.kind=gelu", "model.mpl: unknown key; did you mean 'model.mlp'?"},
      {"model.mlp.droput=0.1", "model.mlp.droput: unknown key; did you mean 'model.mlp.dropout'?"},
      {"attention.kid=sparse", "attention.kid: unknown key; did you mean 'attention.kind'?"},
      {"task.mixture=[{seqlen: 3}]",
       "task.mixture.0.seqlen: unknown key; did you mean 'task.mixture.0.seq_len'?"}};
  for (const auto& [assignment, message] : in_override) {
    EXPECT_EQ(refusal_of_override(assignment), "override " + assignment + ": " + message);
  }
}

TEST(ConfigReader, RefusesMisplacedKeys) {
  EXPECT_EQ(refusal_of("lr: 1\n"), "f.yaml:2:1: lr: unknown key; did you mean 'optimizer.lr'?");
  EXPECT_EQ(refusal_of("kind: gelu\n"),
            "f.yaml:2:1: kind: unknown key; did you mean 'model.mlp.kind' or 'attention.kind'?");
  EXPECT_EQ(refusal_of("model.mlp.dropout: 0\n"),
            "f.yaml:2:1: model.mlp.dropout: unknown key; dotted paths are for overrides, in a file "
            "sections are nested");
  EXPECT_EQ(refusal_of("task:\n  zebra: 1\n"),
            "f.yaml:3:3: task.zebra: unknown key; known here: mixture");
}

TEST(ConfigReader, RefusesKeysOfAnotherKind) {
  EXPECT_EQ(refusal_of("attention:\n  kind: softmax\n  window: 8\n"),
            "f.yaml:4:3: attention.window: not an option of attention.kind softmax; it belongs to: "
            "sparse");
  EXPECT_EQ(refusal_of("attention:\n  kind: sparse\n  scale: 8\n"),
            "f.yaml:4:3: attention.scale: not an option of attention.kind sparse; it belongs to: "
            "softmax");
  EXPECT_EQ(refusal_of_override("attention.window=8"),
            "override attention.window=8: attention.window: not an option of attention.kind "
            "softmax; it belongs to: sparse");
}

TEST(ConfigReader, NamesTheOverrideThatReplacesASectionOfAnotherKind) {
  ConfigDocument document =
      ConfigDocument::from_text(kBase + "attention: {kind: sparse, window: 8}\n", "f.yaml");
  document.override_with("attention.kind=softmax");
  RunOptions run;
  EXPECT_EQ(
      error_of<ConfigError>([&] { read_config(document, *describe(run)); }),
      "f.yaml:2:27: attention.window: not an option of attention.kind softmax; it belongs to: "
      "sparse; for another section in its place give 'attention={kind: softmax}'");
  document.override_with("attention={kind: softmax}");
  EXPECT_NO_THROW(read_config(document, *describe(run)));
}

TEST(ConfigReader, RefusesUnknownKindsAndChoices) {
  EXPECT_EQ(refusal_of("attention:\n  window: 8\n  kind: sparce\n"),
            "f.yaml:4:9: attention.kind: unknown name 'sparce'; did you mean 'sparse'?");
  EXPECT_EQ(refusal_of("attention: {kind: zebra}\n"),
            "f.yaml:2:19: attention.kind: unknown name 'zebra'; known: softmax, sparse");
  EXPECT_EQ(refusal_of("attention: {kind: }\n"),
            "f.yaml:2:19: attention.kind: expected a name, got null");
  EXPECT_EQ(refusal_of("attention: {kind: [sparse]}\n"),
            "f.yaml:2:19: attention.kind: expected a name, got a list");
  EXPECT_EQ(refusal_of("model: {mlp: {kind: glu}}\n"),
            "f.yaml:2:21: model.mlp.kind: unknown choice 'glu'; did you mean 'gelu'?");
  EXPECT_EQ(refusal_of("train: {precision: f46}\n"),
            "f.yaml:2:20: train.precision: unknown choice 'f46'; did you mean 'f64'?");
}

TEST(ConfigReader, RefusesWrongTypes) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"model: {d_model: 1.5}\n", "f.yaml:2:18: model.d_model: expected integer, got '1.5'"},
      {"model: {d_model: '64'}\n",
       "f.yaml:2:18: model.d_model: expected integer, got the quoted text '64': remove the quotes"},
      {"model: {d_model: [64]}\n", "f.yaml:2:18: model.d_model: expected integer, got a list"},
      {"model: {d_model: {x: 1}}\n", "f.yaml:2:18: model.d_model: expected integer, got a section"},
      {"model: {d_model: 012}\n",
       "f.yaml:2:18: model.d_model: '012' has a leading zero: octal to some YAML readers, decimal "
       "to others"},
      {"model: {d_model: 3000000000}\n",
       "f.yaml:2:18: model.d_model: must be in [-2147483648, 2147483647], got 3000000000"},
      {"model: {tied: yes}\n", "f.yaml:2:15: model.tied: expected true or false, got 'yes'"},
      {"model: {tied: \"true\"}\n",
       "f.yaml:2:15: model.tied: expected true or false, got the quoted text 'true': remove the "
       "quotes"},
      {"model: {mlp: {dropout: no}}\n",
       "f.yaml:2:24: model.mlp.dropout: expected number, got 'no'"},
      {"model: {mlp: {dropout: \"1e-4\"}}\n",
       "f.yaml:2:24: model.mlp.dropout: expected number, got the quoted text '1e-4': remove the "
       "quotes"},
      {"model: {mlp: {dropout: .inf}}\n",
       "f.yaml:2:24: model.mlp.dropout: must be finite, got '.inf'"},
      {"model: {mlp: {dropout: 1_000}}\n",
       "f.yaml:2:24: model.mlp.dropout: expected number, got '1_000': write 1000"},
      {"train:\n  save_at: 3\n", "f.yaml:3:12: train.save_at: expected list of integers, got '3'"},
      {"train:\n  save_at: [1, x]\n", "f.yaml:3:12: train.save_at: expected integer, got 'x'"},
      {"train:\n  save_at: [1, [2]]\n",
       "f.yaml:3:12: train.save_at: element 1 must be a single value, got a list"},
      {"output:\n  tags: [a, null]\n",
       "f.yaml:3:9: output.tags: element 1 must be a single value, got null"},
      {"model: 3\n", "f.yaml:2:8: model: expected a section of key: value, got '3'"},
      {"model: [d_model]\n", "f.yaml:2:8: model: expected a section of key: value, got a list"},
      {"task: {mixture: {seq_len: 3}}\n",
       "f.yaml:2:17: task.mixture: expected a list of sections, got a section"},
      {"task: {mixture: [3]}\n",
       "f.yaml:2:18: task.mixture.0: expected a section of key: value, got '3'"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of(text), message) << text;
  EXPECT_EQ(refusal_of_override("model.d_model=fast"),
            "override model.d_model=fast: model.d_model: expected integer, got 'fast'");
}

TEST(ConfigReader, RefusesNullWhereItIsNoValue) {
  EXPECT_EQ(refusal_of("model: {d_model: null}\n"),
            "f.yaml:2:18: model.d_model: expected integer, got null");
  EXPECT_EQ(refusal_of("output:\n  note:\n"), "f.yaml:3:3: output.note: expected text, got null");
  EXPECT_EQ(refusal_of("output:\n  tags: ~\n"),
            "f.yaml:3:9: output.tags: expected list of texts, got null");
  EXPECT_EQ(refusal_of("model:\n"),
            "f.yaml:2:1: model: expected a section of key: value, got null; for the defaults leave "
            "it out");
  EXPECT_EQ(refusal_of("model: {}\n"), "no error");
}

TEST(ConfigReader, RefusesValuesOutOfRange) {
  EXPECT_EQ(refusal_of_text("optimizer:\n  lr: 0\n"),
            "f.yaml:2:7: optimizer.lr: must be > 0, got 0");
  EXPECT_EQ(refusal_of_text("optimizer:\n  lr: 1\n  betas:\n    - 0.5\n    - 1.0\n"),
            "f.yaml:4:5: optimizer.betas: must be in [0, 1), got 1");
  EXPECT_EQ(refusal_of_override("optimizer.clip=-1"),
            "override optimizer.clip=-1: optimizer.clip: must be > 0, got -1");
}

TEST(ConfigReader, RefusesMissingRequiredKeys) {
  const std::string problem = "optimizer.lr: missing, and it has no default (peak learning rate)";
  EXPECT_EQ(refusal_of_text("model: {}\n"), "f.yaml:1:1: " + problem);
  EXPECT_EQ(refusal_of_text("model: {}\noptimizer:\n  clip: 1\n"), "f.yaml:2:1: " + problem);
  RunOptions run;
  run.attention = {};
  EXPECT_EQ(error_of<ConfigError>([&] { read_into(run, kBase); }),
            "f.yaml:1:1: attention.kind: missing, and it has no default; known: softmax, sparse");
}

TEST(ConfigReader, RunsChecksAndBlamesTheKey) {
  EXPECT_EQ(refusal_of("model:\n  d_model: 64\n  n_heads: 5\n"),
            "f.yaml:4:3: model.n_heads: must divide model.d_model 64, got 5");
  EXPECT_EQ(refusal_of("model:\n  d_model: 6\n"),
            "f.yaml:2:1: model.n_heads: must divide model.d_model 6, got 4");
  EXPECT_EQ(refusal_of_override("model.n_heads=3"),
            "override model.n_heads=3: model.n_heads: must divide model.d_model 128, got 3");
  EXPECT_EQ(refusal_of("attention:\n  kind: sparse\n  window: 3\n"),
            "f.yaml:4:3: attention.window: must be even, got 3");
  EXPECT_EQ(refusal_of("task:\n  mixture:\n    - {}\n    - seq_len: 64\n      n_pairs: 17\n"),
            "f.yaml:6:7: task.mixture.1.n_pairs: 17 pairs need seq_len 68");
}

TEST(ConfigReader, ReportsAllFaultsAtOnce) {
  EXPECT_EQ(refusal_of("model:\n  d_model: x\n  heads: 2\ntrian: {}\n"),
            "f.yaml:3:12: model.d_model: expected integer, got 'x'; also "
            "f.yaml:4:3: model.heads: unknown key; did you mean 'model.n_heads'?; also "
            "f.yaml:5:1: trian: unknown key; did you mean 'train'?");
}

TEST(ConfigReader, EndsAfterAFewFaults) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += fmt::format("k{}: 1\n", i);
  const std::string refusal = refusal_of(text);
  EXPECT_LT(refusal.size(), 2000u);
  EXPECT_TRUE(refusal.ends_with("; and so on")) << refusal;
}

// Damaged text is read or refused with a ConfigError, and never anything else.
TEST(ConfigReader, SurvivesDamagedText) {
  const std::string text =
      "task: {mixture: [{seq_len: 32, n_pairs: 2}]}\n"
      "model:\n  mlp: {kind: gelu}\n  d_model: 0x40\n"
      "attention: {kind: sparse, window: 8}\n"
      "optimizer:\n  lr: 1e-4\n  betas:\n    - .5\n    - 0.99\n"
      "output: {note: 'x', tags: [a, \"b\"]}\n";
  const std::string alphabet = "{}[]:,'\"#&*!|>-?%@` \n\t\r\x04\xff.0e_~ab" + std::string(1, '\0');
  std::mt19937 random(11);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = text;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % damaged.size();
      const std::string letter(1, alphabet[random() % alphabet.size()]);
      damaged.replace(at, random() % 3, random() % 4 == 0 ? "" : letter);
    }
    EXPECT_NO_THROW(accepted += refusal_of_text(damaged) == "no error") << damaged;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 2000);
}

TEST(ConfigReader, NamingTheDefaultKindKeepsItsDefaults) {
  RunOptions run;
  dynamic_cast<Softmax&>(*run.attention).scale = 3;
  read_into(run, kBase + "attention: {kind: softmax}\n");
  EXPECT_EQ(dynamic_cast<Softmax&>(*run.attention).scale, 3);
}

}  // namespace
}  // namespace mobius::reader_test
