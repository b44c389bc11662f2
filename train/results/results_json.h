// Writes what a study found as JSON, for programs.
#pragma once

#include <string>
#include <vector>

#include "train/results/study_run.h"

namespace mobius {

/// Every number and sentence of a report, with the options, the seed, the version of the program
/// and the name of the processor; docs/commands.md lists the fields. The order of keys is fixed,
/// and a number that is not finite is null.
std::string to_json(const StudyReport& report);
/// The reports of several studies as one list.
std::string to_json(const std::vector<StudyReport>& reports);

/// The processor as the system names it; "unknown" if it does not.
std::string processor_name();

}  // namespace mobius
