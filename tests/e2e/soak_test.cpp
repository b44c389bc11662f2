// Tests scripts/soak.py in seconds; its purpose is runs of hours.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/run_test.h"

namespace mobius::soak_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SoakTest : public RunTest {
 protected:
  std::vector<std::string> command(const std::string& binary, int steps) const {
    return {"python3",
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
            "train.max_steps=" + std::to_string(steps),
            "checkpoint.every=10"};
  }
  Outcome soak(const std::string& binary) const { return Process(command(binary, 1000)).wait(); }
  // Counts the processes with this folder on their command line.
  int processes_in(const fs::path& folder) const {
    int count = 0;
    for (const auto& process : fs::directory_iterator("/proc")) {
      std::ifstream file(process.path() / "cmdline");
      const std::string line(std::istreambuf_iterator<char>(file), {});
      count += line.find(folder.string()) != std::string::npos;
    }
    return count;
  }
  nlohmann::json result() const {
    return nlohmann::json::parse(read_text(folder_ / "soak" / "soak.json"));
  }
};

TEST_F(SoakTest, ARunThatIsEndedAgainAndAgainPasses) {
  const Outcome outcome = soak(MOBIUS_BINARY);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(result().at("verdict"), "PASS");
  for (const char* signal : {"SIGKILL", "SIGTERM", "SIGINT"}) {
    EXPECT_GE(result().at("ends").at(signal), 1) << signal;
  }
  EXPECT_EQ(result().at("lines_compared"), (nlohmann::json{{"train", 1000}, {"test", 50}}));
}

// The lives learn differently from the uninterrupted run.
TEST_F(SoakTest, ARunThatDiffersFails) {
  const fs::path other = folder_ / "other";
  write_text(
      other,
      "#!/bin/sh\ncase \"$*\" in train*soak/interrupted*) more=optimizer.weight_decay=0.2;; esac\n"
      "exec '" MOBIUS_BINARY "' \"$@\" $more\n");
  fs::permissions(other, fs::perms::owner_all);
  const Outcome outcome = soak(other);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("verdict: FAIL"), HasSubstr("metrics.jsonl differs")));
}

// Neither run continues alone.
TEST_F(SoakTest, ASignalEndsBothRuns) {
  Process process(command(MOBIUS_BINARY, 1000000));
  const fs::path straight = folder_ / "soak" / "straight" / "metrics.jsonl";
  EXPECT_TRUE(wait_until([&] { return fs::exists(straight); }));
  EXPECT_GE(processes_in(folder_ / "soak"), 2);
  process.kill(SIGTERM);
  EXPECT_EQ(process.wait().exit_code, 1);
  EXPECT_EQ(processes_in(folder_ / "soak"), 0);
  EXPECT_EQ(result().at("verdict"), "FAIL");
}

TEST_F(SoakTest, ArgumentsThatCannotBeAreRefused) {
  const Outcome program = soak(folder_ / "none");
  EXPECT_EQ(program.exit_code, 2);
  EXPECT_THAT(program.err, HasSubstr("none: no such program"));
  fs::create_directories(folder_ / "soak" / "lives");
  const Outcome folder = soak(MOBIUS_BINARY);
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.err, HasSubstr("expected a new folder: File exists"));
}

}  // namespace
}  // namespace mobius::soak_test
