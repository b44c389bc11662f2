// Each call on a file in turn fails, or is the last before a kill, and nothing is lost.

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "tests/e2e/fault_injection.h"
#include "tests/e2e/run_test.h"

namespace mobius::injected_faults_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr const char* kChanges = "create,write,truncate,sync,rename,link,remove,mkdir";
constexpr const char* kAll =
    "open,create,read,write,truncate,sync,close,rename,link,remove,mkdir,stat";
constexpr const char* kGrowth = "create,write,sync,rename,link,mkdir";  // needs space
constexpr const char* kNames = "open,create,rename,link,remove,mkdir,stat";

// A fault that each call meets in turn.
struct Sweep {
  const char* name;
  Fault fault;
  int error = 0;  // its errno, if any
};

void PrintTo(const Sweep& sweep, std::ostream* out) { *out << sweep.name; }

Sweep kill(const char* name, const char* kinds) { return {name, {kinds, "kill"}}; }
Sweep kill_halfway(const char* name) { return {name, {"write", "kill_halfway"}}; }
Sweep fail(const char* name, int error, const char* kinds) {
  return {name, {kinds, std::to_string(error)}, error};
}
Sweep fail_from_then_on(const char* name, int error, const char* kinds) {
  return {name, {kinds, std::to_string(error), true}, error};
}

int count_of(const std::vector<NotedCall>& calls) {
  int last = 0;
  for (const NotedCall& call : calls) last = std::max(last, call.number);
  return last;
}

// Returns the first call that met the fault.
NotedCall first_hit(const std::vector<NotedCall>& calls) {
  const auto hit = std::find_if(calls.begin(), calls.end(),
                                [](const NotedCall& call) { return call.fate != "done"; });
  return hit == calls.end() ? NotedCall{0, "no call", "met the fault", {}} : *hit;
}

std::string trace_of(const std::vector<NotedCall>& calls) {
  const NotedCall hit = first_hit(calls);
  return fmt::format("{} {} {} {}", hit.number, hit.kind, hit.fate, hit.path.string());
}

// Expects the output to end with one line that names a file below `folder` and the reason.
void expect_error(const Outcome& outcome, const fs::path& folder, int error,
                  const std::vector<NotedCall>& calls) {
  const NotedCall hit = first_hit(calls);
  const bool is_of_config = hit.path.extension() == ".yaml" && outcome.exit_code == 2;
  EXPECT_TRUE(outcome.exit_code == 1 || is_of_config) << "exit code " << outcome.exit_code;
  std::vector<std::string> lines = lines_of(outcome.err);
  const std::string last = lines.empty() ? "" : lines.back();
  EXPECT_THAT(last, AllOf(StartsWith("mobius: error: "), HasSubstr(folder.string())));
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.starts_with("mobius: "); }),
            1)
      << outcome.err;
  // The HDF5 library (reads) and the C++ library (lookups) do not report the system's error.
  if (hit.kind != "read" && hit.kind != "close" && hit.kind != "stat") {
    EXPECT_THAT(last, HasSubstr(std::strerror(error)));
  }
}

bool has_failed_to_remove(const std::vector<NotedCall>& calls) {
  return std::any_of(calls.begin(), calls.end(), [](const NotedCall& call) {
    return call.kind == "remove" && call.fate == "failed";
  });
}

void expect_no_temporary_files(const fs::path& folder, const std::vector<NotedCall>& calls) {
  if (has_failed_to_remove(calls)) return;
  EXPECT_THAT(temporary_files_below(folder), IsEmpty());
}

// Returns the numbers of the calls that a sweep hits: all n if they are few, else evenly spaced
// ones (a checkpoint is read in hundreds of pieces).
std::vector<int> swept(int n) {
  constexpr int most = 100;
  const int stride = (n + most - 1) / most;
  std::vector<int> calls;
  for (int call = 1; call <= n; call += stride) calls.push_back(call);
  return calls;
}

// ---- training

bool is_checkpoint(const fs::path& path) { return path.extension() == ".h5"; }

std::set<fs::path> checkpoints_in(const fs::path& run) {
  std::set<fs::path> found;
  if (!fs::exists(run / "checkpoints")) return found;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (is_checkpoint(entry.path())) found.insert(entry.path());
  }
  return found;
}

