#include "train/config/document.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "data/input_file.h"
#include "train/io/printable.h"

namespace mobius {
namespace {

using Kind = ConfigNode::Kind;
using MarkToText = std::function<std::string(const YAML::Mark&)>;

// Every node carries its place, and a file may have a hundred thousand nodes.
constexpr std::size_t longest_place = 240;

// Builds the tree from parser events. yaml-cpp's own nodes drop the places of nulls and resolve
// aliases, which may be recursive or exponentially large.
//
// Valid YAML that is not a configuration is noted, not thrown, because malformed text makes strange
// events before the parser says what is wrong with it.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(MarkToText place) : place_(std::move(place)) {}

  const std::string& problem() const { return problem_; }  // the first one, or ""
  const YAML::Mark& last_mark() const { return last_; }
  std::optional<ConfigNode> take_root() { return std::exchange(root_, std::nullopt); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  // The mark of a missing value is that of the next token, often lines below.
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    const bool is_key = expects_key();
    if (is_key) note(mark, "a key must be a text, got null");
    const YAML::Mark& here = is_key || mark.line == last_.line ? mark : last_;
    add({.kind = Kind::null, .where = place_(here)}, here);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    note(mark, "YAML aliases are not supported: write the value out");
    add({.kind = Kind::null, .where = place_(mark)}, mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    if (tag != "?" && tag != "!") note_tag(mark, tag);
    if (text.find('\0') != std::string::npos)
      note(mark, "the character NUL, which no key or value has");
    add({.kind = Kind::scalar, .where = place_(mark), .text = text, .is_quoted = tag == "!"}, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    start(Kind::list, mark, tag);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    start(Kind::map, mark, tag);
  }
  void OnMapEnd() override { end(); }

 private:
  // An unfinished collection and the key that waits for its value.
  struct Open {
    ConfigNode node;
    std::optional<std::pair<std::string, std::string>> key;  // text and place
  };

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Kind::map && !open_.back().key;
  }

  void note(const YAML::Mark& mark, std::string_view problem) {
    if (problem_.empty()) problem_ = fmt::format("{}: {}", place_(mark), problem);
  }

  void note_tag(const YAML::Mark& mark, const std::string& tag) {
    note(mark, fmt::format("YAML tags are not supported, got '{}'", tag));
  }

  void start(Kind kind, const YAML::Mark& mark, const std::string& tag) {
    if (tag != "?" && !tag.empty()) note_tag(mark, tag);
    if (expects_key()) note(mark, "a key must be a text");
    open_.push_back({{.kind = kind, .where = place_(mark)}, std::nullopt});
    last_ = mark;
  }

  void end() {
    ConfigNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node), last_);
  }

  // Adds a finished node to its collection, as a key, a value or an element.
  void add(ConfigNode node, const YAML::Mark& mark) {
    last_ = mark;
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (expects_key()) {
      open_.back().key = {std::move(node.text), std::move(node.where)};
    } else if (Open& parent = open_.back(); parent.node.kind == Kind::map) {
      auto [key, where] = *std::exchange(parent.key, std::nullopt);
      parent.node.entries.push_back({std::move(key), std::move(where), std::move(node)});
    } else {
      std::string where = node.where;
      parent.node.entries.push_back(
          {std::to_string(parent.node.entries.size()), std::move(where), std::move(node)});
    }
  }

  MarkToText place_;
  std::vector<Open> open_;
  std::optional<ConfigNode> root_;
  std::string problem_;
  YAML::Mark last_;
};

// Returns the tree of the only document in the text, or nothing if there is none.
std::optional<ConfigNode> parse_yaml(std::string_view text, const MarkToText& place) {
  TreeBuilder builder(place);
  try {
    // yaml-cpp accepts a missing closing quote if the text ends with a line end. A comment after it
    // makes yaml-cpp notice.
    std::istringstream stream(fmt::format("{}{}#", text, text.ends_with('\n') ? "" : "\n"));
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return std::nullopt;
    std::optional<ConfigNode> root = builder.take_root();
    if (!builder.problem().empty()) throw printable_error("{}", builder.problem());
    if (parser.HandleNextDocument(builder)) {
      const std::optional<ConfigNode> second = builder.take_root();
      throw printable_error("{}: a second YAML document starts here, expected one",
                            second ? second->where : place(builder.last_mark()));
    }
    return root;
  } catch (const YAML::DeepRecursion& error) {
    throw printable_error("{}: nested too deeply", place(error.mark));
  } catch (const YAML::ParserException& error) {
    // The parser gives no place if the text ends too early.
    const bool has_place = error.mark.line > 0 || error.mark.column > 0;
    throw printable_error("{}: not valid YAML: {}",
                          place(has_place ? error.mark : builder.last_mark()), error.msg);
  }
}

void refuse_duplicates(const ConfigNode& node, const std::string& path) {
  std::unordered_map<std::string_view, const ConfigEntry*> seen;
  for (const ConfigEntry& entry : node.entries) {
    const auto [first, is_new] = seen.emplace(entry.key, &entry);
    const std::string entry_path = join_path(path, entry.key);
    if (!is_new) {
      throw printable_error("{}: {}: given twice, first at {}", entry.where, entry_path,
                            first->second->where);
    }
    refuse_duplicates(entry.value, entry_path);
  }
}

// yaml-cpp takes a tab for a space in some places and fails with obscure messages in others.
void refuse_tab_indentation(std::string_view text, const std::string& name) {
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::size_t indentation = line.find_first_not_of(" \t\r");
    const std::size_t tab = line.find('\t');
    if (tab < std::min(indentation, line.size())) {
      throw printable_error("{}:{}:{}: a tab in the indentation; YAML wants spaces", name, number,
                            tab + 1);
    }
  }
}

