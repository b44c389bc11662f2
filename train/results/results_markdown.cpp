#include "train/results/results_markdown.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/io/printable.h"
#include "train/results/numbers.h"
#include "train/results/results_json.h"

namespace mobius {

namespace {

// Text that Markdown shows as it is.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '<') {
      result += "&lt;";
    } else {
      if (c == '|' || c == '*' || c == '[' || c == ']') result += '\\';
      result += c;
    }
  }
  return result;
}

std::string row_of(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string table_of(const std::vector<std::string>& columns,
                     const std::vector<std::vector<std::string>>& rows) {
  std::string text = row_of(columns) + row_of(std::vector<std::string>(columns.size(), "---"));
  for (const std::vector<std::string>& row : rows) text += row_of(row);
  return text + "\n";
}

std::string claims_of(const StudyReport& report) {
  if (report.result.claims.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const Claim& claim : report.result.claims)
    rows.push_back({plain(claim.statement), plain(claim.measured), claim.holds ? "yes" : "**no**"});
  return table_of({"claimed", "measured", "holds"}, rows);
}

std::string table_of(const StudyTable& table) {
  std::vector<std::string> columns;
  for (const std::string& column : table.columns) columns.push_back(plain(column));
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    for (const Cell& cell : row) cells.push_back(plain(cell_text(cell)));
  }
  return "**" + plain(table.title) + "**\n\n" + table_of(columns, rows);
}

std::string section_of(const StudyReport& report) {
  std::string text = fmt::format("## {}\n\n*{}*\n\n", report.name, plain(report.question));
  for (const std::string& finding : report.result.findings) text += "- " + plain(finding) + "\n";
  text += report.result.findings.empty() ? "" : "\n";
  text += claims_of(report);
  for (const Figure& figure : report.result.figures)
    text += fmt::format("![{}]({})\n\n", plain(figure.title), svg_name(report.name, figure));
  for (const StudyTable& table : report.result.tables) text += table_of(table);
  return text + fmt::format("    build/{}\n\n", report.command);
}

std::size_t failed_claims(const StudyReport& report) {
  return static_cast<std::size_t>(std::ranges::count(report.result.claims, false, &Claim::holds));
}

std::string overview_of(const std::vector<StudyReport>& reports) {
  std::vector<std::vector<std::string>> rows;
  for (const StudyReport& report : reports) {
    const std::size_t count = report.result.claims.size();
    rows.push_back(
        {fmt::format("[{0}](#{0})", report.name), plain(report.question),
         count == 0 ? "" : fmt::format("{} of {} hold", count - failed_claims(report), count)});
  }
  return table_of({"experiment", "question", "claims"}, rows);
}

}  // namespace

std::string svg_name(const std::string& study, const Figure& figure) {
  return fmt::format("{}-{}.svg", study, figure.name);
}

std::string to_markdown(const std::vector<StudyReport>& reports) {
  std::string text =
      "<!-- Made by mobius experiment: changes are lost when it runs again. -->\n"
      "# Experiments\n\n";
  text += fmt::format(
      "`make experiments` runs all of them and writes this folder; every number below is of that "
      "run, on {}. The command below each section repeats it alone and writes its figures, a page "
      "and `NAME.json` with all numbers to `runs/experiments/`.\n\n",
      plain(processor_name()));
  text += overview_of(reports);
  for (const StudyReport& report : reports) text += section_of(report);
  text.pop_back();  // the last empty line
  return text;
}

std::string to_text(const StudyReport& report) {
  std::string text = report.question + "\n";
  for (const std::string& finding : report.result.findings) text += "- " + finding + "\n";
  for (const Claim& claim : report.result.claims) {
    text += fmt::format("{}: {}; measured: {}\n",
                        claim.holds ? "this claim holds" : "this claim does not hold",
                        claim.statement, claim.measured);
  }
  return text;
}

}  // namespace mobius