// Returns the checkpoints that exist after the calls: the earlier ones, plus those that were
// renamed to their final names, minus those that were removed.
std::set<fs::path> checkpoints_after(std::set<fs::path> checkpoints,
                                     const std::vector<NotedCall>& calls) {
  for (const NotedCall& call : calls) {
    if (call.fate != "done" || !is_checkpoint(call.path)) continue;
    if (call.kind == "rename" || call.kind == "link") checkpoints.insert(call.path);
    if (call.kind == "remove") checkpoints.erase(call.path);
  }
  return checkpoints;
}

// Returns the size of the TensorBoard file, whose contents differ only in times.
std::uintmax_t events_in(const fs::path& run) {
  return fs::file_size(run / "tensorboard" / "events.out.tfevents.mobius");
}

class TrainingFaultsTest : public RunTest {
 protected:
  void SetUp() override {
    write_text(config_, kTinyRun);
    train("straight");
    end_ = end_of_run(folder_ / "straight", 6);
    if (fails_late()) begin_by_four_steps();
  }
  // Whether the faults hit the last two steps, of a run that resumes from the fourth.
  virtual bool fails_late() const { return false; }

  // Kills a run when it writes the metrics of its fifth step.
  void begin_by_four_steps() {
    const Fault kill{"write", "kill"};
    train_with(kill, no_call);
    const auto saved = std::find_if(calls_.begin(), calls_.end(), [this](const NotedCall& call) {
      return call.kind == "rename" && call.path == step_file(run_, 4);
    });
    const auto written = std::find_if(saved, calls_.end(), [](const NotedCall& call) {
      return call.kind == "write" && call.path.filename() == "metrics.jsonl";
    });
    ASSERT_NE(written, calls_.end());
    EXPECT_EQ(train_with(kill, written->number).signal, SIGKILL);
    fs::rename(run_, begun_);
  }
  Outcome go_on(const Surroundings& around = {}) const {
    return try_train("run", {"--resume", "auto"}, around);
  }
  // The calls are in calls_.
  Outcome train_with(const Fault& fault, int call) {
    fs::remove_all(run_);
    if (fs::exists(begun_)) fs::copy(begun_, run_, fs::copy_options::recursive);
    before_ = checkpoints_in(run_);
    fs::remove(log_);
    Outcome outcome = go_on(with_fault(run_, log_, fault, call));
    calls_ = calls_in(log_);
    return outcome;
  }
  int count(const Fault& fault) {
    EXPECT_EQ(train_with(fault, no_call).exit_code, 0);
    EXPECT_GT(count_of(calls_), 0);
    RecordProperty("calls", count_of(calls_));
    return count_of(calls_);
  }

  void expect_no_checkpoint_lost() const {
    EXPECT_EQ(checkpoints_in(run_), checkpoints_after(before_, calls_));
    for (const fs::path& path : checkpoints_in(run_)) {
      EXPECT_NO_THROW(read_checkpoint_header(path)) << path;
    }
  }
  void expect_finished(std::size_t checkpoints = 3) const {  // the best one and two steps
    EXPECT_EQ(end_of_run(run_, 6), end_);
    EXPECT_EQ(checkpoints_in(run_).size(), checkpoints);
    EXPECT_EQ(events_in(run_), events_in(folder_ / "straight"));
    EXPECT_THAT(temporary_files_below(run_), IsEmpty());
  }
  void expect_goes_on() const {
    const auto checkpoints = step_checkpoints(run_ / "checkpoints");
    const Outcome outcome = go_on();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    if (!checkpoints.empty()) {
      EXPECT_THAT(outcome.out, HasSubstr(" from " + checkpoints.back().string()));
    }
    expect_finished();
  }

  void expect_nothing_lost_by_killing(const Fault& kill) {
    for (int call = 1, n = count(kill); call <= n; ++call) {
      const Outcome outcome = train_with(kill, call);
      SCOPED_TRACE(trace_of(calls_));
      EXPECT_EQ(outcome.signal, SIGKILL);
      expect_no_checkpoint_lost();
      expect_goes_on();
    }
  }
  void expect_nothing_lost_by_failing(const Fault& fault, int error) {
    for (const int call : swept(count(fault))) {
      const Outcome outcome = train_with(fault, call);
      SCOPED_TRACE(trace_of(calls_));
      expect_no_checkpoint_lost();
      expect_no_temporary_files(run_, calls_);
      if (outcome.exit_code == 0) {
        EXPECT_EQ(outcome.out.find("resume: step 4 from") != std::string::npos, fails_late());
        expect_finished(has_failed_to_remove(calls_) ? 4 : 3);
      } else {
        expect_error(outcome, run_, error, calls_);
        expect_goes_on();
      }
    }
  }
  void expect_nothing_lost(const Sweep& sweep) {
    if (sweep.error == 0) return expect_nothing_lost_by_killing(sweep.fault);
    expect_nothing_lost_by_failing(sweep.fault, sweep.error);
  }

