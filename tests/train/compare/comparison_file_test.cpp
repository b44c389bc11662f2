#include "train/compare/comparison_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "core/error.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"
#include "tests/train/config_fixture.h"
#include "train/config/reader.h"

namespace mobius::comparison_file_test {
namespace {

using config_fixture::RunOptions;
using config_fixture::Sparse;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ComparisonJob> jobs_of(const std::string& text) {
  return expand_comparison(ConfigDocument::from_text(text, "c.yaml"));
}

std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names;
  for (const ComparisonJob& job : jobs_of(text)) names.push_back(job.name);
  return names;
}

std::string refusal_of(const std::string& text) {
  return error_of<ConfigError>([&] { jobs_of(text); });
}

RunOptions run_of(const ComparisonJob& job) {
  RunOptions run;
  read_config(job.document, *describe(run));
  return run;
}

TEST(ComparisonFile, ChangeOneBase) {
  const std::vector<ComparisonJob> variations = jobs_of(
      "optimizer: {lr: 1e-3, clip: 2}\n"
      "variations:\n"
      "  - name: softmax\n"
      "    attention.kind: softmax\n"
      "  - name: sparse-8\n"
      "    attention: {kind: sparse, window: 8}\n"
      "    optimizer: {lr: 5}\n");
  ASSERT_EQ(variations.size(), 2u);
  const RunOptions first = run_of(variations[0]), second = run_of(variations[1]);
  EXPECT_EQ(variations[0].name, "softmax");
  EXPECT_EQ(first.attention.name, "softmax");
  EXPECT_EQ(first.optimizer.lr, 1e-3);
  EXPECT_EQ(variations[1].name, "sparse-8");
  EXPECT_EQ(dynamic_cast<Sparse&>(*second.attention).window, 8);
  EXPECT_EQ(second.optimizer.lr, 5);
  EXPECT_EQ(second.optimizer.clip, 2);
}

TEST(ComparisonFile, MistakesKeepTheirPlace) {
  const std::vector<ComparisonJob> variations = jobs_of(
      "optimizer: {lr: 1e-3}\n"
      "variations:\n"
      "  - name: a\n"
      "    attention.windw: 3\n"
      "  - name: b\n"
      "    model:\n"
      "      mlp: {droput: 1}\n");
  const auto refusal_of_variation = [&](std::size_t i) {
    return error_of<ConfigError>([&] { run_of(variations.at(i)); });
  };
  EXPECT_EQ(refusal_of_variation(0),
            "c.yaml:4:5: attention.windw: unknown key; did you mean 'attention.window'?");
  EXPECT_EQ(refusal_of_variation(1),
            "c.yaml:7:13: model.mlp.droput: unknown key; did you mean 'model.mlp.dropout'?");
}

TEST(ComparisonFile, OverridesReachTheBaseAndTheVariations) {
  ConfigDocument comparison = ConfigDocument::from_text(
      "optimizer: {lr: 1e-3}\nvariations: [{name: a, train.max_steps: 3}]\n", "c.yaml");
  comparison.override_with("variations.0.name=b");
  comparison.override_with("optimizer.lr=2");
  const std::vector<ComparisonJob> variations = expand_comparison(comparison);
  const RunOptions run = run_of(variations.at(0));
  EXPECT_EQ(variations[0].name, "b");
  EXPECT_EQ(run.optimizer.lr, 2);
  EXPECT_EQ(run.max_steps, 3);
}

TEST(ComparisonFile, MayStartFromAnotherFile) {
  const TemporaryFolder folder;
  write_text(folder / "base.yaml", "optimizer:\n  lr: 1e-3\n  clip: -2\n");
  const auto expand = [&](const std::string& text) {
    return expand_comparison(ConfigDocument::from_text(text, "c.yaml", folder.path()));
  };
  const std::string list = "variations: [{name: a}]\n";
  const RunOptions run = run_of(expand("base: base.yaml\noptimizer: {clip: 3}\n" + list).at(0));
  EXPECT_EQ(run.optimizer.lr, 1e-3);
  EXPECT_EQ(run.optimizer.clip, 3);
  EXPECT_EQ(error_of<ConfigError>([&] { run_of(expand("base: base.yaml\n" + list).at(0)); }),
            std::string(folder / "base.yaml") + ":3:9: optimizer.clip: must be > 0, got -2");
  EXPECT_THAT(error_of<ConfigError>([&] { expand("base: none.yaml\n" + list); }),
              HasSubstr("none.yaml: cannot be opened"));
  // An override replaces sections of the base like those of the file itself.
  ConfigDocument comparison =
      ConfigDocument::from_text("base: base.yaml\n" + list, "c.yaml", folder.path());
  comparison.override_with("optimizer={lr: 7}");
  EXPECT_EQ(run_of(expand_comparison(comparison).at(0)).optimizer.lr, 7);
}

TEST(ComparisonFile, RefusesListsThatAreNone) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"a: 1\n",
       "c.yaml:1:1: variations: missing; a comparison has variations, a grid, or both; one run is "
       "trained by 'mobius train c.yaml'"},
      {"base: x\n",
       "c.yaml:1:1: variations: missing; a comparison has variations, a grid, or both"},
      {"variations: []\n", "c.yaml:1:13: variations: expected a list of named variations"},
      {"variations: {a: 1}\n", "c.yaml:1:13: variations: expected a list of named variations"},
      {"variations: [a]\n",
       "c.yaml:1:14: variations.0: expected a map with a name and overrides, got 'a'"},
      {"variations: [{a: 1}]\n", "c.yaml:1:14: variations.0.name: missing"},
      {"variations: [{name: a/b}]\n",
       "c.yaml:1:21: variations.0.name: expected a name of letters, digits, '.', '_' and '-', got "
       "'a/b'"},
      {"variations: [{name: ..}]\n",
       "c.yaml:1:21: variations.0.name: expected a name of letters, digits, '.', '_' and '-', got "
       "'..'"},
      {"variations:\n  - name: a\n  - name: a\n",
       "c.yaml:3:11: variations.1.name: 'a' is given twice"},
      {"variations:\n  - name: W2\n  - name: w2\n",
       "c.yaml:3:11: variations.1.name: 'w2' is given twice, but for capitals"},
      {"base: [x]\nvariations: [{name: a}]\n",
       "c.yaml:1:7: base: expected a file name, got a list"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of(text), message) << text;
}

