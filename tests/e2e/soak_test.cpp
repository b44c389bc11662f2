// scripts/soak.py in seconds; what it is for takes hours.

#include <gmock/gmock.h>

#include "tests/e2e/run_test.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class SoakTest : public RunTest {
 protected:
  Outcome soak(const std::string& binary) const {
    return Process({"python3",
                    std::string(MOBIUS_SOURCE_DIR) + "/scripts/soak.py",
                    "--binary",
                    binary,
                    "--config",
                    config_,
                    "--out",
                    folder_ / "soak",
                    "--minutes",
                    "0.05",
                    "--kill-every",
                    "0.1",
                    "0.4",
                    "--sample-every",
                    "0.01",
                    "--memory-tolerance",
                    "0.5",
                    "--",
                    "train.max_steps=1000",
                    "checkpoint.every=10"})
        .wait();
  }
  nlohmann::json result() const {
    return nlohmann::json::parse(read_text(folder_ / "soak" / "soak.json"));
  }
};

TEST_F(SoakTest, AKilledRunPasses) {
  const Outcome outcome = soak(MOBIUS_BINARY);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(result().at("verdict"), "PASS");
  EXPECT_GE(result().at("kills"), 1);
  EXPECT_EQ(result().at("lines_compared"), (nlohmann::json{{"train", 1000}, {"test", 50}}));
}

// Lives that do not learn as the uninterrupted run does.
TEST_F(SoakTest, ARunThatDiffersFails) {
  const fs::path other = folder_ / "other";
  write_text(other,
             "#!/bin/sh\ncase \"$*\" in train*soak/killed*) more=optimizer.weight_decay=0.2;; esac\n"
             "exec '" MOBIUS_BINARY "' \"$@\" $more\n");
  fs::permissions(other, fs::perms::owner_all);
  const Outcome outcome = soak(other);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verdict: FAIL"), HasSubstr("metrics.jsonl differs")));
}

}  // namespace
}  // namespace mobius
