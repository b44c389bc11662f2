// Reads which study is to run and with which values, and runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/options/schema.h"
#include "train/config/document.h"
#include "train/studies/study.h"

namespace mobius {

/// The document of a study: `experiment`, `seed`, and the keys of the study beside them.
struct StudyConfig {
  explicit StudyConfig(const Registry<Study>& studies) : studies_(studies) {}
  StudyConfig(const StudyConfig&) = delete;
  StudyConfig& operator=(const StudyConfig&) = delete;

  Chosen<Study> study;
  std::uint64_t seed = 1;

  void describe(Schema& schema);

 private:
  const Registry<Study>& studies_;
};

/// Returns the document that asks for the defaults of a study, or reads a file: `experiment` is the
/// name of a study of the registry, or else a path. Throws ConfigError with the nearest name if it
/// is neither.
ConfigDocument study_document(const std::string& experiment, const Registry<Study>& studies);

using StudyOptions = std::vector<std::pair<std::string, OptionValue>>;  // by dotted key

/// A study that has run.
struct StudyReport {
  std::string name, question;
  std::string command;  // that repeats it
  std::uint64_t seed = 1;
  StudyOptions options = {};
  StudyResult result = {};
};

using StudyProgress =
    std::function<void(const std::string& what, std::int64_t done, std::int64_t total)>;

/// Reads the document as read_config() does, runs the study, and checks that its result is
/// complete: series of equal lengths, rows as wide as their table, names of figures that are
/// distinct and fit for files. Throws Error that names what is not, and lets StudyStopped pass.
class StudyRun {
 public:
  StudyRun(const ConfigDocument& document, const Registry<Study>& studies);

  const std::string& name() const { return config_.study.name; }
  std::uint64_t seed() const { return config_.seed; }
  /// The values of the study's keys, in the order of their description.
  StudyOptions options() const;
  StudyReport run(const StudyProgress& progress) const;

 private:
  StudyConfig config_;
  Schema schema_;
};

}  // namespace mobius
