// Writes what studies found as a page of documentation.
#pragma once

#include <string>
#include <vector>

#include "train/results/study_run.h"

namespace mobius {

/// The name of a figure's file: "e3_kernels-shapes.svg".
std::string svg_name(const std::string& study, const Figure& figure);

/// One page in Markdown: for each study its question, its findings, how claims compare with what
/// was measured, tables, the figures by svg_name(), and the command that repeats it.
std::string to_markdown(const std::vector<StudyReport>& reports);

/// What a study found as plain lines, for a terminal.
std::string to_text(const StudyReport& report);

}  // namespace mobius
