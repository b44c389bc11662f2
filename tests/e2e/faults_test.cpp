// Failures of disks, files and processes give one clear line and lose no checkpoint. Here the
// system itself causes them; e2e/injected_faults_test.cpp makes each call fail in turn.

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/e2e/run_test.h"

namespace mobius::faults_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A shell script that may mount: it is root in its own namespaces, so other processes do not see
// its mounts, which end with it.
std::vector<std::string> with_own_mounts(const std::string& script) {
  return {"unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script};
}

class FaultTest : public RunTest {
 protected:
  // Expects one line from the program itself.
  static void expect_error(const Outcome& outcome, int exit_code, const std::string& part) {
    EXPECT_EQ(outcome.exit_code, exit_code);
    EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(part)));
    EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
  }
  // A run of 20 steps, which `straight` continued to 40; its newest checkpoint is of step 20.
  void train_half(const std::string& run) const { train(run, {"train.max_steps=20"}); }
  void expect_goes_on(const std::string& run) const {
    const Outcome outcome = train(run, {"train.max_steps=40", "--resume", "auto"});
    EXPECT_THAT(outcome.out, HasSubstr("resume: step 20 from"));
    expect_same_run(folder_ / "straight", folder_ / run, 40);
  }
};

// ---- the disk

TEST_F(FaultTest, AFileThatMayNotGrow) {
  train("straight", {"train.max_steps=40"});
  train_half("run");
  expect_error(try_train("run", {"train.max_steps=40", "--resume", "auto"},
                         {.environment = {}, .largest_file = 30000}),
               1, "File too large");
  expect_goes_on("run");
}

// A file system of 2 MiB, which is filled up to its last $FREE KiB and emptied again.
constexpr const char* kFullDisk = R"(
mount -t tmpfs -o size=2m none "$DISK"
"$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=20
head -c 4m /dev/zero > "$DISK/filler" 2> /dev/null || true
truncate -s "-${FREE}k" "$DISK/filler"
if "$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=40 checkpoint.keep_last=1 --resume auto 2> "$DISK.err"
then echo 0 > "$DISK.code"; else echo $? > "$DISK.code"; fi
cp -r "$DISK/run" "$DISK.failed"
rm "$DISK/filler"
"$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=40 --resume auto > "$DISK.out"
cp -r "$DISK/run" "$DISK.done"
)";

// A folder that is read-only for a while.
constexpr const char* kReadOnly = R"(
mount -t tmpfs -o size=2m none "$DISK"
"$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=20
mount -o remount,ro "$DISK"
if "$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=40 --resume auto 2> "$DISK.err"
then echo 0 > "$DISK.code"; else echo $? > "$DISK.code"; fi
"$MOBIUS" train "$CONFIG" --out "$DISK/new" 2> "$DISK.new.err" && exit 1
cp -r "$DISK/run" "$DISK.failed"
mount -o remount,rw "$DISK"
"$MOBIUS" train "$CONFIG" --out "$DISK/run" train.max_steps=40 --resume auto > "$DISK.out"
cp -r "$DISK/run" "$DISK.done"
)";

class DiskTest : public FaultTest {
 protected:
  void SetUp() override {
    FaultTest::SetUp();
    fs::create_directory(folder_ / "disk");
    const std::string mount = "mount -t tmpfs none '" + (folder_ / "disk").string() + "'";
    if (Process(with_own_mounts(mount)).wait().exit_code != 0) {
      GTEST_SKIP() << "this system lets no user mount in namespaces (unshare --user --mount)";
    }
    train("straight", {"train.max_steps=40"});
  }

