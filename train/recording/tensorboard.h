// A run's metrics as TensorBoard reads them: a file of records, each a length, a checksum of it, an
// Event of TensorBoard's protocol (step, time and named numbers), and its checksum.
// https://github.com/tensorflow/docs/blob/r1.10/site/en/api_guides/python/python_io.md (framing),
// tensorflow/core/util/event.proto and framework/summary.proto (messages).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/io/file.h"

namespace mobius {

/// Named numbers of one step, such as {"train/loss", 1.5}.
using Scalars = std::vector<std::pair<std::string, double>>;

/// The checksum CRC-32C (Castagnoli), and as the format stores it.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

/// The event file in a run's folder for TensorBoard: named as that looks for them, and alike in
/// every run, for a resumed one goes on in it.
std::filesystem::path event_file(const std::filesystem::path& folder);

/// Appends to a run's event file. It is an extra copy of metrics.jsonl: reading it needs no program
/// but TensorBoard.
class EventLog {
 public:
  /// Goes on in the folder's event file, made where it is absent: events up to `step` stay, those
  /// whose names start with "test/" up to `tested_step`; later ones, and what is damaged, are
  /// removed, so that each step is there once. Throws Error.
  EventLog(const std::filesystem::path& folder, std::int64_t step, std::int64_t tested_step);

  /// One event, at the present time.
  void write(std::int64_t step, const Scalars& scalars);

 private:
  std::unique_ptr<AppendedFile> file_;
};

}  // namespace mobius
