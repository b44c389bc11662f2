#include "train/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <random>

#include "tests/hostile_checkpoint.h"
#include "tests/train/run_fixture.h"
#include "train/checkpoint/checksum.h"

namespace mobius::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

CheckpointHeader some_header(std::int64_t step = 7) {
  return {.step = step,
          .seed = 0xfedcba9876543210u,
          .config = "task: {name: \"mqar\"}\n# über\n",
          .optimizer_steps = std::min<std::int64_t>(step, 5),
          .progress = {{"train_seconds", 1.5}, {"best_value", 0.25}},
          .tokenizer = TokenizerModel{"char", std::string("\0\n a\xc3\xa9", 6)},
          .data = "12 tokens",
          .instruction_set = "avx512_amx"};
}

CheckpointTensors some_tensors(float first = 1) {
  CheckpointTensors tensors;
  tensors.parameters = {
      {"z.weight", Tensor::from(std::vector<float>{first, 2, 3, 4, 5, 6}, {2, 3})},
      {"a.bias", Tensor::from(std::vector<double>{1e-300, -0.0}, {2})},
      {"scalar", Tensor::from(std::vector<float>{42}, {})},
      {"half", Tensor::from(std::vector<float>{1.5f, -2.25f}, {2}).to(DType::bf16)}};
  tensors.buffers = {{"index", Tensor::from(std::vector<std::int64_t>{1, -2}, {2})},
                     {"flags", Tensor::from(std::vector<std::uint8_t>{0, 255, 7}, {3})}};
  tensors.optimizer = {{"m/z.weight", Tensor::full({2, 3}, 0.5)},
                       {"v/z.weight", Tensor::full({2, 3}, 0.125)}};
  return tensors;
}

CheckpointTensors zeros_like(const CheckpointTensors& tensors) {
  const auto zeros = [](const std::vector<NamedTensor>& group) {
    std::vector<NamedTensor> result;
    for (const NamedTensor& tensor : group) {
      result.push_back({tensor.name, tensor.value.zeros_like()});
    }
    return result;
  };
  return {zeros(tensors.parameters), zeros(tensors.buffers), zeros(tensors.optimizer)};
}

void expect_same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].value.bytes(), b[i].value.bytes());
    EXPECT_EQ(std::memcmp(a[i].value.raw(), b[i].value.raw(), a[i].value.bytes()), 0) << a[i].name;
  }
}

class Checkpoint : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  fs::path path_ = folder_ / "step-00000007.h5";

  void save() { save_checkpoint(path_, some_header(), some_tensors()); }
  std::string read_error() {
    return error_of([&] { read_checkpoint_header(path_); });
  }
};

TEST_F(Checkpoint, ATokenizerCanBeEmptyOrAbsent) {
  for (const auto& tokenizer :
       {std::optional<TokenizerModel>(), std::optional(TokenizerModel{"byte", ""})}) {
    CheckpointHeader header = some_header();
    header.tokenizer = tokenizer;
    header.data = "";
    header.instruction_set = "";
    save_checkpoint(path_, header, some_tensors());
    EXPECT_EQ(read_checkpoint_header(path_).tokenizer, tokenizer);
    EXPECT_EQ(read_checkpoint_header(path_).data, "");
    EXPECT_EQ(read_checkpoint_header(path_).instruction_set, "");
  }
}

TEST_F(Checkpoint, ReturnsWhatWasSaved) {
  save();
  const CheckpointHeader header = read_checkpoint_header(path_);
  EXPECT_EQ(header.step, 7);
  EXPECT_EQ(header.seed, 0xfedcba9876543210u);
  EXPECT_EQ(header.tokenizer, some_header().tokenizer);
  EXPECT_EQ(header.data, "12 tokens");
  EXPECT_EQ(header.instruction_set, "avx512_amx");
  EXPECT_EQ(header.config, some_header().config);
  EXPECT_EQ(header.optimizer_steps, 5);
  EXPECT_EQ(header.progress, some_header().progress);

  const CheckpointTensors loaded = zeros_like(some_tensors());
  load_checkpoint(path_, loaded);
  expect_same_bits(loaded.parameters, some_tensors().parameters);
  expect_same_bits(loaded.buffers, some_tensors().buffers);
  expect_same_bits(loaded.optimizer, some_tensors().optimizer);
}

