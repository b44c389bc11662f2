// Every command refuses malicious files, with one line.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/data/some_text.h"
#include "tests/e2e/run_test.h"
#include "tests/hostile_checkpoint.h"

namespace mobius::hostile_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kTextRun = R"(
model: {d_model: 16, n_layers: 1, n_heads: 2}
train: {max_steps: 6, batch_size: 4, log_every: 1, threads: 1}
eval: {every: 3}
checkpoint: {every: 2}
)";

class HostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "text.txt", some_text(40));
    write_text(config_, "task: {name: lm, tokenizer: char, seq_len: 16, text: '" +
                            (folder_ / "text.txt").string() + "'}" + kTextRun);
    ASSERT_EQ(mobius({"train", config_, "--out", folder_ / "run"}).exit_code, 0);
    fs::copy_file(step_file(folder_ / "run", 6), hostile_);
  }

  // Expects the message `words`, and nothing else, from every command that reads the checkpoint.
  void expect_refused(const std::string& words) const {
    const std::vector<std::vector<std::string>> commands = {
        {"inspect", hostile_},
        {"eval", hostile_},
        {"export", hostile_, folder_ / "out.safetensors"},
        {"generate", hostile_, "--tokens", "5"},
        {"train", config_, "--resume", hostile_, "--out", folder_ / "on"}};
    for (const std::vector<std::string>& command : commands) {
      const Outcome outcome = mobius(command);
      EXPECT_EQ(outcome.exit_code, 1) << command.front();
      EXPECT_EQ(outcome.err, "mobius: error: " + hostile_ + ": " + words + "\n") << command.front();
      EXPECT_LT(outcome.peak_kib, 500'000);
    }
    EXPECT_FALSE(fs::exists(folder_ / "out.safetensors"));
  }

  void alter(const std::function<void(hid_t file)>& change) const {
    fs::copy_file(step_file(folder_ / "run", 6), hostile_, fs::copy_options::overwrite_existing);
    alter_checkpoint(hostile_, change);
  }

  TemporaryFolder folder_;
  const std::string config_ = folder_ / "run.yaml";
  const std::string hostile_ = folder_ / "hostile.h5";
};

TEST_F(HostileTest, AttributesThatAreLists) {
  alter([](hid_t file) {
    const std::int64_t values[] = {0, 1, 2};
    hostile::set_attribute(file, "step", H5T_STD_I64LE, values, {3});
  });
  expect_refused("damaged: attribute 'step' is not one 64-bit integer");
  alter([](hid_t file) {
    const std::vector<std::uint64_t> values(4000, 1);
    hostile::set_attribute(file, "seed", H5T_STD_U64LE, values.data(), {4000});
  });
  expect_refused("damaged: attribute 'seed' is not one 64-bit integer");
  alter([](hid_t file) {
    const std::vector<double> values(4000, 1);
    hostile::set_attribute_of(file, "progress", "tokens", H5T_IEEE_F64LE, values.data(), {4000});
  });
  expect_refused("damaged: attribute 'tokens' of group 'progress' is not one 64-bit number");
}

TEST_F(HostileTest, StepsThatCannotBe) {
  alter([](hid_t file) {
    const double value = HUGE_VAL;
    hostile::set_attribute(file, "step", H5T_IEEE_F64LE, &value);
  });
  expect_refused("damaged: attribute 'step' is not one 64-bit integer");
  alter([](hid_t file) {
    hostile::set_integer(file, "step", std::numeric_limits<std::int64_t>::max());
    hostile::set_integer(file, "next_batch", std::numeric_limits<std::int64_t>::max());
  });
  expect_refused(
      "damaged: attribute 'step' is 9223372036854775807, expected 0 to 9007199254740992");
}

