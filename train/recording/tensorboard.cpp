#include "train/recording/tensorboard.h"

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>

#include "data/input_file.h"
#include "train/io/file.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "the numbers in event files are");

// Wire types of protocol buffers, and keys of fields: number << 3 | type.
constexpr int varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5;
constexpr char key(int field, int type) { return static_cast<char>(field << 3 | type); }
constexpr char event_wall_time = key(1, fixed64_type);
constexpr char event_step = key(2, varint_type);
constexpr char event_file_version = key(3, bytes_type);
constexpr char event_summary = key(5, bytes_type);
constexpr char summary_value = key(1, bytes_type);
constexpr char value_tag = key(1, bytes_type);
constexpr char value_number = key(2, fixed32_type);

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value | 128);
  return bytes + static_cast<char>(value);
}

std::string field(char field_key, const std::string& content) {
  return field_key + varint(content.size()) + content;
}

std::string event(std::int64_t step, const std::string& content) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return event_wall_time + bytes_of(std::chrono::duration<double>(now).count()) + event_step +
         varint(static_cast<std::uint64_t>(step)) + content;
}

std::string record(const std::string& data) {
  const std::string length = bytes_of(static_cast<std::uint64_t>(data.size()));
  return length + bytes_of(masked_crc32c(length)) + data + bytes_of(masked_crc32c(data));
}

// Returns the content of the record at `offset`, or nothing if it is cut short or damaged.
std::optional<std::string_view> record_at(std::string_view file, std::size_t offset) {
  constexpr std::size_t head = 12, tail = 4;
  const std::string_view rest = file.substr(offset);
  if (rest.size() < head + tail) return std::nullopt;
  if (read_at<std::uint32_t>(rest, 8) != masked_crc32c(rest.substr(0, 8))) return std::nullopt;
  const auto length = read_at<std::uint64_t>(rest, 0);
  if (length > rest.size() - head - tail) return std::nullopt;
  const std::string_view data = rest.substr(head, length);
  if (read_at<std::uint32_t>(rest, head + length) != masked_crc32c(data)) return std::nullopt;
  return data;
}

// Returns the step of an event, or nothing if event() did not write it.
std::optional<std::int64_t> step_of(std::string_view data) {
  constexpr std::size_t step_at = 10;  // after the time
  if (data.size() <= step_at || data[0] != event_wall_time || data[9] != event_step) {
    return std::nullopt;
  }
  std::uint64_t step = 0;
  for (std::size_t i = step_at, shift = 0; i < data.size() && shift < 64; ++i, shift += 7) {
    const auto byte = static_cast<unsigned char>(data[i]);
    step |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return static_cast<std::int64_t>(step);
  }
  return std::nullopt;
}

// Returns the records that stay in a resumed run. The first of them names the format of the file.
std::string kept_records(std::string_view file, std::int64_t step, std::int64_t tested_step) {
  std::string kept;
  std::size_t offset = 0;
  while (const auto data = record_at(file, offset)) {
    const std::size_t size = data->size() + 16;
    const std::optional<std::int64_t> at = step_of(*data);
    const bool is_test = data->find("test/") != std::string_view::npos;
    if (at && *at <= (is_test ? tested_step : step)) kept += file.substr(offset, size);
    offset += size;
  }
  return kept;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41, bits reversed
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 == 1 ? polynomial : 0);
  }
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

fs::path event_file(const fs::path& folder) { return folder / "events.out.tfevents.mobius"; }

EventLog::EventLog(const fs::path& folder, std::int64_t step, std::int64_t tested_step) {
  const fs::path path = event_file(folder);
  make_folder(folder);
  const std::string before = step > 0 && fs::exists(path) ? content_of(path) : "";
  const std::string kept = kept_records(before, step, tested_step);
  write_whole_file(
      path, kept.empty() ? record(event(0, field(event_file_version, "brain.Event:2"))) : kept);
  file_ = std::make_unique<AppendedFile>(path);
}

void EventLog::write(std::int64_t step, const NamedNumbers& scalars) {
  std::string summary;
  for (const auto& [name, number] : scalars) {
    summary += field(summary_value,
                     field(value_tag, name) + value_number + bytes_of(static_cast<float>(number)));
  }
  file_->write(record(event(step, field(event_summary, summary))));
}

}  // namespace mobius
