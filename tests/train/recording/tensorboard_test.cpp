#include "train/recording/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/train/run_fixture.h"

namespace mobius::tensorboard_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// A reader of its own, of protocol buffers in general: it shares nothing with the writer but the
// checksum, which CrcOfKnownTexts holds to published values.
struct Reader {
  std::string bytes;
  std::size_t at = 0;

  bool is_done() const { return at >= bytes.size(); }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
    at += sizeof value;
    return value;
  }
  std::string text(std::size_t size) {
    at += size;
    return bytes.substr(at - size, size);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<unsigned char>();
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
};

struct Field {
  std::uint64_t integer = 0;
  double real = 0;
  std::string text;
};

std::multimap<int, Field> message(const std::string& bytes) {
  std::multimap<int, Field> fields;
  for (Reader reader{bytes}; !reader.is_done();) {
    const std::uint64_t key = reader.varint();
    Field field;
    if (key % 8 == 0) field.integer = reader.varint();
    if (key % 8 == 1) field.real = reader.number<double>();
    if (key % 8 == 2) field.text = reader.text(reader.varint());
    if (key % 8 == 5) field.real = reader.number<float>();
    fields.emplace(static_cast<int>(key / 8), field);
  }
  return fields;
}

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version;
  std::map<std::string, double> scalars;
};

std::vector<Event> events_in(const fs::path& folder) {
  Reader file{read_text(folder / "events.out.tfevents.mobius")};
  std::vector<Event> events;
  while (!file.is_done()) {
    const std::string length = file.text(8);
    EXPECT_EQ(file.number<std::uint32_t>(), masked_crc32c(length));
    const std::string data = file.text(Reader{length}.number<std::uint64_t>());
    EXPECT_EQ(file.number<std::uint32_t>(), masked_crc32c(data));
    Event event;
    for (const auto& [number, field] : message(data)) {
      if (number == 1) event.wall_time = field.real;
      if (number == 2) event.step = static_cast<std::int64_t>(field.integer);
      if (number == 3) event.version = field.text;
      if (number != 5) continue;
      for (const auto& [one, value] : message(field.text)) {
        const auto named = message(value.text);
        event.scalars[named.find(1)->second.text] = named.find(2)->second.real;
      }
    }
    events.push_back(event);
  }
  return events;
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  for (const Event& event : events_in(folder)) {
    if (event.version.empty()) steps.push_back(event.step);
  }
  return steps;
}

// RFC 3720, B.4, and the check value of the CRC catalogues.
TEST(Tensorboard, CrcOfKnownTexts) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Tensorboard, WritesWhatCanBeReadBack) {
  const TemporaryFolder folder;
  {
    EventLog log(folder.path(), 0, 0);
    log.write(300, {{"train/loss", 1.5}, {"train/lr", 0.25}});
  }
  const std::vector<Event> events = events_in(folder.path());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 300);
  EXPECT_GT(events[1].wall_time, 1.6e9);
  EXPECT_EQ(events[1].scalars,
            (std::map<std::string, double>{{"train/loss", 1.5}, {"train/lr", 0.25}}));
}

TEST(Tensorboard, GoesOnWithEachStepOnce) {
  const TemporaryFolder folder;
  const fs::path file = folder / "events.out.tfevents.mobius";
  {
    EventLog log(folder.path(), 0, 0);
    for (const std::int64_t step : {100, 200, 300}) log.write(step, {{"train/loss", 1}});
    log.write(300, {{"test/loss", 1}});
  }
  const std::string whole = read_text(file);
  write_text(file, whole.substr(0, whole.size() - 5));  // killed while writing
  {
    EventLog log(folder.path(), 300, 300);
    EXPECT_THAT(steps_in(folder.path()), ElementsAre(100, 200, 300));
  }
  write_text(file, whole);
  {
    EventLog log(folder.path(), 300, 200);  // the test pass is to be repeated
    EXPECT_THAT(steps_in(folder.path()), ElementsAre(100, 200, 300));
    log.write(300, {{"test/loss", 2}});
  }
  EXPECT_EQ(events_in(folder.path()).back().scalars.at("test/loss"), 2);
  {
    EventLog log(folder.path(), 200, 200);
    EXPECT_THAT(steps_in(folder.path()), ElementsAre(100, 200));
  }
  EventLog log(folder.path(), 0, 0);
  EXPECT_TRUE(steps_in(folder.path()).empty());
}

// One event a line of metrics.jsonl, with the same numbers, also after a resume.
TEST(Tensorboard, SaysWhatTheMetricsSay) {
  const TemporaryFolder folder;
  const Registries known;
  train_in(folder / "run", known, {"train.max_steps=4"});
  train_in(folder / "run", known, {"train.max_steps=6"}, "auto");
  const std::vector<std::string> lines = lines_of(read_text(folder / "run/metrics.jsonl"));
  const std::vector<Event> events = events_in(folder / "run/tensorboard");
  ASSERT_EQ(events.size(), lines.size() + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = nlohmann::json::parse(lines[i]);
    const Event& event = events[i + 1];
    const std::string split = line.at("split");
    EXPECT_EQ(event.step, line.at("step").get<std::int64_t>());
    for (const char* name : {"loss", "accuracy"}) {
      EXPECT_FLOAT_EQ(static_cast<float>(event.scalars.at(split + "/" + name)),
                      line.at(name).get<float>());
    }
  }
}

TEST(Tensorboard, IsLeftOutWhereNotAskedFor) {
  const TemporaryFolder folder;
  const Registries known;
  train_in(folder / "run", known, {"output.tensorboard=false"});
  EXPECT_FALSE(fs::exists(folder / "run/tensorboard"));
}

// TensorBoard's own reader, where it is installed.
TEST(Tensorboard, IsReadByTensorBoardItself) {
  if (std::system("python3 -c 'import tensorboard' 2> /dev/null") != 0) {
    GTEST_SKIP() << "Python has no tensorboard";
  }
  const TemporaryFolder folder;
  {
    EventLog log(folder.path(), 0, 0);
    for (const std::int64_t step : {1, 2}) log.write(step, {{"train/loss", 0.5 * step}});
  }
  write_text(folder / "read.py", R"(
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
assert [(s.step, s.value) for s in events.Scalars("train/loss")] == [(1, 0.5), (2, 1.0)]
)");
  EXPECT_EQ(
      std::system(
          ("python3 " + (folder / "read.py").string() + " " + folder.path().string()).c_str()),
      0);
}

}  // namespace
}  // namespace mobius::tensorboard_test
