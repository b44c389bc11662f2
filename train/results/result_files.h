// The files that `mobius experiment` writes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/results/study_run.h"

namespace mobius {

/// The page of a run of all studies, in Markdown, and the one for a browser.
inline constexpr std::string_view overview_markdown = "README.md";
inline constexpr std::string_view overview_page = "index.html";

/// Throws ConfigError if one of the files is in the folder and was not written by an experiment.
void require_own_results(const std::filesystem::path& folder,
                         const std::vector<std::string>& names);

/// Writes NAME.json and an SVG file for each figure. Every file is whole or absent, and files of
/// others are refused as above before anything is written.
void write_results(const std::filesystem::path& folder, const StudyReport& report);

}  // namespace mobius
