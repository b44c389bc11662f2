#include "train/config/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <sstream>
#include <utility>

#include "tests/error_of.h"
#include "tests/train/config_fixture.h"
#include "train/config/reader.h"

namespace mobius::writer_test {
namespace {

using config_fixture::Precision;
using config_fixture::RunOptions;
using config_fixture::Sparse;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

RunOptions read_back(const std::string& yaml) {
  RunOptions run;
  read_config(ConfigDocument::from_text(yaml, "resolved.yaml"), *describe(run));
  return run;
}

TEST(ConfigWriter, WritesValuesThatEveryReaderTakesAlike) {
  const std::vector<std::pair<OptionValue, std::string>> table{
      {OptionValue{}, "null"},
      {true, "true"},
      {std::int64_t{-3}, "-3"},
      {1e-4, "1.0e-04"},
      {1.5e300, "1.5e+300"},
      {3.0, "3.0"},
      {0.1, "0.1"},
      {-0.0, "-0.0"},
      {std::string("runs/a_1.yaml"), "runs/a_1.yaml"},
      {std::string("../x"), "../x"},
      {std::string(""), "\"\""},
      {std::string("no"), "\"no\""},
      {std::string("Null"), "\"Null\""},
      {std::string("1e-4"), "\"1e-4\""},
      {std::string(".5"), "\".5\""},
      {std::string("a: b"), "\"a: b\""},
      {std::string("say \"hi\"\\\n"), "\"say \\\"hi\\\"\\\\\\x0a\""},
      {std::vector<std::int64_t>{}, "[]"},
      {std::vector<double>{0.9, 1}, "[0.9, 1.0]"},
      {std::vector<std::string>{"a", "b, c"}, "[a, \"b, c\"]"}};
  for (const auto& [value, yaml] : table) EXPECT_EQ(to_yaml(value), yaml);
}

TEST(ConfigWriter, WritesTheResolvedConfigurationInOrder) {
  RunOptions run;
  run.optimizer.lr = 3e-4;
  run.optimizer.clip.reset();
  run.mixture.resize(2);
  run.mixture[1].seq_len = 128;
  run.attention = run.registry.choose("sparse");
  EXPECT_EQ(to_yaml(*describe(run)),
            "task:\n"
            "  mixture:\n"
            "    - {seq_len: 64, n_pairs: 4}\n"
            "    - {seq_len: 128, n_pairs: 4}\n"
            "model:\n"
            "  d_model: 128\n"
            "  n_heads: 4\n"
            "  tied: true\n"
            "  mlp:\n"
            "    kind: swiglu\n"
            "    dropout: 0.0\n"
            "attention:\n"
            "  kind: sparse\n"
            "  window: 64\n"
            "  pattern: local\n"
            "optimizer:\n"
            "  lr: 3.0e-04\n"
            "  betas: [0.9, 0.95]\n"
            "  clip: null\n"
            "train:\n"
            "  max_steps: 1000\n"
            "  save_at: []\n"
            "  precision: f32\n"
            "output:\n"
            "  note: \"\"\n"
            "  tags: []\n");
}

TEST(ConfigWriter, EmptySectionsAndListsReadBack) {
  Schema schema;
  schema.section("nothing", "an empty section");
  EXPECT_EQ(to_yaml(schema), "nothing: {}\n");
  read_config(ConfigDocument::from_text(to_yaml(schema), "resolved.yaml"), schema);
}

TEST(ConfigWriter, WhatItWritesReadsBackToTheIdenticalValues) {
  RunOptions run;
  run.mixture = {{256, 3}, {32, 8}};
  run.model.tied = false;
  run.model.mlp = {"gelu", 0.1 + 0.2};
  run.attention = run.registry.choose("sparse");
  dynamic_cast<Sparse&>(*run.attention) = Sparse();
  dynamic_cast<Sparse&>(*run.attention).window = 6;
  dynamic_cast<Sparse&>(*run.attention).pattern = "strided";
  run.optimizer.lr = std::numeric_limits<double>::denorm_min();
  run.optimizer.betas = {-0.0, std::nextafter(1.0, 0.0)};
  run.max_steps = std::numeric_limits<std::int64_t>::max();
  run.save_at = {1, 9007199254740993};
  run.precision = Precision::f64;
  run.note = "tab\t, newline\n, quote \" \\ ' # : - {} \x01 \x7f \u009b \xc3\xa9";
  run.tags = {"", "no", "~", "null", "- x", "1_000", "0x1", "@a", "*b", "&c", "%d", " pad ", "a#b"};
  const std::string yaml = to_yaml(*describe(run));
  EXPECT_EQ(yaml.find("\u009b"), std::string::npos);
  RunOptions again = read_back(yaml);
  EXPECT_EQ(to_yaml(*describe(again)), yaml);
  EXPECT_EQ(again.note, run.note);
  EXPECT_EQ(again.tags, run.tags);
  EXPECT_EQ(again.save_at, run.save_at);
  EXPECT_EQ(again.max_steps, run.max_steps);
  EXPECT_EQ(again.optimizer.lr, run.optimizer.lr);
  EXPECT_EQ(again.model.mlp.dropout, run.model.mlp.dropout);
  EXPECT_EQ(again.precision, run.precision);
  EXPECT_EQ(again.mixture.at(1).n_pairs, 8);
  EXPECT_EQ(dynamic_cast<Sparse&>(*again.attention).window, 6);
  EXPECT_TRUE(std::signbit(again.optimizer.betas.at(0)));
}

TEST(ConfigWriter, RandomDoublesSurviveToTheBit) {
  std::mt19937_64 random(7);
  RunOptions run;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t bits = random() & 0x7fffffffffffffffu;  // positive
    std::memcpy(&run.optimizer.lr, &bits, sizeof(bits));
    if (!std::isfinite(run.optimizer.lr)) continue;
    EXPECT_EQ(read_back(to_yaml(*describe(run))).optimizer.lr, run.optimizer.lr);
  }
}

TEST(ConfigHelp, ListsEveryKeyOfEveryKind) {
  RunOptions run;
  const auto schema = describe(run);
  const std::string help = help_text({schema.get()});
  EXPECT_THAT(help, HasSubstr("task: what is learned\n"
                              "  task.mixture  list of sections  []    sizes, mixed evenly\n"));
  EXPECT_THAT(help, HasSubstr("each of task.mixture: sizes, mixed evenly\n"
                              "  task.mixture.N.seq_len  integer  64  > 0  tokens\n"
                              "  task.mixture.N.n_pairs  integer  4   > 0  key-value pairs\n"));
  EXPECT_THAT(
      help, HasSubstr("model: the network\n"
                      "  model.d_model  integer  128   >= 1  width\n"
                      "  model.n_heads  integer  4     >= 1  heads\n"
                      "  model.tied     boolean  true        share the embedding with the head\n"));
  EXPECT_THAT(help, HasSubstr("model.mlp: the feed-forward part\n"
                              "  model.mlp.kind     text    swiglu  swiglu | gelu  form\n"));
  EXPECT_THAT(help, HasSubstr("attention: how tokens meet\n"
                              "  attention.kind  text  softmax  softmax | sparse  which attention\n"
                              "\n"
                              "with attention.kind=softmax: scaled dot product\n"
                              "  attention.scale  number  1.0  > 0  of the scores\n"
                              "\n"
                              "with attention.kind=sparse: a window of keys\n"
                              "  attention.window   integer  64     > 0"));
  EXPECT_THAT(help, HasSubstr("optimizer.lr     number           required     > 0        peak"));
  EXPECT_THAT(help, HasSubstr("optimizer.clip   number or null   1.0          > 0        largest"));
}

TEST(ConfigHelp, IsOfASectionAKindOrAKeyAlone) {
  RunOptions run;
  const auto schema = describe(run);
  const auto help = [&](const std::string& about) { return help_text({schema.get()}, about); };
  EXPECT_EQ(help("model.mlp"),
            "model.mlp: the feed-forward part\n"
            "  model.mlp.kind     text    swiglu  swiglu | gelu  form\n"
            "  model.mlp.dropout  number  0.0     in [0, 1)      share of units dropped\n");
  EXPECT_THAT(help("model"), AllOf(StartsWith("model: "), HasSubstr("model.mlp.kind")));
  EXPECT_THAT(help("attention"), HasSubstr("with attention.kind=sparse"));
  EXPECT_EQ(help("attention.kind=softmax"),
            "with attention.kind=softmax: scaled dot product\n"
            "  attention.scale  number  1.0  > 0  of the scores\n");
  EXPECT_EQ(help("train.max_steps"),
            "train: the loop\n  train.max_steps  integer  1000  >= 0  steps\n");
  EXPECT_THAT(help("task.mixture"), HasSubstr("task.mixture.N.seq_len"));
  EXPECT_EQ(error_of<ConfigError>([&] { help("modle"); }),
            "config help: there is no section or key 'modle'; did you mean 'model'?");
  EXPECT_EQ(error_of<ConfigError>([&] { help("zzz"); }),
            "config help: there is no section or key 'zzz'; 'mobius config help' lists all");
}

TEST(ConfigHelp, SaysWhenAKeyIsRead) {
  bool is_on = false;
  double strength = 1;
  Schema schema;
  schema.field("strength", strength, "of it").only_if([&] { return is_on; }, "is_on: true");
  EXPECT_EQ(help_text({&schema}), "  strength  number  1.0    of it; only with is_on: true\n");
}

TEST(ConfigHelp, FitsTheWidth) {
  RunOptions run;
  const auto schema = describe(run);
  const std::string help = help_text({schema.get()}, "", 40);
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 40u) << line;
  EXPECT_THAT(help, HasSubstr("  optimizer.clip: number or null,\n"
                              "      default 1.0, > 0\n"
                              "      largest gradient norm, null for\n"
                              "      none\n"));
}

}  // namespace
}  // namespace mobius::writer_test