  const fs::path run_ = folder_ / "run";
  const fs::path begun_ = folder_ / "begun";
  const fs::path log_ = folder_ / "calls";
  RunEnd end_;
  std::set<fs::path> before_;
  std::vector<NotedCall> calls_;
};

std::string name_of(const ::testing::TestParamInfo<Sweep>& test) { return test.param.name; }

class NewRunFaultsTest : public TrainingFaultsTest, public ::testing::WithParamInterface<Sweep> {};

INSTANTIATE_TEST_SUITE_P(, NewRunFaultsTest,
                         ::testing::Values(kill("KilledBeforeACall", kChanges),
                                           kill_halfway("KilledInAWrite"),
                                           fail_from_then_on("FullDisk", ENOSPC, kGrowth),
                                           fail_from_then_on("NoMoreFiles", EMFILE, "open,create")),
                         name_of);

TEST_P(NewRunFaultsTest, LoseNothing) { expect_nothing_lost(GetParam()); }

class ResumedRunFaultsTest : public TrainingFaultsTest,
                             public ::testing::WithParamInterface<Sweep> {
 protected:
  bool fails_late() const override { return true; }
};

INSTANTIATE_TEST_SUITE_P(
    , ResumedRunFaultsTest,
    ::testing::Values(kill("KilledBeforeACall", kChanges), kill_halfway("KilledInAWrite"),
                      fail("BrokenDisk", EIO, kAll), fail("NoPermission", EACCES, kNames),
                      fail_from_then_on("FullQuota", EDQUOT, kGrowth),
                      fail_from_then_on("ReadOnly", EROFS, "create,rename,link,remove,mkdir")),
    name_of);

TEST_P(ResumedRunFaultsTest, LoseNothing) { expect_nothing_lost(GetParam()); }

class HarmlessFaultsTest : public TrainingFaultsTest {
 protected:
  bool fails_late() const override { return true; }
};

TEST_F(HarmlessFaultsTest, HalvesOfWhatIsReadAndWritten) {
  EXPECT_EQ(train_with({"read,write", "half", true}, 1).exit_code, 0);
  expect_finished();
}

TEST_F(HarmlessFaultsTest, Interruptions) {
  const Fault interruption{"read,write", std::to_string(EINTR)};
  for (const int call : swept(count(interruption))) {
    const Outcome outcome = train_with(interruption, call);
    SCOPED_TRACE(trace_of(calls_));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(end_of_run(run_, 6), end_);
  }
}

// A file must survive a power loss: it is synced before it gets its name, and the name is synced
// before anything else is written.
TEST_F(TrainingFaultsTest, AFileIsOnTheDiskBeforeItHasItsName) {
  count({"rename,link", "kill"});
  std::set<fs::path> unwritten, unnamed;
  for (const NotedCall& call : calls_) {
    SCOPED_TRACE(call.kind + " " + call.path.string());
    EXPECT_TRUE(call.kind != "create" || unnamed.empty());
    if (call.kind == "write" && is_temporary(call.path)) unwritten.insert(call.path);
    if (call.kind == "sync") {
      unwritten.erase(call.path);
      unnamed.erase(call.path);
    }
    if (call.kind == "rename" || call.kind == "link") {
      EXPECT_THAT(unwritten, IsEmpty());
      unnamed.insert(call.path.parent_path());
    }
  }
  EXPECT_THAT(unnamed, IsEmpty());
}

class TextFaultsTest : public RunTest {};

