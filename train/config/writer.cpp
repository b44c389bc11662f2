#include "train/config/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <sstream>
#include <utility>
#include <variant>

#include "core/options/nearest.h"
#include "train/config/document.h"
#include "train/config/scalar.h"
#include "train/io/printable.h"

namespace mobius {
namespace {

// Values ------------------------------------------------------------------------------------------

// Whether every YAML reader takes the unquoted text for a text: it is a word or a path of words,
// and no word for a boolean or null.
bool is_plain(const std::string& text) {
  const auto is_word = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '/' || c == '.' || c == '-');
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_word)) return false;
  const char first = text.front();
  const bool starts_as_word = std::isalpha(static_cast<unsigned char>(first)) || first == '/' ||
                              text.starts_with("./") || text.starts_with("../");
  constexpr std::array reserved{"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
  return starts_as_word &&
         std::find(reserved.begin(), reserved.end(), lower_case(text)) == reserved.end();
}

// Control characters, of ASCII and from U+0080 to U+009F, are written as their code.
std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (text[i] == '"' || text[i] == '\\') {
      quoted += {'\\', text[i]};
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      quoted += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      quoted += text[i];
    }
  }
  return quoted + '"';
}

// YAML 1.1 wants a point in a mantissa, and readers without a schema take 3 for an integer: 1e-04
// becomes 1.0e-04 and 3 becomes 3.0.
std::string write_number(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find('.') == std::string::npos) {
    text.insert(std::min(text.find('e'), text.size()), ".0");
  }
  return text;
}

struct Writer {
  std::string operator()(std::monostate) const { return "null"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return write_number(value); }
  std::string operator()(const std::string& text) const {
    return is_plain(text) ? text : quote(text);
  }
  template <typename T>
  std::string operator()(const std::vector<T>& list) const {
    std::vector<std::string> elements;
    for (const T& element : list) elements.push_back((*this)(element));
    return fmt::format("[{}]", fmt::join(elements, ", "));
  }
};

// The resolved configuration ----------------------------------------------------------------------

std::string flow(const Schema& schema);

// Returns the value on one line. A variant without a choice has none: "".
std::string flow(const OptionEntry& entry) {
  if (const auto* field = std::get_if<OptionField>(&entry)) return to_yaml(field->value());
  if (const auto* section = std::get_if<OptionSection>(&entry)) return flow(section->schema());
  if (const auto* variant = std::get_if<OptionVariant>(&entry)) {
    return variant->current().empty() ? "" : Writer()(variant->current());
  }
  const auto& list = std::get<OptionList>(entry);
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < list.size(); ++i) elements.push_back(flow(*list.element(i)));
  return fmt::format("[{}]", fmt::join(elements, ", "));
}

std::string flow(const Schema& schema) {
  std::vector<std::string> entries;
  for (const OptionEntry* entry : schema.entries()) {
    const std::string value = flow(*entry);
    if (!value.empty()) entries.push_back(fmt::format("{}: {}", key_of(*entry), value));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

void write_block(const Schema& schema, const std::string& indentation, std::string& yaml) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string value = flow(*entry);
    if (value.empty()) continue;
    yaml += fmt::format("{}{}:", indentation, key_of(*entry));
    const auto* section = std::get_if<OptionSection>(entry);
    const auto* list = std::get_if<OptionList>(entry);
    if (section != nullptr && !section->schema().entries().empty()) {
      yaml += '\n';
      write_block(section->schema(), indentation + "  ", yaml);
    } else if (list != nullptr && list->size() > 0) {
      yaml += '\n';
      for (std::size_t i = 0; i < list->size(); ++i) {
        yaml += fmt::format("{}  - {}\n", indentation, flow(*list->element(i)));
      }
    } else {
      yaml += fmt::format(" {}\n", value);
    }
  }
}

// Help --------------------------------------------------------------------------------------------

struct Row {
  std::string path;
  std::string type;
  std::string value;  // the default
  std::string range;
  std::string help;
};

// A titled table of the keys of a section or of one of its kinds.
struct Table {
  std::string title;
  std::string path;  // of the section
  std::string kind;  // "attention.kind=softmax"; empty for a section
  std::vector<Row> rows{};
};