  // Runs the script with DISK=`disk`. Next to the disk, it leaves the error line and the exit code
  // of the failed run, and copies of the run's folder after the failure and at the end.
  void run_script(const char* script, const fs::path& disk, const std::string& free = "") const {
    fs::create_directories(disk);
    const Surroundings around = {.environment = {{"DISK", disk.string()},
                                                 {"MOBIUS", MOBIUS_BINARY},
                                                 {"CONFIG", config_},
                                                 {"FREE", free}}};
    const Outcome outcome = Process(with_own_mounts(script), around).wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
  static std::string beside(const fs::path& disk, const char* extension) {
    return read_text(disk.string() + extension);
  }
  void expect_failed_and_went_on(const fs::path& disk, const std::string& why) const {
    const std::string error = beside(disk, ".err");
    EXPECT_EQ(beside(disk, ".code"), "1\n") << error;
    EXPECT_THAT(error, AllOf(StartsWith("mobius: error: " + disk.string()), HasSubstr(why)));
    EXPECT_EQ(lines_of(error).size(), 1u) << error;

    const fs::path failed = disk.string() + ".failed";
    const NewestCheckpoint newest = newest_checkpoint(failed / "checkpoints");
    EXPECT_EQ(newest.path, step_file(failed, 20));
    EXPECT_THAT(newest.skipped, IsEmpty());
    EXPECT_THAT(temporary_files_below(failed), IsEmpty());

    EXPECT_THAT(beside(disk, ".out"), HasSubstr("resume: step 20 from"));
    expect_same_run(folder_ / "straight", disk.string() + ".done", 40);
  }
};

// The disk is full at the start, when a line of metrics is written, or when a checkpoint is
// written.
TEST_F(DiskTest, IsFull) {
  for (const char* free : {"0", "16", "40"}) {
    const fs::path disk = folder_ / (std::string("full-") + free);
    run_script(kFullDisk, disk, free);
    expect_failed_and_went_on(disk, "No space left on device");
  }
}

TEST_F(DiskTest, IsReadOnly) {
  run_script(kReadOnly, folder_ / "disk");
  expect_failed_and_went_on(folder_ / "disk", "Read-only file system");
  EXPECT_THAT(beside(folder_ / "disk", ".new.err"),
              AllOf(StartsWith("mobius: error: "), HasSubstr("Read-only file system")));
}

// ---- broken files

struct Damage {
  const char* name;
  const char* message;
  std::function<std::string(std::string)> apply;
};

const std::vector<Damage> kDamages = {
    {"truncated", "truncated: expected ",
     [](const std::string& content) { return content.substr(0, content.size() / 2); }},
    {"bit-flipped", "damaged",
     [](std::string content) {
       content[content.size() / 2] ^= 8;
       return content;
     }},
    {"newer", "format version 2 is newer than this program",
     [](std::string content) {
       return content.replace(content.find("format_version 1"), 16, "format_version 2");
     }},
    {"empty", "the file is empty", [](const std::string&) { return std::string(); }},
    {"foreign", "not a Mobius checkpoint", [](const std::string&) { return "weights"; }}};

TEST_F(FaultTest, ABrokenCheckpointIsNamedAndTheOneBeforeItTaken) {
  train("straight", {"train.max_steps=40"});
  for (const Damage& damage : kDamages) {
    const std::string run = damage.name;
    train(run, {"train.max_steps=20", "checkpoint.every=10"});
    const fs::path newest = step_file(folder_ / run, 20);
    write_text(newest, damage.apply(read_text(newest)));
    const std::string before = read_text(step_file(folder_ / run, 10));
    expect_error(try_train(run, {"train.max_steps=40", "--resume", newest}), 1, damage.message);
    EXPECT_TRUE(read_text(step_file(folder_ / run, 10)) == before);

    const Outcome outcome = train(run, {"train.max_steps=40", "--resume", "auto"});
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("resume: skipped " + newest.string() + ": "),
                                   HasSubstr(damage.message), HasSubstr("resume: step 10 from")));
    expect_same_run(folder_ / "straight", folder_ / run, 40);
  }
}