TEST_F(TextFaultsTest, ATextThatCannotBeReadIsNamed) {
  fs::create_directory(folder_ / "data");
  const fs::path text = folder_ / "data" / "small.txt";
  std::string content;
  for (int i = 0; i < 300; ++i) content += fmt::format("{} green bottles\n", i);
  write_text(text, content);
  write_text(config_, "task: {name: lm, tokenizer: char, seq_len: 16, text: " + text.string() +
                          "}\nmodel: {d_model: 16, n_layers: 1, n_heads: 2}\n"
                          "train: {max_steps: 2, batch_size: 4, threads: 1}\n");
  const fs::path log = folder_ / "calls";
  for (const Sweep& sweep :
       {fail("", EIO, "open,read"), fail("", EACCES, "open"), fail("", EMFILE, "open")}) {
    fs::remove(log);
    try_train("straight", {}, with_fault(text.parent_path(), log, sweep.fault));
    const int n = count_of(calls_in(log));
    EXPECT_GT(n, 0);
    for (int call = 1; call <= n; ++call) {
      fs::remove_all(folder_ / "run");
      fs::remove(log);
      const Outcome outcome =
          try_train("run", {}, with_fault(text.parent_path(), log, sweep.fault, call));
      SCOPED_TRACE(trace_of(calls_in(log)));
      EXPECT_THAT(outcome.exit_code, ::testing::AnyOf(1, 2));
      EXPECT_THAT(outcome.err, AllOf(StartsWith("mobius: error: "), HasSubstr(text.string()),
                                     HasSubstr(std::strerror(sweep.error))));
      EXPECT_EQ(lines_of(outcome.err).size(), 1u) << outcome.err;
    }
    fs::remove_all(folder_ / "straight");
  }
}

// ---- commands that write or read a few files

struct Command {
  const char* name;
  const char* fallible;  // the kinds of calls that fail in turn
  std::function<std::vector<std::string>(const fs::path& work)> arguments;
};

void PrintTo(const Command& command, std::ostream* out) { *out << command.name; }

// Returns the content of a file that does not depend on the time of writing.
std::string content_of_output(const fs::path& path) {
  if (!is_checkpoint(path)) return read_text(path);
  std::string content;
  for (const NamedTensor& tensor : read_parameters(path)) {
    content += tensor.name;
    content.append(static_cast<const char*>(tensor.value.raw()), tensor.value.bytes());
  }
  return content;
}

using Outputs = std::map<std::string, std::string>;

// WORK/runs holds two runs and their parameters; a command writes to WORK/out.
class CommandFaultsTest : public RunTest, public ::testing::WithParamInterface<Command> {
 protected:
  void SetUp() override {
    fs::create_directories(work_ / "runs");
    write_text(config_, kTinyRun);
    train("work/runs/one");
    train("work/runs/two", {"attention.kind=conformal", "eval.attention_maps=true"});
    const std::string best = work_ / "runs" / "one" / "checkpoints" / "best.h5";
    ASSERT_EQ(mobius({"export", best, work_ / "runs" / "model.safetensors"}).exit_code, 0);
    fs::copy_file(config_, work_ / "runs" / "model.yaml");
  }
  Outcome run(const Surroundings& around = {}) const {
    fs::create_directories(out_);
    return mobius(GetParam().arguments(work_), around);
  }
  Outcome run_with(const Fault& fault, int call) {
    fs::remove_all(out_);
    fs::remove(log_);
    Outcome outcome = run(with_fault(work_, log_, fault, call));
    calls_ = calls_in(log_);
    return outcome;
  }
  Outputs outputs() const {
    Outputs outputs;
    for (const auto& entry : fs::directory_iterator(out_)) {
      if (is_temporary(entry.path())) continue;
      outputs[entry.path().filename()] = content_of_output(entry.path());
    }
    return outputs;
  }
  // Files are complete or absent.
  void expect_no_part(const Outputs& expected) const {
    for (const auto& [name, content] : outputs()) {
      EXPECT_TRUE(expected.contains(name) && content == expected.at(name)) << name;
    }
  }
  void expect_works(const Outcome& outcome, const Outcome& expected, const Outputs& files) const {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected.out);
    EXPECT_TRUE(outputs() == files);
  }

  const fs::path work_ = folder_ / "work";
  const fs::path out_ = work_ / "out";
  const fs::path log_ = folder_ / "calls";
  std::vector<NotedCall> calls_;
};

const std::vector<Command> kCommands = {
    {"report", kAll,
     [](const fs::path& work) -> std::vector<std::string> {
       return {"compare", "--report",  work / "runs" / "one", work / "runs" / "two",
               "--out",   work / "out"};
     }},
    {"export", kAll,
     [](const fs::path& work) -> std::vector<std::string> {
       return {"export", work / "runs" / "two" / "checkpoints" / "best.h5",
               work / "out" / "model.safetensors"};
     }},
    {"import", kAll,
     [](const fs::path& work) -> std::vector<std::string> {
       return {"import", work / "runs" / "model.yaml", work / "runs" / "model.safetensors",
               work / "out" / "start.h5"};
     }},
    {"eval", kAll,
     [](const fs::path& work) -> std::vector<std::string> {
       return {"eval", work / "runs" / "one" / "checkpoints" / "best.h5"};
     }},
    {"inspect", kAll,
     [](const fs::path& work) -> std::vector<std::string> {
       return {"inspect", work / "runs" / "two" / "checkpoints" / "best.h5"};
     }},
};

