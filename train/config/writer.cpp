#include "train/config/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "core/options/nearest.h"
#include "train/config/document.h"
#include "train/io/printable.h"

namespace mobius {
namespace {

// Values ------------------------------------------------------------------------------------------

// Words that some YAML reader takes for something other than text.
bool is_reserved(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array words{"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
  return std::find(words.begin(), words.end(), text) != words.end();
}

// A text that no reader takes for anything else: a word, or a path of words.
bool is_plain(const std::string& text) {
  const auto is_word = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '/' || c == '.' || c == '-');
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_word)) return false;
  const char first = text.front();
  const bool starts_as_word = std::isalpha(static_cast<unsigned char>(first)) || first == '/' ||
                              text.starts_with("./") || text.starts_with("../");
  return starts_as_word && !is_reserved(text);
}

// The control characters of ASCII, and those from U+0080 to U+009F, are written by their code.
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

// YAML 1.1 wants a point in the mantissa of a number with an exponent, and integers stay integers
// to readers that have no schema: 1e-04 becomes 1.0e-04 and 3 becomes 3.0.
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

std::string flow(const OptionField& field) { return to_yaml(field.value()); }
std::string flow(const OptionSection& section) { return flow(section.schema()); }
std::string flow(const OptionVariant& variant) { return Writer()(variant.current()); }
std::string flow(const OptionList& list) {
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < list.size(); ++i) elements.push_back(flow(*list.element(i)));
  return fmt::format("[{}]", fmt::join(elements, ", "));
}

// A variant where nothing is chosen has no value.
bool has_value(const OptionEntry& entry) {
  const auto* variant = std::get_if<OptionVariant>(&entry);
  return variant == nullptr || !variant->current().empty();
}

std::string flow(const Schema& schema) {
  std::vector<std::string> entries;
  for (const OptionEntry* entry : schema.entries()) {
    if (!has_value(*entry)) continue;
    const std::string value = std::visit([](const auto& held) { return flow(held); }, *entry);
    entries.push_back(fmt::format("{}: {}", key_of(*entry), value));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ", "));
}

void write_block(const Schema& schema, const std::string& indentation, std::string& yaml) {
  for (const OptionEntry* entry : schema.entries()) {
    if (!has_value(*entry)) continue;
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
      const std::string value = std::visit([](const auto& held) { return flow(held); }, *entry);
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

// A titled table, of a section or of one of its kinds.
struct Table {
  std::string title;
  std::string path;  // of the section
  std::string kind;  // "attention.kind=softmax"; empty where it is not of a kind
  std::vector<Row> rows{};
};

// The tables of a schema, those of sections below after the one above.
class Tables {
 public:
  explicit Tables(const Schema& schema) { add({}, schema); }

  std::vector<Table> take() { return std::move(tables_); }

 private:
  void add(Table table, const Schema& schema) {
    const std::string path = table.path;
    for (const OptionEntry& entry : schema.described()) {
      std::visit([&](const auto& held) { add_row(table.rows, join_path(path, held.key()), held); },
                 entry);
    }
    tables_.push_back(std::move(table));
    for (const OptionEntry& entry : schema.described()) {
      std::visit([&](const auto& held) { below(join_path(path, held.key()), path, held); }, entry);
    }
  }

  static void add_row(std::vector<Row>& rows, const std::string& path, const OptionField& field) {
    const std::string only =
        field.when().empty() ? "" : fmt::format("; only with {}", field.when());
    rows.push_back({path, field.type_name(),
                    field.is_required() ? "required" : to_yaml(field.initial()), field.range(),
                    field.help() + only});
  }

  static void add_row(std::vector<Row>&, const std::string&, const OptionSection&) {}

  static void add_row(std::vector<Row>& rows, const std::string& path, const OptionList& list) {
    rows.push_back({path, "list of sections", flow(list), "", list.help()});
  }

  static void add_row(std::vector<Row>& rows, const std::string& path,
                      const OptionVariant& variant) {
    std::vector<std::string> names;
    for (const OptionVariant::Kind& kind : variant.kinds()) names.push_back(kind.name);
    rows.push_back({path, "text", variant.initial().empty() ? "required" : variant.initial(),
                    fmt::format("{}", fmt::join(names, " | ")), variant.help()});
  }

  void below(const std::string&, const std::string&, const OptionField&) {}

  void below(const std::string& path, const std::string&, const OptionSection& section) {
    add({fmt::format("{}: {}", path, section.help()), path, ""}, section.schema());
  }

  void below(const std::string& path, const std::string&, const OptionList& list) {
    add({fmt::format("each of {}: {}", path, list.help()), path + ".N", ""},
        *list.preview().schema);
  }

  void below(const std::string& path, const std::string& parent, const OptionVariant& variant) {
    for (const OptionVariant::Kind& kind : variant.kinds()) {
      const std::string chosen = fmt::format("{}={}", path, kind.name);
      const bool is_current = kind.name == variant.current();
      const OptionPreview preview = variant.preview(kind.name);
      add({fmt::format("with {}: {}", chosen, kind.help), parent, chosen},
          is_current ? variant.active() : *preview.schema);
    }
  }

  std::vector<Table> tables_;
};

bool lies_in(const std::string& path, const std::string& section) {
  return path == section || path.starts_with(section + ".");
}

// The tables of a section or a kind, or of the row of a key. Throws ConfigError where `about` is
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

// The text in lines of at most `width` columns, a longer word apart.
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

// A line a key, or where that is wider than `width`, a paragraph a key.
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
  for (const Schema* schema : schemas) {
    for (Table& table : Tables(*schema).take()) tables.push_back(std::move(table));
  }
  if (!about.empty()) tables = tables_about(about, std::move(tables));
  std::string text;
  for (const Table& table : tables) {
    if (table.title.empty() && table.rows.empty()) continue;
    text += (text.empty() ? "" : "\n") + to_text(table, width);
  }
  return text;
}

}  // namespace mobius
