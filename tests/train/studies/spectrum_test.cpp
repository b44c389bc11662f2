#include "train/studies/spectra/spectrum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "core/ops.h"
#include "tests/error_of.h"
#include "train/studies/spectra/matrices.h"

namespace mobius::spectrum_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

Tensor matrix(const std::vector<double>& elements, std::int64_t n_rows, std::int64_t n_columns) {
  return Tensor::from(elements, {n_rows, n_columns});
}

TEST(Spectrum, OfADiagonalMatrixIsItsDiagonal) {
  const Spectrum spectrum = spectrum_of(matrix({0, -4, 0, 3, 0, 0, 0, 0, 0}, 3, 3));
  EXPECT_THAT(spectrum.values,
              ElementsAre(DoubleNear(4, 1e-12), DoubleNear(3, 1e-12), DoubleNear(0, 1e-12)));
  EXPECT_NEAR(spectrum.stable_rank(), 25.0 / 16, 1e-12);
  EXPECT_EQ(spectrum.rank(1e-10), 2);
  EXPECT_EQ(spectrum.rank(0.8), 1);
  EXPECT_NEAR(spectrum.rest(1), 3.0 / 5, 1e-12);
  EXPECT_NEAR(spectrum.rest(2), 0, 1e-12);
  EXPECT_NEAR(spectrum.rest(0), 1, 1e-12);
  const double share = 4.0 / 7;
  EXPECT_NEAR(spectrum.effective_rank(),
              std::exp(-share * std::log(share) - (1 - share) * std::log(1 - share)), 1e-12);
}

TEST(Spectrum, OfEqualRowsHasRankOne) {
  const Spectrum spectrum = spectrum_of(matrix({1, 2, 3, 1, 2, 3}, 2, 3));
  EXPECT_NEAR(spectrum.values[0], std::sqrt(28), 1e-12);
  EXPECT_NEAR(spectrum.effective_rank(), 1, 1e-10);
  EXPECT_NEAR(spectrum.stable_rank(), 1, 1e-10);
}

TEST(Spectrum, OfTheIdentityHasFullRank) {
  const Spectrum spectrum = spectrum_of(matrix({1, 0, 0, 0, 1, 0, 0, 0, 1}, 3, 3));
  EXPECT_NEAR(spectrum.effective_rank(), 3, 1e-12);
  EXPECT_NEAR(spectrum.stable_rank(), 3, 1e-12);
}

TEST(Spectrum, RefusesAMatrixOfZeros) {
  EXPECT_THAT(error_of([] {
                spectrum_of(matrix({0, 0, 0, 0}, 2, 2));
              }),
              ::testing::HasSubstr("spectrum: the matrix is 0"));
}

TEST(RowsOfSumOne, LeaveRowsOfZerosAlone) {
  const Tensor rows = with_rows_of_sum_one(matrix({1, 3, 0, 0, -1, 2}, 3, 2));
  EXPECT_THAT(rows.to_vector<double>(), ElementsAre(0.25, 0.75, 0, 0, -1, 2));
}

SpectrumSettings small() {
  SpectrumSettings settings;
  settings.n = 24;
  settings.d = 6;
  settings.alphas = {1, 4};
  settings.window = 4;
  settings.topk = 3;
  settings.n_features = 5;
  settings.n_landmarks = 8;
  settings.subspace = 2;
  return settings;
}

TEST(AttentionMatrices, TokensHaveTheRankTheyAreNamedAfter) {
  for (const Tokens& tokens : tokens_of(small(), 1)) {
    EXPECT_EQ(tokens.q.shape(), (Shape{1, 1, 24, 6}));
    EXPECT_EQ(spectrum_of(tokens.k).rank(1e-10), tokens.name == "low_rank" ? 2 : 6) << tokens.name;
  }
}

TEST(AttentionMatrices, FeaturesBoundTheRankAndWindowsLeaveZeros) {
  const Tokens tokens = tokens_of(small(), 1).front();
  int n = 0;
  for (const NamedWeights& variant : variants_of(small(), 1)) {
    const Tensor weights = variant.weights(inputs_of(tokens, true));
    EXPECT_EQ(weights.shape(), (Shape{1, 1, 24, 24})) << variant.name;
    // Nothing looks ahead.
    EXPECT_EQ(weights.slice(-2, 3, 4).slice(-1, 4, 24).contiguous().to_vector<double>(),
              std::vector<double>(20, 0.0))
        << variant.name;
    if (variant.is_causal_only) continue;
    const Spectrum full = spectrum_of(variant.weights(inputs_of(tokens, false)));
    if (variant.name == "linear") {
      EXPECT_LE(full.rank(1e-10), 6);
      ++n;
    } else if (variant.name == "performer, 5 features") {
      EXPECT_LE(full.rank(1e-10), 5);
      ++n;
    } else if (variant.name == "softmax") {
      EXPECT_GT(full.rank(1e-10), 12);
      ++n;
    } else if (variant.name.starts_with("sparse local")) {
      EXPECT_EQ(weights.slice(-2, 10, 11).slice(-1, 6, 7).item(), 0);
      ++n;
    }
  }
  EXPECT_EQ(n, 4);
}

}  // namespace mobius::spectrum_test