TEST_F(Checkpoint, IsNotMuchLargerThanItsTensors) {
  CheckpointTensors tensors = some_tensors();
  tensors.parameters.push_back({"large", Tensor::zeros({1 << 20})});
  save_checkpoint(path_, some_header(), tensors);
  EXPECT_GT(fs::file_size(path_), 4u << 20);
  EXPECT_LT(fs::file_size(path_), (4u << 20) + 50000);
}

TEST_F(Checkpoint, BumpsTheVersionOfWhatItFills) {
  save();
  const CheckpointTensors loaded = zeros_like(some_tensors());
  const std::uint64_t before = loaded.parameters[0].value.version();
  load_checkpoint(path_, loaded);
  EXPECT_GT(loaded.parameters[0].value.version(), before);
}

TEST_F(Checkpoint, ListsParametersInTheOrderOfTheModel) {
  save();
  const std::vector<StoredTensor> listed = list_parameters(path_);
  ASSERT_EQ(listed.size(), 4u);
  EXPECT_EQ(listed[0].name, "z.weight");
  EXPECT_EQ(listed[0].shape, (Shape{2, 3}));
  EXPECT_EQ(listed[1].dtype, DType::f64);
  EXPECT_EQ(listed[2].shape, Shape{});
  EXPECT_EQ(listed[3].dtype, DType::bf16);
}

TEST_F(Checkpoint, LeavesOutTheOptimiserWhenNotAskedForIt) {
  save();
  CheckpointTensors loaded = zeros_like(some_tensors());
  loaded.optimizer.clear();
  load_checkpoint(path_, loaded);
  expect_same_bits(loaded.parameters, some_tensors().parameters);
}

TEST_F(Checkpoint, SaysWhereAnotherModelDiffersAndChangesNothing) {
  save();
  CheckpointTensors other = zeros_like(some_tensors());
  other.parameters[0].value = Tensor::zeros({3, 2});
  other.parameters[2].name = "b.bias";
  const std::string error = error_of([&] { load_checkpoint(path_, other); });
  EXPECT_THAT(error, HasSubstr(path_.string()));
  EXPECT_THAT(error, HasSubstr("'z.weight' is f32 [2, 3] in the file and f32 [3, 2] here"));
  EXPECT_THAT(error, HasSubstr("the file lacks 'b.bias'"));
  EXPECT_THAT(error, HasSubstr("here there is no 'scalar'"));
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_EQ(other.parameters[1].value.to_vector<double>(), (std::vector<double>{0, 0}));
}

TEST_F(Checkpoint, SaysWhereAnotherOptimiserDiffers) {
  save();
  CheckpointTensors other = zeros_like(some_tensors());
  other.optimizer = {{"momentum/z.weight", Tensor::zeros({2, 3})}};
  EXPECT_THAT(
      error_of([&] { load_checkpoint(path_, other); }),
      AllOf(HasSubstr("in optimizer"), HasSubstr("momentum/z.weight"), HasSubstr("m/z.weight")));
}

// ---- damaged, truncated, foreign

TEST_F(Checkpoint, NamesAMissingFile) {
  EXPECT_EQ(read_error(), path_.string() + ": no such file");
}

TEST_F(Checkpoint, NamesAFolder) {
  fs::create_directory(path_);
  EXPECT_THAT(read_error(), HasSubstr("is a folder"));
}

TEST_F(Checkpoint, NamesTruncation) {
  save();
  const auto size = fs::file_size(path_);
  for (const auto kept : {size - 1, size / 2, std::uintmax_t{600}}) {
    fs::resize_file(path_, kept);
    EXPECT_THAT(read_error(), HasSubstr("truncated: expected " + std::to_string(size) +
                                        " bytes, got " + std::to_string(kept)));
  }
  fs::resize_file(path_, 0);
  EXPECT_THAT(read_error(), HasSubstr("the file is empty"));
}

