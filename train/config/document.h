// A configuration as a YAML tree that knows the place of each of its parts.
//
// It accepts the part of YAML that people write in configurations: maps with distinct text keys,
// lists, and plain or quoted scalars, in one document. Tags, aliases, tab indentation, duplicate
// keys and files that are not UTF-8 text are errors. Every error is a ConfigError that starts with
// the place: "file:line:column" or "override key=value".
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mobius {

struct ConfigEntry;

struct ConfigNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string where{};                 // place of the value
  std::string text{};                  // of a scalar
  bool is_quoted = false;              // a quoted scalar is a text, never a number
  std::vector<ConfigEntry> entries{};  // of a map, by key; of a list, by index: "0", "1", ...

  const ConfigEntry* find(std::string_view key) const;  // null if the key is missing
  ConfigEntry* find(std::string_view key);
};

struct ConfigEntry {
  std::string key;
  std::string where;  // place of the key
  ConfigNode value;
};

class ConfigDocument {
 public:
  static ConfigDocument from_file(const std::filesystem::path& path);

  /// `name` stands for the file in messages. Relative paths in the text refer to `folder`.
  static ConfigDocument from_text(std::string_view text, std::string name,
                                  std::filesystem::path folder = {});

  /// Applies "key.path=value". An index reaches the element of a list: task.mixture.0.seq_len=64.
  /// The value is one YAML value in flow style ("3", "[1, 2]", "{kind: softmax}") and replaces
  /// what stood there, even a whole section.
  void override_with(std::string_view assignment);
  /// Applies an entry whose key is the path.
  void override_with(const ConfigEntry& entry);
  /// All overrides, in their order.
  const std::vector<ConfigEntry>& overrides() const { return overrides_; }
  /// Whether an override stands at this place.
  bool is_override(std::string_view where) const;

  /// Merges a map whose keys may be dotted paths: maps merge key by key, other values replace.
  void merge(const ConfigNode& overrides);

  const ConfigNode& root() const { return root_; }
  const std::string& name() const { return name_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Removes a key of the root if it is there.
  void remove(std::string_view key);

 private:
  std::string name_;
  std::filesystem::path folder_;
  ConfigNode root_;
  std::vector<ConfigEntry> overrides_;
};

/// Names a node in messages: "null", "'text'", "a list", "a section".
std::string describe(const ConfigNode& node);

/// "a.b" + "c" is "a.b.c", "" + "c" is "c".
std::string join_path(std::string_view path, std::string_view key);

}  // namespace mobius