// The run resumes from an earlier step and keeps the checkpoints that it saves from then on.
TEST_F(FaultTest, ABrokenCheckpointOfALaterStepTakesNoPlace) {
  train_half("run");
  write_text(step_file(folder_ / "run", 30), "broken");
  train("run", {"train.max_steps=25", "checkpoint.keep_last=1", "--resume", "auto"});
  EXPECT_EQ(newest_checkpoint(folder_ / "run" / "checkpoints").path,
            step_file(folder_ / "run", 25));
}

// A complete checkpoint of another model is not skipped: it is an error.
TEST_F(FaultTest, TheCheckpointOfAnotherModel) {
  train("straight", {"train.max_steps=40"});
  train_half("run");
  train("wide", {"train.max_steps=30", "model.d_model=32"});
  const fs::path foreign = step_file(folder_ / "run", 30);
  fs::copy_file(step_file(folder_ / "wide", 30), foreign);
  for (const std::string& resume : {std::string("auto"), foreign.string()}) {
    expect_error(
        try_train("run", {"train.max_steps=40", "--resume", resume}), 2,
        foreign.string() + ": was made with model.d_model = 32, but the configuration says 16");
  }
  fs::remove(foreign);
  expect_goes_on("run");
}

// ---- several processes, and none

TEST_F(FaultTest, ASecondProcessInTheFolder) {
  train("straight", {"train.max_steps=40"});
  train_half("run");
  Process first(mobius_command(
      train_arguments("run", {"train.max_steps=100000000", "eval.every=0", "--resume", "auto"})));
  ASSERT_TRUE(wait_until([&] { return lines_in("run") > 25; }));
  expect_error(try_train("run", {"train.max_steps=40", "--resume", "auto"}), 1,
               (folder_ / "run").string() + ": another process is using this folder");
  first.kill(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 4) << "the first process is not affected";
  EXPECT_THAT(newest_checkpoint(folder_ / "run" / "checkpoints").skipped, IsEmpty());
}

// ---- memory

// Evaluates and saves often, to reveal memory that these leak.
const std::vector<std::string> kWideRun = {"model.d_model=64", "eval.every=10",
                                           "checkpoint.every=10", "train.log_every=10"};

// The memory of a process varies between runs, by 2 of 38 MiB here, although its tensors do not.
constexpr double kNoise = 0.1;

class MemoryTest : public RunTest {
 protected:
  struct Peak {
    double process;  // KiB
    double tensors;  // bytes
  };
  Peak peak_of(const std::string& run, int steps, std::vector<std::string> more = {}) const {
    more.insert(more.end(), kWideRun.begin(), kWideRun.end());
    more.push_back("train.max_steps=" + std::to_string(steps));
    const Outcome outcome = train(run, more);
    const auto summary = nlohmann::json::parse(read_text(folder_ / run / "summary.json"));
    return {static_cast<double>(outcome.peak_kib), summary.at("peak_bytes").get<double>()};
  }
};

TEST_F(MemoryTest, DoesNotGrowWithTheSteps) {
  const Peak few = peak_of("few", 40), many = peak_of("many", 400);
  // The loader may or may not hold the tokens of one more batch (kSmallRun: 8 sequences of 16, i32)
  // at the moment of the peak. A leak at each test or save would be 36 times as large.
  constexpr double batch = 8 * 16 * 4;
  EXPECT_NEAR(many.tensors, few.tensors, batch);
  EXPECT_LT(many.process, (1 + kNoise) * few.process);
}

TEST_F(MemoryTest, DoesNotGrowWithTheLives) {
  const Peak fresh = peak_of("run", 10);
  for (int life = 2; life <= 10; ++life) {
    const Peak resumed = peak_of("run", 10 * life, {"--resume", "auto"});
    EXPECT_LE(resumed.tensors, 1.05 * fresh.tensors) << "life " << life;
    EXPECT_LE(resumed.process, (1 + kNoise) * fresh.process) << "life " << life;
  }
}

}  // namespace
}  // namespace mobius::faults_test
