// Studies: experiments that show a property of attention, each reproducible from a seed.
//
// A study is an options struct that describes its keys (core/options/schema.h) and a run() that
// returns what was found as sentences, tables and figures. `mobius experiment NAME` runs one by a
// YAML file of configs/experiments/ and writes the result as JSON, as a page and as SVG.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/options/registry.h"
#include "core/options/schema.h"

namespace mobius {

/// One curve or cloud of a figure; x and y have equal lengths. A value that is not finite is a gap.
struct Series {
  std::string name;
  std::vector<double> x = {}, y = {};
};

enum class Axis { linear, logarithmic };
enum class Mark { lines, points };

struct Figure {
  std::string name;  // of its file, within the study: "kernel-shapes"
  std::string title, x_label, y_label;
  Axis x_axis = Axis::linear, y_axis = Axis::linear;
  Mark mark = Mark::lines;
  std::vector<Series> series = {};
};

using Cell = std::variant<std::string, double>;

struct StudyTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};  // each as wide as `columns`
};

/// A statement that others have made, what this run measured, and whether they agree.
struct Claim {
  std::string statement, measured;
  bool holds;
};

struct StudyResult {
  /// What the run shows, in whole sentences that carry the measured numbers.
  std::vector<std::string> findings = {};
  std::vector<Claim> claims = {};
  std::vector<StudyTable> tables = {};
  std::vector<Figure> figures = {};
};

/// Ends a study when the user has asked to stop. It is no Error, for it is nobody's fault.
struct StudyStopped {};

/// What a study gets from the program.
struct StudyContext {
  std::uint64_t seed = 1;
  /// To be called between parts of the work: part `done` of `total` begins. Redraws the progress
  /// bar. Throws StudyStopped if the user has asked to stop.
  std::function<void(const std::string& what, std::int64_t done, std::int64_t total)> progress;
};

/// The options of one study. A new study derives its options from this class in its own file and
/// is added to builtin_studies().
class Study {
 public:
  virtual ~Study() = default;
  /// The name by which it is chosen: "e3_kernels".
  virtual std::string name() const = 0;
  /// What it asks, as a question in one sentence.
  virtual std::string question() const = 0;
  virtual void describe(Schema& schema) = 0;
  /// The same options and seed give the same result, but for measured times.
  virtual StudyResult run(const StudyContext& context) const = 0;
};

/// Adds a study under its own name, with its question as the help.
inline void add_study(Registry<Study>& studies, Registry<Study>::Factory make) {
  const std::unique_ptr<Study> study = make();
  studies.add(study->name(), study->question(), std::move(make));
}

/// Adds a study whose default options are a default-constructed `Derived`.
template <typename Derived>
void add_study(Registry<Study>& studies) {
  add_study(studies, [] { return std::make_unique<Derived>(); });
}

Registry<Study> builtin_studies();

}  // namespace mobius