// Appends the rows of the schema to `table`, which has its title and path, and appends the table
// and those of the sections and kinds below it to `tables`.
void add_tables(Table table, const Schema& schema, std::vector<Table>& tables) {
  const std::string parent = table.path;
  std::vector<std::pair<Table, const Schema*>> below;
  std::vector<OptionPreview> previews;  // owners of schemas in `below`
  for (const OptionEntry& entry : schema.described()) {
    const std::string path = join_path(parent, key_of(entry));
    if (const auto* field = std::get_if<OptionField>(&entry)) {
      const std::string only =
          field->when().empty() ? "" : fmt::format("; only with {}", field->when());
      table.rows.push_back({path, field->type_name(),
                            field->is_required() ? "required" : to_yaml(field->initial()),
                            field->range(), field->help() + only});
    } else if (const auto* section = std::get_if<OptionSection>(&entry)) {
      below.push_back(
          {{fmt::format("{}: {}", path, section->help()), path, ""}, &section->schema()});
    } else if (const auto* list = std::get_if<OptionList>(&entry)) {
      table.rows.push_back({path, "list of sections", flow(entry), "", list->help()});
      previews.push_back(list->preview());
      below.push_back({{fmt::format("each of {}: {}", path, list->help()), path + ".N", ""},
                       previews.back().schema.get()});
    } else if (const auto* variant = std::get_if<OptionVariant>(&entry)) {
      std::vector<std::string> names;
      for (const OptionVariant::Kind& kind : variant->kinds()) {
        names.push_back(kind.name);
        const std::string chosen = fmt::format("{}={}", path, kind.name);
        previews.push_back(variant->preview(kind.name));
        below.push_back(
            {{fmt::format("with {}: {}", chosen, kind.help), parent, chosen},
             kind.name == variant->current() ? &variant->active() : previews.back().schema.get()});
      }
      table.rows.push_back({path, "text",
                            variant->initial().empty() ? "required" : variant->initial(),
                            fmt::format("{}", fmt::join(names, " | ")), variant->help()});
    }
  }
  tables.push_back(std::move(table));
  for (auto& [lower, held] : below) add_tables(std::move(lower), *held, tables);
}

bool lies_in(const std::string& path, const std::string& section) {
  return path == section || path.starts_with(section + ".");
}

// Keeps the tables of a section or a kind, or the row of a key. Throws ConfigError if `about` is
// none of them.
std::vector<Table> tables_about(const std::string& about, std::vector<Table> all) {
  std::vector<Table> chosen;
  std::vector<std::string> names;
  for (Table& table : all) {
    names.push_back(table.kind.empty() ? table.path : table.kind);
    for (const Row& row : table.rows) names.push_back(row.path);
    if (!lies_in(table.path, about) && table.kind != about) {
      std::erase_if(table.rows, [&](const Row& row) { return !lies_in(row.path, about); });
      if (table.rows.empty()) continue;
    }
    chosen.push_back(std::move(table));
  }
  if (!chosen.empty()) return chosen;
  const std::string nearest = nearest_name(about, names);
  throw printable_error("config help: there is no section or key '{}'; {}", about,
                        nearest.empty() ? "'mobius config help' lists all"
                                        : fmt::format("did you mean '{}'?", nearest));
}

// Appends the text in lines of at most `width` columns; a longer word gets a line of its own.
void add_wrapped(std::string& out, const std::string& text, std::size_t first_indentation,
                 std::size_t width) {
  constexpr std::size_t indentation = 6;
  std::istringstream words(text);
  std::string line(first_indentation, ' ');
  bool is_empty = true;
  for (std::string word; words >> word; is_empty = false) {
    if (!is_empty && line.size() + 1 + word.size() > width) {
      out += line + '\n';
      line.assign(indentation, ' ');
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
  }
  if (!is_empty) out += line + '\n';
}

// Writes one line per key, or one paragraph per key if a line would be wider than `width`.
std::string to_text(const Table& table, std::size_t width) {
  const auto widest = [&](std::string Row::*column) {
    std::size_t size = 0;
    for (const Row& row : table.rows) size = std::max(size, (row.*column).size());
    return size;
  };
  std::string lines, paragraphs;
  std::size_t longest = 0;
  for (const Row& row : table.rows) {
    const std::string line =
        fmt::format("  {:<{}}  {:<{}}  {:<{}}  {:<{}}  {}\n", row.path, widest(&Row::path),
                    row.type, widest(&Row::type), row.value, widest(&Row::value), row.range,
                    widest(&Row::range), row.help);
    longest = std::max(longest, line.size() - 1);
    lines += line;
    const std::string is_required = row.value == "required" ? "" : "default ";
    add_wrapped(paragraphs,
                fmt::format("{}: {}, {}{}{}{}", row.path, row.type, is_required, row.value,
                            row.range.empty() ? "" : ", ", row.range),
                2, width);
    add_wrapped(paragraphs, row.help, 6, width);
  }
  std::string title;
  if (!table.title.empty()) add_wrapped(title, table.title, 0, width);
  return title + (longest <= width ? lines : paragraphs);
}

}  // namespace

std::string to_yaml(const Schema& schema) {
  std::string yaml;
  write_block(schema, "", yaml);
  return yaml;
}

std::string to_yaml(const OptionValue& value) { return std::visit(Writer(), value); }

std::string help_text(const std::vector<const Schema*>& schemas, const std::string& about,
                      std::size_t width) {
  std::vector<Table> tables;
  for (const Schema* schema : schemas) add_tables({}, *schema, tables);
  if (!about.empty()) tables = tables_about(about, std::move(tables));
  std::string text;
  for (const Table& table : tables) {
    if (table.title.empty() && table.rows.empty()) continue;
    text += (text.empty() ? "" : "\n") + to_text(table, width);
  }
  return text;
}

}  // namespace mobius