TEST(ComparisonFile, AGridIsEveryCombination) {
  std::vector<std::string> seen;
  for (const ComparisonJob& job : jobs_of("optimizer: {clip: 2}\n"
                                          "grid:\n"
                                          "  optimizer: {lr: [1e-3, 2]}\n"
                                          "  attention.kind: [softmax, sparse]\n")) {
    const RunOptions run = run_of(job);
    EXPECT_EQ(run.optimizer.clip, 2);
    seen.push_back(fmt::format("{}: {} {}", job.name, run.attention.name, run.optimizer.lr));
  }
  EXPECT_THAT(seen, ElementsAre("softmax-lr=1e-3: softmax 0.001", "softmax-lr=2: softmax 2",
                                "sparse-lr=1e-3: sparse 0.001", "sparse-lr=2: sparse 2"));
}

// Numbers are compared by value, texts by their characters.
TEST(ComparisonFile, AValueOfAGridIsGivenOnce) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"grid: {a: [1, 1]}\n", "c.yaml:1:15: grid.a: 1 is given twice, first at c.yaml:1:12"},
      {"grid: {optimizer.lr: [1e-3, 2, 0.001]}\n",
       "c.yaml:1:32: grid.optimizer.lr: 0.001 is given twice, first at c.yaml:1:23 as 1e-3"},
      {"grid: {train.seed: [16, 0x10]}\n",
       "c.yaml:1:25: grid.train.seed: 0x10 is given twice, first at c.yaml:1:21 as 16"},
      {"grid: {a: [[0.9, 1], [.9, 1.0]]}\n",
       "c.yaml:1:22: grid.a: .9_1.0 is given twice, first at c.yaml:1:12 as 0.9_1"},
      {"grid: {a: [null, ~]}\n", "c.yaml:1:18: grid.a: null is given twice, first at c.yaml:1:12"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of(text), message) << text;
  EXPECT_THAT(names_of("grid: {train.seed: [9007199254740992, 9007199254740993]}\n"),
              ElementsAre("seed=9007199254740992", "seed=9007199254740993"));
  EXPECT_EQ(names_of("grid: {a: [1e-3, '0.001', x]}\n").size(), 3u);
}

TEST(ComparisonFile, RunsAreNotCalledLikeFilesOfOurs) {
  const auto refusal_of_name = [](const std::string& name) {
    return refusal_of("variations: [{name: " + name + "}]\n");
  };
  for (const std::string name :
       {"report.html", "comparison.csv", "comparison.json", "checkpoints", "config.yaml",
        "metrics.jsonl", "summary.json", "tensorboard", "log.txt", "attention_maps.json",
        "Report.HTML", "CHECKPOINTS", "x.mobius-0123abcd.tmp"}) {
    EXPECT_EQ(refusal_of_name(name),
              "c.yaml:1:21: variations.0.name: '" + name +
                  "' is the name of what a comparison or a run writes itself");
  }
  EXPECT_THAT(refusal_of_name("-softmax"), HasSubstr("begins with '-', as options do"));
  EXPECT_THAT(refusal_of_name(std::string(201, 'a')), HasSubstr("a run's name of 201 characters"));
  for (const std::string name : {".", "..", "' a'", "'a '", "a/b", "''", "'a\\b'"}) {
    EXPECT_THAT(refusal_of_name(name), HasSubstr("expected a name of letters")) << name;
  }
  EXPECT_THAT(refusal_of("grid: {a: [" + std::string(250, 'a') + "]}\n"),
              HasSubstr("c.yaml:1:8: grid.a: makes a run's name of 252 characters"));
  EXPECT_THAT(names_of("variations: [{name: report}, {name: checkpoints-2}]\n"),
              ElementsAre("report", "checkpoints-2"));
}

