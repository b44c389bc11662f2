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

#include "nn/diagnostics.h"
#include "train/io/file.h"

namespace mobius {

/// The checksum CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);
/// The form of it that the format stores.
std::uint32_t masked_crc32c(std::string_view bytes);

/// The event file in a run's folder for TensorBoard, which finds it by its name. The name never
/// changes, so that a resumed run continues the file.
std::filesystem::path event_file(const std::filesystem::path& folder);

/// Appends a copy of metrics.jsonl to a run's event file.
class EventLog {
 public:
  /// Keeps the events up to `step`, or `tested_step` for names with "test/", so that the file has
  /// each step once. Makes the file if it is absent. Throws Error.
  EventLog(const std::filesystem::path& folder, std::int64_t step, std::int64_t tested_step);

  /// Appends an event such as {"train/loss", 1.5}, with the present time.
  void write(std::int64_t step, const NamedNumbers& scalars);

 private:
  std::unique_ptr<AppendedFile> file_;
};

}  // namespace mobius
