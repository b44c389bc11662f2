#include "train/io/output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace mobius::output_test {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open_to_write(const std::string& path) { return {std::fopen(path.c_str(), "w"), std::fclose}; }

TEST(Output, IsSeenAtOnce) {
  const TemporaryFolder folder;
  const File file = open_to_write(folder / "text");
  Output out(file.get());
  out.write("a line\n");
  EXPECT_EQ(read_text(folder / "text"), "a line\n");
  EXPECT_TRUE(out.is_written());
  EXPECT_FALSE(out.is_terminal());
}

TEST(Output, ToNowhereIsNoFailure) {
  Output out(nullptr);
  out.write("a line\n");
  EXPECT_NO_THROW(out.require_written());
}

// The work goes on, because the disk may have room again.
TEST(Output, ThatIsFullIsAnErrorAtTheEnd) {
  StopSignal stop;
  const File file = open_to_write("/dev/full");
  Output out(file.get(), &stop);
  out.write("a line\n");
  EXPECT_FALSE(stop.is_requested());
  EXPECT_EQ(error_of<OutputError>([&] { out.require_written(); }),
            "standard output cannot be written: No space left on device");
}

TEST(Output, WhoseReaderLeftAsksToStop) {
  StopSignal stop;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const File file(::fdopen(ends[1], "w"), std::fclose);
  Output out(file.get(), &stop);
  out.write("a line\n");
  EXPECT_TRUE(stop.is_requested());
  EXPECT_FALSE(out.is_written());
}

TEST(Output, IsDroppedWhereNobodyReadsAndTheWorkIsToStop) {
  StopSignal stop;
  stop.request();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const File file(::fdopen(ends[1], "w"), std::fclose);
  Output out(file.get(), &stop);
  for (int i = 0; i < 100; ++i) out.write(std::string(4096, 'x'));  // more than a pipe holds
  EXPECT_TRUE(out.is_written());
  ::close(ends[0]);
}

}  // namespace
}  // namespace mobius::output_test
