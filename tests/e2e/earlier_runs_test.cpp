// Runs of an earlier version of Mobius resume with the numbers that they would have had.
// tests/e2e/earlier_runs/ holds, for each run, its configuration, its checkpoint of step 10, and
// the lines of metrics that it wrote afterwards.

#include <gtest/gtest.h>

#include "tests/e2e/run_test.h"

namespace mobius::earlier_runs_test {
namespace {

namespace fs = std::filesystem;

class EarlierRunTest : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Of, EarlierRunTest, ::testing::Values("conformal", "w2"),
                         [](const auto& test) { return test.param; });

TEST_P(EarlierRunTest, GoesOnWithTheSameNumbers) {
  const TemporaryFolder folder;
  const fs::path earlier = fs::path(MOBIUS_SOURCE_DIR) / "tests/e2e/earlier_runs" / GetParam();
  const auto file = [&](const char* extension) { return earlier.string() + extension; };
  const Outcome outcome =
      mobius({"train", file(".yaml"), "--resume", file(".h5"), "--out", (folder / "run")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;

  const std::vector<std::string> expected = lines_of(read_text(file(".jsonl")));
  const std::vector<nlohmann::json> got = metrics_in(folder / "run");
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const nlohmann::json line = nlohmann::json::parse(expected[i]);
    ASSERT_EQ(got[i].size(), line.size()) << got[i];
    for (const auto& [key, value] : line.items()) {
      if (value.is_number_float()) {
        // Other processors add in a different order.
        EXPECT_NEAR(got[i].at(key).get<double>(), value.get<double>(), 1e-4) << key << got[i];
      } else {
        EXPECT_EQ(got[i].at(key), value);
      }
    }
  }
}

}  // namespace
}  // namespace mobius::earlier_runs_test