TEST_F(Checkpoint, NamesForeignFiles) {
  write_text(path_, "step: 7\n");
  EXPECT_EQ(read_error(), path_.string() + ": not a Mobius checkpoint");
  H5Fclose(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_EQ(read_error(), path_.string() + ": not a Mobius checkpoint, though it is an HDF5 file");
}

TEST_F(Checkpoint, NamesANewerVersion) {
  save();
  std::string text = read_text(path_);
  text.replace(text.find("format_version 1"), 16, "format_version 9");
  write_text(path_, text);
  EXPECT_THAT(read_error(), HasSubstr("format version 9 is newer than this program"));
}

// An Error refuses the file for every flipped bit.
TEST_F(Checkpoint, NoticesEveryFlippedBit) {
  save();
  const std::string good = read_text(path_);
  int flips = 0;
  for (std::size_t at = 0; at < good.size(); at += at < checksum_block_bytes ? 1 : 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    write_text(path_, bad);
    EXPECT_NE(read_error(), "no error") << "byte " << at;
    ++flips;
  }
  EXPECT_GT(flips, 600);
  write_text(path_, good);
  EXPECT_EQ(read_error(), "no error");
}

TEST_F(Checkpoint, NoticesAddedBytes) {
  save();
  write_text(path_, read_text(path_) + "x");
  EXPECT_THAT(read_error(), HasSubstr("damaged"));
}

// ---- made to harm: the checksum is right

TEST_F(Checkpoint, ReadsNothingThatIsNotAsTheFormatSays) {
  for (const HostileChange& change : hostile_changes()) {
    save();
    alter_checkpoint(path_, change.apply);
    const std::string error = read_error();
    if (change.message.empty()) {
      EXPECT_EQ(error, "no error") << change.name;
      continue;
    }
    EXPECT_THAT(error, StartsWith(path_.string() + ": ")) << change.name;
    EXPECT_THAT(error, HasSubstr(change.message)) << change.name;
    EXPECT_THAT(error, Not(HasSubstr("\n"))) << change.name;
    EXPECT_EQ(error_of([&] { load_checkpoint(path_, zeros_like(some_tensors())); }), error)
        << change.name;
  }
}

// Damage that crashes the HDF5 library is an ordinary error, because it crashes in another process.
TEST_F(Checkpoint, SurvivesWhatTheLibraryDoesNot) {
  save();
  const std::string good = read_text(path_);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 8; ++flips) {
      bad[checksum_block_bytes + random() % (bad.size() - checksum_block_bytes)] =
          static_cast<char>(random());
    }
    write_text(path_, with_valid_checksum(bad));
    const std::string error = read_error();
    EXPECT_THAT(error, Not(HasSubstr("\n")));
    refused += error != "no error";
  }
  EXPECT_GT(refused, 20);
}

TEST_F(Checkpoint, RefusesParametersThatAreNotFinite) {
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CheckpointTensors tensors = some_tensors();
    tensors.parameters[1].value.slice(0, 1, 2).fill(value);
    tensors.optimizer[1].value.fill(HUGE_VAL);  // a second moment may overflow
    save_checkpoint(path_, some_header(), tensors);
    const std::string words =
        path_.string() + ": 'a.bias' holds a number that is not finite, at element 1";
    EXPECT_EQ(error_of([&] { load_checkpoint(path_, zeros_like(tensors)); }), words);
    EXPECT_EQ(error_of([&] { read_parameters(path_); }), words);
    EXPECT_EQ(read_error(), "no error") << "it can be inspected";

    tensors.parameters = some_tensors().parameters;
    save_checkpoint(path_, some_header(), tensors);
    const CheckpointTensors loaded = zeros_like(tensors);
    load_checkpoint(path_, loaded);
    expect_same_bits(loaded.optimizer, tensors.optimizer);
  }
}

// ---- writing

// The limit on file size stands for a full disk: both make a write fail half way.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Checkpoint, SurvivesAFailedWriteOfTheNextOne) {
  CheckpointTensors large = some_tensors();
  large.parameters.push_back({"large", Tensor::zeros({1 << 18})});
  for (const rlim_t limit : {100, 512, 3000, 20000, 500000}) {
    save();
    {
      const FileSizeLimit full(limit);
      const std::string error = error_of([&] { save_checkpoint(path_, some_header(8), large); });
      EXPECT_THAT(error, AllOf(HasSubstr(path_.string()), HasSubstr("File too large"))) << limit;
      EXPECT_EQ(error.find('\n'), std::string::npos);
    }
    EXPECT_EQ(read_checkpoint_header(path_).step, 7) << limit;
    int files = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      files += entry.is_regular_file();
    }
    EXPECT_EQ(files, 1) << "nothing half-written is left behind";
  }
  save_checkpoint(path_, some_header(8), large);
  EXPECT_EQ(read_checkpoint_header(path_).step, 8);
}

TEST_F(Checkpoint, NamesAFolderItCannotWriteTo) {
  path_ = folder_ / "absent" / "step-00000007.h5";
  EXPECT_THAT(error_of([&] { save(); }), HasSubstr("No such file or directory"));
}

