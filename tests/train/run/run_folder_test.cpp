// Whose a folder is, and what a run may do there.

#include "train/run/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.h"

namespace mobius::run_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Resume kAuto{.from = Resume::From::newest};

class RunFolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text = "of others") const {
    fs::create_directories((run_ / name).parent_path());
    write_text(run_ / name, text);
  }
  std::string error(const Resume& resume = {}) const {
    return error_of<ConfigError>([&] { require_usable_folder(run_, resume); });
  }
  void train(const std::string& name) const {
    train_in(folder_ / name, known_, {"train.max_steps=4"});
  }

  const Registries known_;
  TemporaryFolder folder_;
  const fs::path run_ = folder_ / "run";
};

TEST_F(RunFolderTest, FilesOfOthersDoNotMatter) {
  EXPECT_EQ(error(), "no error");
  for (const char* name :
       {"slurm-4711.out", ".DS_Store", "out.log", "log.txt", "notes/chapter.tex",
        "checkpoints/notes.txt", "checkpoints/step-7.h5", "checkpoints/step-00000007.h5.tmp",
        "tensorboard/events.out.of.others"}) {
    write(name);
  }
  for (const Resume& resume : {Resume{}, kAuto}) EXPECT_EQ(error(resume), "no error");
  EXPECT_FALSE(holds_run(run_));
  train("run");
  EXPECT_TRUE(holds_run(run_));
  EXPECT_EQ(error(kAuto), "no error");
  EXPECT_THAT(error(),
              AllOf(HasSubstr("holds a run"), HasSubstr("--resume auto"), HasSubstr("--out")));
  for (const char* name : {"slurm-4711.out", "checkpoints/step-7.h5",
                           "checkpoints/step-00000007.h5.tmp", "notes/chapter.tex"}) {
    EXPECT_EQ(read_text(run_ / name), "of others") << name;
  }
}

TEST_F(RunFolderTest, NothingOfOthersIsWrittenOver) {
  for (const char* name : {"config.yaml", "metrics.jsonl", "summary.json", "attention_maps.json",
                           "checkpoints", "tensorboard", "checkpoints/step-00000004.h5",
                           "checkpoints/best.h5", "tensorboard/events.out.tfevents.mobius"}) {
    write(name);
    for (const Resume& resume : {Resume{}, kAuto}) {
      EXPECT_THAT(error(resume), AllOf(HasSubstr((run_ / name).string() + ": "),
                                       HasSubstr("written over"), HasSubstr("--out")));
    }
    fs::remove_all(run_);
  }
}

// Each alone, for the others may have been removed.
TEST_F(RunFolderTest, IsTheRunsByWhateverTheRunWrote) {
  train("run");
  for (const char* kept : {"config.yaml", "metrics.jsonl", "summary.json", "checkpoints"}) {
    const fs::path part = folder_ / (std::string("only-") + kept);
    fs::create_directory(part);
    fs::copy(run_ / kept, part / kept, fs::copy_options::recursive);
    EXPECT_TRUE(holds_run(part)) << kept;
  }
  EXPECT_FALSE(holds_run(folder_.path()));
  EXPECT_FALSE(holds_run(folder_ / "absent"));
}

TEST_F(RunFolderTest, ACheckpointIsTheRunsByWhicheverPath) {
  train("run");
  train("other");
  const fs::path newest = checkpoint_path(run_ / "checkpoints", 4);
  fs::create_symlink(newest.filename(), run_ / "checkpoints" / "latest.h5");
  fs::create_symlink(newest, folder_ / "link.h5");
  fs::create_symlink("run", folder_ / "alias");
  for (const fs::path& path :
       {newest, run_ / "checkpoints" / "latest.h5", folder_ / "link.h5",
        folder_ / "alias/checkpoints/step-00000004.h5", run_ / "checkpoints/./step-00000004.h5",
        folder_ / "other/../run/checkpoints/../checkpoints/step-00000004.h5",
        fs::relative(newest)}) {
    EXPECT_EQ(error({Resume::From::file, path}), "no error") << path;
  }
  EXPECT_THAT(error({Resume::From::file, folder_ / "other/checkpoints/step-00000004.h5"}),
              HasSubstr("holds a run that is not the one of"));
  EXPECT_THAT(error({Resume::From::file, checkpoint_path(run_ / "checkpoints", 2)}),
              HasSubstr("later steps"));
}

// Saving would follow it, and leave two steps with the state of one.
TEST_F(RunFolderTest, ALinkBetweenCheckpointsIsRefused) {
  train("run");
  const fs::path best = run_ / "checkpoints" / "best.h5";
  fs::remove(best);
  fs::create_symlink("step-00000004.h5", best);
  EXPECT_THAT(error(kAuto), HasSubstr("is a link to step-00000004.h5"));
  fs::remove(best);
  fs::copy_file(checkpoint_path(run_ / "checkpoints", 4), folder_ / "far.h5");
  fs::create_symlink(folder_ / "far.h5", best);
  EXPECT_EQ(error(kAuto), "no error");
}

TEST_F(RunFolderTest, AConfigIsTheRunsOwnWhereItLiesBesideTheRun) {
  train("run");
  EXPECT_EQ(folder_of_own_config(run_ / "config.yaml"), run_);
  fs::copy_file(run_ / "config.yaml", run_ / "other.yaml");
  EXPECT_EQ(folder_of_own_config(run_ / "other.yaml"), std::nullopt);
  fs::create_directory(folder_ / "project");
  write_text(folder_ / "project" / "config.yaml", kTinyRun);
  EXPECT_EQ(folder_of_own_config(folder_ / "project" / "config.yaml"), std::nullopt);

  fs::rename(run_, folder_ / "moved");
  const auto config = load_config(folder_ / "moved" / "config.yaml", {}, known_);
  EXPECT_EQ(config->output.dir, (folder_ / "moved").string());
  const auto elsewhere = load_config(folder_ / "moved" / "config.yaml", {"output.dir=x"}, known_);
  EXPECT_EQ(elsewhere->output.dir, "x");
}

TEST_F(RunFolderTest, TakingItRemovesWhatAKilledRunLeft) {
  train("run");
  for (const char* name :
       {"config.yaml.mobius-0123abcd.tmp", "checkpoints/best.h5.mobius-0123abcd.tmp",
        "tensorboard/events.out.tfevents.mobius.mobius-0123abcd.tmp"}) {
    write(name, "half");
    RunFolder::take(run_);
    EXPECT_FALSE(fs::exists(run_ / name)) << name;
  }
}

}  // namespace
}  // namespace mobius::run_folder_test