TEST(ComparisonFile, RefusesMoreRunsThanAnyoneTrains) {
  std::string text = "grid:\n";
  for (const char* key : {"a", "b", "c"}) {
    text += fmt::format("  {}: [0", key);
    for (int i = 1; i < 100; ++i) text += fmt::format(", {}", i);
    text += "]\n";
  }
  EXPECT_EQ(refusal_of(text), "c.yaml:4:3: grid.c: makes 1e+06 runs, more than 10000");
}

TEST(ComparisonFile, AnOverrideThatNoRunKeepsIsAnError) {
  const auto refusal_of = [](const std::string& text, const std::vector<std::string>& overrides) {
    return error_of<ConfigError>([&] {
      ConfigDocument comparison = ConfigDocument::from_text(text, "c.yaml");
      for (const std::string& override : overrides) comparison.override_with(override);
      expand_comparison(comparison);
    });
  };
  const std::string grid = "grid: {train.seed: [1, 2]}\n";
  EXPECT_EQ(refusal_of(grid, {"train.seed=3"}),
            "override train.seed=3: train.seed: has no effect, for every run takes the value at "
            "c.yaml:1:21");
  EXPECT_THAT(refusal_of(grid, {"train={seed: 3, max_steps: 5}"}), HasSubstr("train.seed: has no"));
  EXPECT_EQ(refusal_of(grid, {"train={max_steps: 5}", "optimizer.lr=1"}), "no error");
  EXPECT_EQ(refusal_of("grid: {train: {seed: [1, 2]}}\n", {"grid.train.seed=[3]"}), "no error");
  EXPECT_EQ(refusal_of(grid, {"optimizer.lr=1", "optimizer.lr=2"}), "no error");

  const std::string some = "variations: [{name: a, train.seed: 1}, {name: b}]\n";
  const std::string all = "variations: [{name: a, train.seed: 1}, {name: b, train: {seed: 2}}]\n";
  EXPECT_EQ(refusal_of(some, {"train.seed=3"}), "no error");
  EXPECT_THAT(refusal_of(all, {"train.seed=3"}), HasSubstr("train.seed: has no effect"));
}

TEST(ComparisonFile, NamesHaveTheLearningRateAndTheSeedLast) {
  EXPECT_THAT(names_of("variations: [{name: a}, {name: b}]\n"
                       "grid: {train.seed: [1, 2], optimizer.lr: [3e-4], model.d_model: [64]}\n"),
              ElementsAre("a-d_model=64-lr=3e-4-seed=1", "a-d_model=64-lr=3e-4-seed=2",
                          "b-d_model=64-lr=3e-4-seed=1", "b-d_model=64-lr=3e-4-seed=2"));
  EXPECT_THAT(names_of("grid: {a.size: [1], b.size: [2], betas: [[0.9, 0.95]], path: [x/y]}\n"),
              ElementsAre("a.size=1-b.size=2-betas=0.9_0.95-path=x_y"));
}

TEST(ComparisonFile, TheVariantIsTheNameWithoutLearningRateAndSeed) {
  EXPECT_EQ(variant_in("softmax"), "softmax");
  EXPECT_EQ(variant_in("a-d_model=64-lr=3e-4-seed=1"), "a-d_model=64");
  EXPECT_EQ(variant_in("a-seed=1"), "a");
  EXPECT_EQ(variant_in("a-min_lr=1"), "a-min_lr=1");
  EXPECT_EQ(variant_in("lr=1e-3-seed=2"), "");
}

TEST(ComparisonFile, MistakesInAGridKeepTheirPlace) {
  const auto jobs =
      jobs_of("optimizer: {lr: 1e-3}\ngrid:\n  attention.windw: [3]\n  optimizer: {clip: [-2]}\n");
  EXPECT_EQ(error_of<ConfigError>([&] { run_of(jobs.at(0)); }),
            "c.yaml:4:22: optimizer.clip: must be > 0, got -2; also "
            "c.yaml:3:3: attention.windw: unknown key; did you mean 'attention.window'?");
}

TEST(ComparisonFile, RefusesGridsThatAreNone) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"grid: 3\n", "c.yaml:1:7: grid: expected keys with lists of values, got '3'"},
      {"grid: {a: 3}\n", "c.yaml:1:11: grid.a: expected a list of values, got '3'"},
      {"grid: {a: []}\n", "c.yaml:1:11: grid.a: expected a list of values, got an empty one"},
      {"grid: {a: {b: }}\n", "c.yaml:1:15: grid.a.b: expected a list of values, got null"},
      {"grid: {a: [{b: 1}]}\n",
       "c.yaml:1:12: grid.a.0: a value of the grid is no section; name it in variations"},
      {"grid: {a.b: [1], a: {b: [2]}}\n",
       "c.yaml:1:22: grid.a.b: given twice, first at c.yaml:1:8"},
      {"grid: {a: [x/y, x_y]}\n", "c.yaml:1:8: grid.a: makes two runs named 'a=x_y'"},
      {"grid: {a: [x, X]}\n", "c.yaml:1:8: grid.a: makes two runs named 'a=x' and 'a=X'"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of(text), message) << text;
}

}  // namespace
}  // namespace mobius::comparison_file_test