TEST_F(HostileTest, LinksThatLeadInACircle) {
  alter([](hid_t file) {
    H5Lcreate_hard(file, "parameters", file, "parameters/x", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("damaged: 'parameters/x' is not a tensor");
  alter([](hid_t file) {
    H5Lcreate_soft("/optimizer", file, "optimizer/x", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect_refused("damaged: group 'optimizer/x' is a link, expected the thing itself");
}

// No byte of another file is revealed.
TEST_F(HostileTest, TensorsThatLieInAnotherFile) {
  write_text(folder_ / "secret", std::string(100'000, 's'));
  alter([this](hid_t file) {
    const hid_t old = H5Dopen2(file, "parameters/embedding.weight", H5P_DEFAULT);
    const hid_t space = H5Dget_space(old);
    hsize_t sizes[2];
    H5Sget_simple_extent_dims(space, sizes, nullptr);
    H5Sclose(space);
    H5Dclose(old);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, (folder_ / "secret").c_str(), 0, 4 * sizes[0] * sizes[1]);
    hostile::set_tensor(file, "parameters/embedding.weight", H5T_IEEE_F32LE, creation,
                        {sizes[0], sizes[1]}, /*writes=*/false);
    H5Pclose(creation);
  });
  expect_refused(
      "damaged: 'parameters/embedding.weight' does not lie in this file in one piece, as it is");
}

// Such a checkpoint is neither resumed nor evaluated.
TEST_F(HostileTest, ParametersThatAreNotFinite) {
  alter([](hid_t file) {
    const hid_t set = H5Dopen2(file, "parameters/embedding.weight", H5P_DEFAULT);
    const hsize_t begin[] = {1, 2}, one[] = {1, 1};
    const hid_t space = H5Dget_space(set), memory = H5Screate_simple(2, one, nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, nullptr, one, nullptr);
    const double value = std::nan("");
    H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, &value);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
  });
  EXPECT_EQ(mobius({"inspect", hostile_}).exit_code, 0);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"eval", hostile_},
           {"export", hostile_, folder_ / "out.safetensors"},
           {"generate", hostile_},
           {"train", config_, "--resume", hostile_, "--out", folder_ / "on"}}) {
    const Outcome outcome = mobius(command);
    EXPECT_EQ(outcome.exit_code, 1) << command.front();
    EXPECT_EQ(outcome.err, "mobius: error: " + hostile_ +
                               ": 'embedding.weight' holds a number that is not finite, at element "
                               "18\n");
  }
}

TEST_F(HostileTest, ASafetensorsFileOfAnotherWriter) {
  const std::string file = folder_ / "model.safetensors", out = folder_ / "imported.h5";
  ASSERT_EQ(mobius({"export", hostile_, file}).exit_code, 0);
  const std::string good = read_text(file);
  std::uint64_t size;
  std::memcpy(&size, good.data(), sizeof size);
  const auto import_error = [&](const std::string& content) {
    write_text(file, content);
    const Outcome outcome = mobius({"import", config_, file, out});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_FALSE(fs::exists(out));
    return outcome.err;
  };
  const std::string start = "mobius: error: " + file + ": ";
  std::string bad = good;
  for (std::size_t i = 0; i < 4; ++i) bad[8 + size + i] = '\xff';  // a NaN
  EXPECT_THAT(import_error(bad), AllOf(::testing::StartsWith(start + "'"),
                                       HasSubstr("holds a number that is not finite")));
  bad = good;
  bad[8] = '[';
  EXPECT_THAT(import_error(bad),
              ::testing::StartsWith(start + "its header is not valid JSON, from byte "));
  bad = good;
  const std::string twice = "\"shape\":[1],\"shape\"";
  bad.replace(bad.find("\"shape\""), 7, twice);
  size += twice.size() - 7;
  std::memcpy(bad.data(), &size, sizeof size);
  EXPECT_EQ(import_error(bad), start + "'shape' comes twice in its header\n");
}

// The page and the curves of a foreign or damaged run show its readable parts.
TEST_F(HostileTest, ARunWithOtherThingsInItsFiles) {
  const fs::path run = folder_ / "run";
  const std::string deep(200'000, '[');
  write_text(run / "summary.json", "{\"status\": [[1]], \"step\": \"x\"}");
  for (const std::string& maps :
       {std::string("1"), std::string("{\"positions\": 1e300}"),
        std::string("{\"positions\":1,\"tokens\":[1],\"layers\":[[[[\"<script>\"]]]]}"), deep,
        "{\"positions\":1,\"tokens\":[1],\"layers\":[],\"more\":" + deep +
            std::string(deep.size(), ']') + "}"}) {
    write_text(run / "attention_maps.json", maps);
    const Outcome report = mobius({"compare", "--report", run, "--out", folder_ / "report"});
    EXPECT_EQ(report.exit_code, 0) << report.err << report.signal;
    EXPECT_THAT(read_text(folder_ / "report" / "report.html"), Not(HasSubstr("<script>\"")));
  }
  write_text(run / "metrics.jsonl",
             "{\"step\":1,\"split\":\"test\",\"loss\":-1.7e308,\"accuracy\":1.7e308}\n"
             "{\"step\":2,\"split\":\"test\",\"loss\":1.7e308,\"accuracy\":-1.7e308}\n"
             "{\"step\":3,\"split\":3}\n" +
                 deep + "\n");
  const Outcome watched = mobius({"watch", run, "--once"});
  EXPECT_EQ(watched.exit_code, 0) << watched.err << watched.signal;
  EXPECT_THAT(watched.out, HasSubstr("1.7e+308"));
  const Outcome resumed = mobius({"train", config_, "--out", run, "--resume", "auto"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

}  // namespace
}  // namespace mobius::hostile_test
