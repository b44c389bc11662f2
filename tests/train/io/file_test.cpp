#include "train/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "data/input_file.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace mobius::file_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FileTest : public ::testing::Test {
 protected:
  std::string pipe() const {
    const std::string path = folder_ / "pipe";
    EXPECT_EQ(::mkfifo(path.c_str(), 0666), 0);
    return path;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const fs::path& path : entries_of(folder_.path())) names.push_back(path.filename());
    return names;
  }

  TemporaryFolder folder_;
  const fs::path path_ = folder_ / "file";
  const fs::path other_ = folder_ / "other";
};

// ---- writing

TEST_F(FileTest, IsAbsentUntilItIsWhole) {
  write_text(path_, "before");
  {
    PendingFile file(path_);
    file.write(std::string("half"));
    EXPECT_EQ(read_text(path_), "before");
    EXPECT_TRUE(is_temporary(file.temporary()));
  }
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
  write_whole_file(path_, "after");
  EXPECT_EQ(read_text(path_), "after");
  EXPECT_EQ(names(), std::vector<std::string>{"file"});
}

TEST_F(FileTest, KeepsThePermissions) {
  write_text(path_, "");
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  write_whole_file(path_, "secret");
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

// A file in the place of a temporary file belongs to somebody else.
TEST_F(FileTest, WritesOverNothingButItsPlace) {
  write_text(other_, "of others");
  fs::create_symlink(other_, folder_ / "file.tmp");
  PendingFile first(path_), second(path_);
  first.write(std::string("first"));
  second.write(std::string("second"));
  EXPECT_NE(first.temporary(), second.temporary());
  first.commit();
  second.commit();
  EXPECT_EQ(read_text(path_), "second");
  EXPECT_EQ(read_text(other_), "of others");
  EXPECT_TRUE(fs::is_symlink(folder_ / "file.tmp"));
}

TEST_F(FileTest, WritesThroughLinks) {
  fs::create_directory(folder_ / "far");
  write_text(folder_ / "far" / "there", "before");
  fs::create_symlink("far/there", other_);
  fs::create_symlink("other", path_);
  write_whole_file(path_, "after");
  EXPECT_TRUE(fs::is_symlink(path_) && fs::is_symlink(other_));
  EXPECT_EQ(read_text(folder_ / "far" / "there"), "after");

  fs::remove(folder_ / "far" / "there");
  write_whole_file(path_, "anew");
  EXPECT_TRUE(fs::is_symlink(path_) && fs::is_symlink(other_));
  EXPECT_EQ(read_text(folder_ / "far" / "there"), "anew");

  fs::remove(other_);
  fs::create_symlink("file", other_);
  EXPECT_THAT(error_of([&] { write_whole_file(path_, "round"); }),
              HasSubstr("Too many levels of symbolic links"));
}

TEST_F(FileTest, WritesThroughPipes) {
  const std::string path = pipe();
  std::string got;
  std::thread reader([&] { got = read_text(path); });
  write_whole_file(path, "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(names(), std::vector<std::string>{"pipe"});
}

TEST_F(FileTest, ErrorsNameTheFileThatWasAskedFor) {
  const fs::path absent = folder_ / "none" / "file";
  EXPECT_EQ(error_of([&] { write_whole_file(absent, "x"); }),
            absent.string() + ": cannot write: No such file or directory");
  fs::create_symlink("/dev/full", path_);
  EXPECT_THAT(error_of([&] { write_whole_file(path_, "x"); }),
              AllOf(HasSubstr("file: cannot write: No space left on device")));
  EXPECT_TRUE(fs::is_symlink(path_));
}

TEST_F(FileTest, RemovesOnlyTheUnfinishedFilesOfItsOwn) {
  const std::string killed = "step-00000004.h5.mobius-0123abcd.tmp";
  const std::string link = "best.h5.mobius-0123abcd.tmp";
  const std::vector<std::string> foreign = {"notes.tmp", "step-00000004.h5.tmp",
                                            "a.mobius-0123.tmp", "a.mobius-0123wxyz.tmp",
                                            ".mobius-0123abcd.tmp"};
  write_text(folder_ / killed, "half");
  for (const std::string& name : foreign) write_text(folder_ / name, "of others");
  fs::create_symlink("notes.tmp", folder_ / link);
  remove_unfinished(folder_.path());
  EXPECT_FALSE(fs::exists(folder_ / killed));
  for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_TRUE(fs::is_symlink(folder_ / link));
}

TEST_F(FileTest, RemovesWhatAKilledProcessLeftOfOneFile) {
  const std::string killed = "file.mobius-0123abcd.tmp", other = "other.mobius-0123abcd.tmp";
  write_text(folder_ / killed, "half");
  write_text(folder_ / other, "of another file");
  PendingFile held(path_);
  held.write(std::string_view("in the making"));
  remove_abandoned(path_);
  EXPECT_FALSE(fs::exists(folder_ / killed));
  EXPECT_TRUE(fs::exists(folder_ / other));
  held.commit();
  EXPECT_EQ(content_of(path_), "in the making");
  EXPECT_EQ(names(), (std::vector<std::string>{"file", other}));
}

TEST_F(FileTest, AFileIsReplacedOnlyOnDemand) {
  const auto error = [&](const fs::path& out, bool is_forced) {
    return error_of<ConfigError>([&] { require_free(out, {other_}, is_forced); });
  };
  write_text(other_, "read");
  EXPECT_EQ(error(path_, false), "no error");
  write_text(path_, "there");
  EXPECT_THAT(error(path_, false), AllOf(HasSubstr("exists already"), HasSubstr("--force")));
  EXPECT_EQ(error(path_, true), "no error");
  EXPECT_THAT(error(folder_.path(), true), HasSubstr("is a folder"));
  EXPECT_EQ(error(pipe(), false), "no error") << "a pipe has nothing to lose";

  fs::create_symlink("other", folder_ / "link");
  fs::create_hard_link(other_, folder_ / "hard");
  for (const fs::path& same : {other_, folder_ / "link", folder_ / "hard"}) {
    EXPECT_THAT(error(same, true), HasSubstr("would be written over, but is read")) << same;
  }
}

// ---- reading

// Reading any of these would take for ever.
TEST_F(FileTest, ReadsNoDeviceAndWaitsForNoPipe) {
  for (const std::string& path : {std::string("/dev/zero"), pipe(), folder_.path().string()}) {
    EXPECT_EQ(error_of([&] { content_of(path); }), path + ": is not a file");
    EXPECT_EQ(error_of([&] { InputFile file(path); }), path + ": is not a file");
  }
}

TEST_F(FileTest, AFailedReadNamesItsFile) {
  const std::string path = "/proc/self/mem";  // nothing is mapped at its beginning
  for (const auto& read : {std::function([&] { content_of(path); }),
                           std::function([&] { content_of_file_or_pipe(path, 100); })}) {
    EXPECT_EQ(error_of(read), path + ": cannot be read: Input/output error");
  }
}

TEST_F(FileTest, ReadsAPipeThatIsWrittenTo) {
  const std::string path = pipe();
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write_text(path, "text");
  });
  EXPECT_EQ(content_of_file_or_pipe(path, 4), "text");
  writer.join();
  std::thread second([&] { write_text(path, "text"); });
  EXPECT_THAT(error_of([&] { content_of_file_or_pipe(path, 3); }),
              EndsWith("is longer than 3 bytes"));
  second.join();
  EXPECT_EQ(error_of([&] { content_of_file_or_pipe("/dev/zero", 3); }), "/dev/zero: is not a file");
}

}  // namespace
}  // namespace mobius::file_test
