// The studies of certified pruning and of retrieval, on few keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "nn/attention/attention.h"
#include "tests/error_of.h"
#include "train/results/study_run.h"

namespace mobius::certificates_test {
namespace {

using ::testing::HasSubstr;

StudyRun run_of(const std::string& text) {
  static const Registry<Study> studies = builtin_studies();
  return {ConfigDocument::from_text(text, "run.yaml"), studies};
}

StudyResult result_of(const std::string& text) {
  return run_of(text).run([](const std::string&, std::int64_t, std::int64_t) {}).result;
}

const Series& series_of(const StudyResult& result, const std::string& figure,
                        const std::string& series) {
  for (const Figure& one : result.figures) {
    if (one.name != figure) continue;
    for (const Series& curve : one.series)
      if (curve.name == series) return curve;
  }
  throw Error("no series '{}' in '{}'", series, figure);
}

const char* const few_keys =
    "{experiment: e6_pruning, d: 16, n_keys: [200, 2000], compared_n_keys: 2000, betas: [4.0, "
    "200.0], compared_beta: 200.0, epsilons: [0.3, 0.01], compared_epsilon: 0.01, n_queries: 3}";

TEST(PruningStudy, CertificatesHoldAndPayForClusteredKeys) {
  const StudyResult result = result_of(few_keys);
  EXPECT_TRUE(result.claims[0].holds) << result.claims[0].measured;
  EXPECT_TRUE(result.claims[1].holds) << result.claims[1].measured;
  for (const char* kernel : {"conformal", "softmax"}) {
    const Series& clustered = series_of(result, "sharpness", std::string(kernel) + ", clustered");
    EXPECT_LT(clustered.y[1], 0.5);
    EXPECT_LT(clustered.y[1], clustered.y[0]);
    const Series& epsilon = series_of(result, "epsilon", std::string(kernel) + ", low rank");
    EXPECT_LE(epsilon.y[0], epsilon.y[1]);
  }
}

TEST(PruningStudy, GivesTheSameCountsEveryTime) {
  const StudyResult a = result_of(few_keys), b = result_of(few_keys);
  EXPECT_EQ(series_of(a, "keys", "softmax, uniform").y, series_of(b, "keys", "softmax, uniform").y);
}

TEST(PruningStudy, RefusesComparisonsThatItDoesNotMeasure) {
  EXPECT_THAT(error_of([] { run_of("{experiment: e6_pruning, compared_beta: 5.0}"); }),
              HasSubstr("compared_beta: 5 is not among the betas"));
  EXPECT_THAT(error_of([] { run_of("{experiment: e6_pruning, n_keys: [8]}"); }),
              HasSubstr("n_keys: expected at least 2 numbers"));
  EXPECT_THAT(error_of([] { run_of("{experiment: e6_pruning, rank: 65}"); }),
              HasSubstr("rank: 65 is more than d, 64"));
}

class RetrievalStudyTest : public ::testing::Test {
 protected:
  static const StudyResult& result() {
    static const StudyResult result = result_of(
        "{experiment: e6b_retrieval, d: 32, n_keys: [32, 512], compared_n_keys: 512, betas: [4.0, "
        "40.0], compared_beta: 40.0, n_trials: 5, n_features: 64}");
    return result;
  }
};

TEST_F(RetrievalStudyTest, ComparesEveryKindOfAttention) {
  std::string labels;
  for (const Series& series : result().figures[0].series) labels += series.name + "; ";
  for (const std::string& kind : builtin_attentions().names()) {
    const bool is_hierarchical = kind == "conformal_hierarchical";
    EXPECT_THAT(labels, HasSubstr(is_hierarchical ? "hierarchical, degree 1" : kind));
  }
}

TEST_F(RetrievalStudyTest, SharpAttentionRetrieves) {
  for (const char* kind : {"softmax", "conformal, empirical", "sparse, topk", "w2"}) {
    EXPECT_GT(series_of(result(), "share-beta", kind).y[1], 0.99) << kind;
    EXPECT_LT(series_of(result(), "error-beta", kind).y[1], 0.01) << kind;
    EXPECT_EQ(series_of(result(), "right-beta", kind).y[1], 1) << kind;
  }
  // All of 32 keys lie in the window; hardly any of 512 do.
  EXPECT_EQ(series_of(result(), "right-n", "sparse, local").y[0], 1);
  EXPECT_LT(series_of(result(), "right-n", "sparse, local").y[1], 0.5);
  EXPECT_LT(series_of(result(), "share-n", "linear").y[1], 0.1);
}

TEST_F(RetrievalStudyTest, AnalyticWeightsPointRightAndAreTooLong) {
  EXPECT_EQ(series_of(result(), "right-beta", "conformal, analytic").y[1], 1);
  EXPECT_GT(series_of(result(), "error-beta", "conformal, analytic").y[1], 100);
}

}  // namespace
}  // namespace mobius::certificates_test