std::vector<std::string> split_path(std::string_view path, const std::string& where) {
  std::vector<std::string> keys;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    if (end == start) throw printable_error("{}: '{}' is not a key.path", where, path);
    keys.emplace_back(path.substr(start, end - start));
    start = end + 1;
  }
  return keys;
}

// Returns the entry at a dotted path; makes it and the maps that lead to it if they are missing.
ConfigEntry& reach(ConfigNode& root, std::string_view path, const std::string& where) {
  ConfigNode* node = &root;
  ConfigEntry* entry = nullptr;
  std::string walked;
  for (const std::string& key : split_path(path, where)) {
    if (node->kind == Kind::scalar) {
      throw printable_error("{}: {}: no key can lie below '{}', at {}", where,
                            join_path(walked, key), node->text, node->where);
    }
    entry = node->find(key);
    if (entry == nullptr && node->kind == Kind::list) {
      throw printable_error("{}: {}: no such element in the list of {} at {}", where,
                            join_path(walked, key), node->entries.size(), node->where);
    }
    if (entry == nullptr) {
      if (node->kind == Kind::null) *node = {.kind = Kind::map, .where = where};
      entry = &node->entries.emplace_back(ConfigEntry{key, where, {}});
      entry->value.where = where;
    }
    walked = join_path(walked, key);
    node = &entry->value;
  }
  return *entry;
}

void merge_maps(ConfigNode& into, const ConfigNode& overrides) {
  for (const ConfigEntry& entry : overrides.entries) {
    ConfigEntry& target = reach(into, entry.key, entry.where);
    if (entry.value.kind != Kind::map) {
      target.where = entry.where;
      target.value = entry.value;
      continue;
    }
    if (target.value.kind == Kind::null || target.value.kind == Kind::scalar) {
      target.where = entry.where;
      target.value = {.kind = Kind::map, .where = entry.value.where};
    }
    merge_maps(target.value, entry.value);
  }
}

}  // namespace

const ConfigEntry* ConfigNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const ConfigEntry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

ConfigEntry* ConfigNode::find(std::string_view key) {
  return const_cast<ConfigEntry*>(std::as_const(*this).find(key));
}

ConfigDocument ConfigDocument::from_file(const std::filesystem::path& path) {
  constexpr std::uint64_t most = 16 << 20;  // far above any configuration
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw printable_error("{}: is a directory, expected a YAML file", path.string());
  }
  std::string text;
  try {
    text = content_of_file_or_pipe(path, most);  // bash's <(command) is a pipe
  } catch (const Error& error) {
    throw printable_error("{}", error.what());
  }
  if (const std::size_t at = find_binary(text); at < text.size()) {
    throw printable_error("{}: is not a text file: byte {:#04x} in line {}; expected YAML in UTF-8",
                          path.string(), static_cast<unsigned char>(text[at]),
                          1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n'));
  }
  return from_text(text, path.string(), path.parent_path());
}

ConfigDocument ConfigDocument::from_text(std::string_view text, std::string name,
                                         std::filesystem::path folder) {
  refuse_tab_indentation(text, name);
  const MarkToText place = [file = shortened(name, longest_place)](const YAML::Mark& mark) {
    return fmt::format("{}:{}:{}", file, mark.line + 1, mark.column + 1);
  };
  std::optional<ConfigNode> root = parse_yaml(text, place);
  if (!root || root->kind == Kind::null) {
    throw printable_error("{}:1:1: the file is empty, expected sections of key: value", name);
  }
  if (root->kind != Kind::map) {
    throw printable_error("{}: expected sections of key: value at the top, got a {}", root->where,
                          root->kind == Kind::list ? "list" : "text");
  }
  refuse_duplicates(*root, "");
  ConfigDocument document;
  document.name_ = std::move(name);
  document.folder_ = std::move(folder);
  document.root_ = *std::move(root);
  return document;
}

void ConfigDocument::override_with(std::string_view assignment) {
  const std::string where = fmt::format("override {}", shortened(assignment, longest_place));
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) throw printable_error("{}: expected key.path=value", where);
  const std::string_view path = assignment.substr(0, equals);
  const MarkToText place = [&where](const YAML::Mark&) { return where; };
  std::optional<ConfigNode> value = parse_yaml(assignment.substr(equals + 1), place);
  if (!value) value = ConfigNode{.kind = Kind::null, .where = where};
  refuse_duplicates(*value, std::string(path));
  override_with(ConfigEntry{std::string(path), where, *std::move(value)});
}

void ConfigDocument::override_with(const ConfigEntry& entry) {
  ConfigEntry& target = reach(root_, entry.key, entry.where);
  target.where = entry.where;
  target.value = entry.value;
  overrides_.push_back(entry);
}

bool ConfigDocument::is_override(std::string_view where) const {
  return std::any_of(overrides_.begin(), overrides_.end(),
                     [&](const ConfigEntry& entry) { return entry.where == where; });
}

void ConfigDocument::merge(const ConfigNode& overrides) { merge_maps(root_, overrides); }

void ConfigDocument::remove(std::string_view key) {
  std::erase_if(root_.entries, [&](const ConfigEntry& entry) { return entry.key == key; });
}

std::string describe(const ConfigNode& node) {
  if (node.kind == Kind::scalar) return fmt::format("'{}'", node.text);
  if (node.kind == Kind::list) return "a list";
  return node.kind == Kind::map ? "a section" : "null";
}

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

}  // namespace mobius