// A reader keeps the file it has opened; the next save neither waits for it nor disturbs it.
TEST_F(Checkpoint, CanBeReplacedWhileItIsRead) {
  save();
  const std::string before = read_text(path_);
  std::ifstream reader(path_, std::ios::binary);
  // HDF5 takes such a lock, exclusive where a file is open for writing.
  const int other_process = ::open(path_.c_str(), O_RDONLY);
  ASSERT_EQ(::flock(other_process, LOCK_EX), 0);
  EXPECT_EQ(read_checkpoint_header(path_).step, 7);
  save_checkpoint(path_, some_header(8), some_tensors(99));
  EXPECT_EQ(read_checkpoint_header(path_).step, 8);
  ::close(other_process);
  std::ostringstream seen;
  seen << reader.rdbuf();
  EXPECT_EQ(seen.str(), before);
}

TEST_F(Checkpoint, LeavesTheErrorPrinterOfOthersAlone) {
  H5E_auto2_t before = nullptr, after = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  save();
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  EXPECT_EQ(before, after);
}

// ---- the folder of a run

class CheckpointFolder : public Checkpoint {
 protected:
  void save_step(std::int64_t step) {
    save_checkpoint(checkpoint_path(folder_.path(), step), some_header(step), some_tensors());
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const fs::path& path : step_checkpoints(folder_.path())) {
      names.push_back(path.filename().string());
    }
    return names;
  }
};

TEST_F(CheckpointFolder, ListsStepsInTheirOrder) {
  for (const std::int64_t step : {100, 20, 123456789}) save_step(step);
  write_text(folder_ / "step-x.h5", "");
  write_text(folder_ / "best.h5", "");
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000020.h5", "step-00000100.h5",
                                               "step-123456789.h5"}));
  EXPECT_TRUE(step_checkpoints(folder_ / "absent").empty());
}

TEST_F(CheckpointFolder, PruningKeepsTheNewestAndTheBest) {
  for (const std::int64_t step : {1, 2, 3}) save_step(step);
  save_checkpoint(folder_ / "best.h5", some_header(1), some_tensors());
  for (const char* foreign : {"step-1.h5", "step-0000000001.h5", "step-00000004.h5.tmp"})
    write_text(folder_ / foreign, "of others");
  prune_checkpoints(folder_.path(), 3, 2);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000002.h5", "step-00000003.h5"}));
  EXPECT_TRUE(fs::exists(folder_ / "best.h5"));
  for (const char* foreign : {"step-1.h5", "step-0000000001.h5", "step-00000004.h5.tmp"})
    EXPECT_TRUE(fs::exists(folder_ / foreign)) << foreign;
}

// Later ones are broken, or the run would have gone on from them.
TEST_F(CheckpointFolder, PruningLeavesThoseUpToTheStepWhateverComesLater) {
  for (const std::int64_t step : {1, 2, 3}) save_step(step);
  write_text(checkpoint_path(folder_.path(), 4), "broken");
  write_text(checkpoint_path(folder_.path(), 123456789), "broken");
  prune_checkpoints(folder_.path(), 3, 1);
  EXPECT_EQ(names(), (std::vector<std::string>{"step-00000003.h5", "step-00000004.h5",
                                               "step-123456789.h5"}));
}

TEST_F(CheckpointFolder, TheNewestSkipsAndReportsBrokenOnes) {
  for (const std::int64_t step : {1, 2, 3}) save_step(step);
  const fs::path broken = checkpoint_path(folder_.path(), 3);
  fs::resize_file(broken, fs::file_size(broken) - 8);
  const NewestCheckpoint newest = newest_checkpoint(folder_.path());
  EXPECT_EQ(newest.path, checkpoint_path(folder_.path(), 2));
  ASSERT_EQ(newest.skipped.size(), 1u);
  EXPECT_THAT(newest.skipped[0], AllOf(HasSubstr(broken.string()), HasSubstr("truncated")));
}

TEST_F(CheckpointFolder, TheNewestFallsBackToTheBest) {
  EXPECT_FALSE(newest_checkpoint(folder_.path()).path.has_value());
  save_checkpoint(folder_ / "best.h5", some_header(1), some_tensors());
  write_text(checkpoint_path(folder_.path(), 2), "not this one");
  EXPECT_EQ(newest_checkpoint(folder_.path()).path, folder_ / "best.h5");
}

}  // namespace
}  // namespace mobius::checkpoint_test