INSTANTIATE_TEST_SUITE_P(, CommandFaultsTest, ::testing::ValuesIn(kCommands),
                         [](const auto& test) { return test.param.name; });

TEST_P(CommandFaultsTest, LeaveWholeFilesOrNone) {
  const std::vector<Sweep> sweeps = {
      kill("", kChanges), kill_halfway(""), fail("", EIO, GetParam().fallible),
      fail_from_then_on("", ENOSPC, kGrowth), fail_from_then_on("", EMFILE, "open,create")};
  for (const auto& [name, fault, error] : sweeps) {
    const Outcome expected = run_with(fault, no_call);
    ASSERT_EQ(expected.exit_code, 0) << expected.err;
    const Outputs files = outputs();
    for (const int call : swept(count_of(calls_))) {
      const Outcome outcome = run_with(fault, call);
      SCOPED_TRACE(trace_of(calls_));
      expect_no_part(files);
      if (error == 0) {
        EXPECT_EQ(outcome.signal, SIGKILL);
      } else {
        expect_no_temporary_files(work_, calls_);
      }
      if (outcome.exit_code == 0) {
        expect_works(outcome, expected, files);
      } else {
        if (error != 0) expect_error(outcome, work_, error, calls_);
        for (const auto& [file, content] : files) fs::remove(out_ / file);
        expect_works(run(), expected, files);
      }
    }
  }
}

// ---- a comparison that trains

class ComparisonFaultsTest : public RunTest {
 protected:
  void SetUp() override {
    write_text(folder_ / "tiny.yaml", kTinyRun);
    write_text(config_, "base: tiny.yaml\nvariations: [{name: one}]\ntrain: {max_steps: 2}\n");
  }
  Outcome compare(const fs::path& out, const Surroundings& around = {}) const {
    return mobius({"compare", config_, "--out", out}, around);
  }
  Outcome compare_with(const Fault& fault, int call) {
    fs::remove_all(out_);
    fs::remove(log_);
    Outcome outcome = compare(out_, with_fault(out_, log_, fault, call));
    calls_ = calls_in(log_);
    return outcome;
  }
  // Waits until the run has ended, too, which follows the end of the comparison.
  void wait_for_run() const {
    const fs::path run = out_ / "one";
    if (!fs::exists(run)) return;
    EXPECT_TRUE(wait_until([&run] {
      try {
        const FolderLock lock(run);
        return true;
      } catch (const Error&) {
        return false;
      }
    }));
  }
  void expect_finished() const {
    EXPECT_EQ(end_of_run(out_ / "one", 2), end_of_run(folder_ / "straight" / "one", 2));
    EXPECT_EQ(lines_of(read_text(out_ / "comparison.csv")).size(), 3u);
    EXPECT_FALSE(nlohmann::json::parse(read_text(out_ / "comparison.json")).empty());
    EXPECT_THAT(read_text(out_ / "report.html"), HasSubstr("</html>"));
    EXPECT_THAT(temporary_files_below(out_), IsEmpty());
  }

  const fs::path out_ = folder_ / "out";
  const fs::path log_ = folder_ / "calls";
  std::vector<NotedCall> calls_;
};

TEST_F(ComparisonFaultsTest, LoseNothing) {
  ASSERT_EQ(compare(folder_ / "straight").exit_code, 0);
  for (const auto& [name, fault, error] :
       {kill("", kChanges), fail_from_then_on("", ENOSPC, kGrowth)}) {
    EXPECT_EQ(compare_with(fault, no_call).exit_code, 0);
    for (int call = 1, n = count_of(calls_); call <= n; ++call) {
      const Outcome outcome = compare_with(fault, call);
      SCOPED_TRACE(trace_of(calls_));
      if (error == 0) {
        EXPECT_EQ(outcome.signal, SIGKILL);
        wait_for_run();
      } else {
        expect_error(outcome, out_, error, calls_);
        expect_no_temporary_files(out_, calls_);
      }
      const Outcome again = compare(out_);
      EXPECT_EQ(again.exit_code, 0) << again.err;
      expect_finished();
    }
  }
}

}  // namespace
}  // namespace mobius::injected_faults_test
