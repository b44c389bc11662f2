#include "train/config/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace mobius::document_test {
namespace {

namespace fs = std::filesystem;

std::string refusal_of_text(const std::string& text) {
  return error_of<ConfigError>([&] { ConfigDocument::from_text(text, "f.yaml"); });
}

ConfigDocument parse(const std::string& text) { return ConfigDocument::from_text(text, "f.yaml"); }

// Returns the node at a dotted path that must exist.
const ConfigNode& node_at(const ConfigDocument& document, const std::string& path) {
  const ConfigNode* node = &document.root();
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    const ConfigEntry* entry = node->find(path.substr(start, end - start));
    if (entry == nullptr) throw Error("no {}", path);
    node = &entry->value;
    start = end + 1;
  }
  return *node;
}

std::string text_at(const ConfigDocument& document, const std::string& path) {
  return node_at(document, path).text;
}

TEST(ConfigDocument, KeepsTheTextAndThePlaceOfEverything) {
  const ConfigDocument document = parse(
      "a: 1\n"
      "b:\n"
      "  c: 'no'\n"
      "  d: [x, {e: 2}]\n"
      "f:\n"
      "g: ~\n");
  EXPECT_EQ(document.name(), "f.yaml");
  EXPECT_EQ(document.root().where, "f.yaml:1:1");
  EXPECT_EQ(text_at(document, "a"), "1");
  EXPECT_EQ(node_at(document, "a").where, "f.yaml:1:4");
  EXPECT_EQ(document.root().find("b")->where, "f.yaml:2:1");
  EXPECT_TRUE(node_at(document, "b.c").is_quoted);
  EXPECT_FALSE(node_at(document, "a").is_quoted);
  EXPECT_EQ(node_at(document, "b.d.0").where, "f.yaml:4:7");
  EXPECT_EQ(node_at(document, "b.d.1.e").where, "f.yaml:4:14");
  EXPECT_EQ(node_at(document, "f").kind, ConfigNode::Kind::null);
  EXPECT_EQ(node_at(document, "f").where, "f.yaml:5:1");
  EXPECT_EQ(node_at(document, "g").where, "f.yaml:6:4");
}

TEST(ConfigDocument, AcceptsWindowsLineEndsAndAByteOrderMark) {
  EXPECT_EQ(text_at(parse("\xef\xbb\xbf"
                          "a: 1\r\nb: 2\r\n"),
                    "b"),
            "2");
}

TEST(ConfigDocument, RefusesWhatIsNoConfiguration) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"", "f.yaml:1:1: the file is empty, expected sections of key: value"},
      {"# only a comment\n", "f.yaml:1:1: the file is empty, expected sections of key: value"},
      {"---\n", "f.yaml:1:1: the file is empty, expected sections of key: value"},
      {"- 1\n- 2\n", "f.yaml:1:1: expected sections of key: value at the top, got a list"},
      {"\nlr\n", "f.yaml:2:1: expected sections of key: value at the top, got a text"},
      {"a: 1\n---\nb: 2\n", "f.yaml:3:1: a second YAML document starts here, expected one"},
      {"a: 1\n...\nb: 2\n", "f.yaml:3:1: a second YAML document starts here, expected one"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of_text(text), message) << text;
}

TEST(ConfigDocument, RefusesMalformedYaml) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"a: b: c\n", "f.yaml:1:5: not valid YAML: illegal map value"},
      {"a: 1\n b: 2\n", "f.yaml:2:3: not valid YAML: illegal map value"},
      {"a: 1\nb: [1, 2\n", "f.yaml:3:1: not valid YAML: end of sequence flow not found"},
      {"a: 'x\n", "f.yaml:2:2: not valid YAML: illegal EOF in scalar"},
      {"a: \"x\nb: 1\n", "f.yaml:3:2: not valid YAML: illegal EOF in scalar"},
      {"a: @x\n", "f.yaml:1:4: not valid YAML: unknown token"},
      {"a: 1\n}\n", "f.yaml:2:1: not valid YAML: illegal flow end"},
      {"a: *x\n", "f.yaml:1:4: not valid YAML: the referenced anchor is not defined"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of_text(text), message) << text;
}

TEST(ConfigDocument, RefusesFilesThatAreNoText) {
  using std::string_literals::operator""s;
  const TemporaryFolder folder;
  const fs::path file = folder / "file.yaml";
  const auto refusal_of_file = [&](const std::string& content) {
    write_text(file, content);
    return error_of<ConfigError>([&] { ConfigDocument::from_file(file); });
  };
  const auto message = [&](const std::string& where) {
    return file.string() + ": is not a text file: byte " + where + "; expected YAML in UTF-8";
  };
  EXPECT_EQ(refusal_of_file("\t\x89HDF\r\n\x1a\n"), message("0x89 in line 1"));
  EXPECT_EQ(refusal_of_file("a: 1\n\0\0"s), message("0x00 in line 2"));
  EXPECT_EQ(refusal_of_file("a: caf\xe9\n"), message("0xe9 in line 1"));
  EXPECT_EQ(refusal_of_file("a: \x1b[31m\n"), message("0x1b in line 1"));
  EXPECT_EQ(refusal_of_file("\ufeffa: caf\u00e9\r\n"), "no error");
}

// A message stays whole and on its line, whatever it repeats.
TEST(ConfigDocument, ShowsControlCharactersByName) {
  EXPECT_EQ(refusal_of_text(R"("a\0b": 1)"),
            "f.yaml:1:1: the character NUL, which no key or value has");
  EXPECT_EQ(refusal_of_text(R"(a: "b\0")"),
            "f.yaml:1:4: the character NUL, which no key or value has");
  EXPECT_EQ(refusal_of_text(R"({"a\nb\e[1m": 1, "a\nb\e[1m": 2})"),
            "f.yaml:1:18: a\\nb\\x1b[1m: given twice, first at f.yaml:1:2");
  ConfigDocument document = parse("a: 1\n");
  EXPECT_EQ(error_of<ConfigError>([&] { document.override_with("a\x1b\n"); }),
            "override a\\x1b\\n: expected key.path=value");
}

TEST(ConfigDocument, RefusesTabsInTheIndentation) {
  const std::string problem = "a tab in the indentation; YAML wants spaces";
  EXPECT_EQ(refusal_of_text("a:\n\tb: 1\n"), "f.yaml:2:1: " + problem);
  EXPECT_EQ(refusal_of_text("\ta: 1\n"), "f.yaml:1:1: " + problem);
  EXPECT_EQ(refusal_of_text("a:\n  b: 1\n  \tc: 2\n"), "f.yaml:3:3: " + problem);
  EXPECT_EQ(refusal_of_text("a: 1\n\t\nb: 1\n"), "f.yaml:2:1: " + problem);
  EXPECT_EQ(refusal_of_text("a: 1\t# a tab elsewhere\n"), "no error");
}

TEST(ConfigDocument, RefusesDuplicateKeysAtEveryDepth) {
  EXPECT_EQ(refusal_of_text("a: 1\nb: 2\na: 3\n"),
            "f.yaml:3:1: a: given twice, first at f.yaml:1:1");
  EXPECT_EQ(refusal_of_text("a:\n  b:\n    - {c: 1, d: 2, 'c': 3}\n"),
            "f.yaml:3:20: a.b.0.c: given twice, first at f.yaml:3:8");
}

TEST(ConfigDocument, RefusesTheCornersOfYaml) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"a: &x [1]\nb: *x\n", "f.yaml:2:4: YAML aliases are not supported: write the value out"},
      {"a: &x [*x]\n", "f.yaml:1:8: YAML aliases are not supported: write the value out"},
      {"a: !!str 1\n", "f.yaml:1:4: YAML tags are not supported, got 'tag:yaml.org,2002:str'"},
      {"a: !mine {b: 1}\n", "f.yaml:1:4: YAML tags are not supported, got '!mine'"},
      {"a: 1\n? [b]\n: 2\n", "f.yaml:2:3: a key must be a text"},
      {"a: 1\n~: 2\n", "f.yaml:2:1: a key must be a text, got null"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal_of_text(text), message) << text;
  const std::string deep(100000, '[');
  EXPECT_THAT(refusal_of_text("a: " + deep), ::testing::EndsWith(": nested too deeply"));
}

TEST(ConfigDocument, ReadsFilesAndNamesThoseItCannot) {
  const TemporaryFolder folder;
  const fs::path file = folder / "run.yaml";
  write_text(file, "a: 1\n");
  const ConfigDocument document = ConfigDocument::from_file(file);
  EXPECT_EQ(node_at(document, "a").where, file.string() + ":1:4");
  EXPECT_EQ(document.folder(), folder.path());
  EXPECT_EQ(
      error_of<ConfigError>([&] { ConfigDocument::from_file(folder / "none.yaml"); }),
      fs::path(folder / "none.yaml").string() + ": cannot be opened: No such file or directory");
  EXPECT_EQ(error_of<ConfigError>([&] { ConfigDocument::from_file(folder.path()); }),
            folder.path().string() + ": is a directory, expected a YAML file");
}

TEST(ConfigDocument, OverridesReplaceValuesAndSections) {
  ConfigDocument document = parse("a: 1\nb:\n  c: [1, 2]\n  d: {e: 3, f: 4}\n");
  document.override_with("a=x=y");
  document.override_with("b.c.1=7");
  document.override_with("b.d.e=5");
  document.override_with("new.deep.key=[1, 2]");
  EXPECT_EQ(text_at(document, "a"), "x=y");
  EXPECT_EQ(node_at(document, "a").where, "override a=x=y");
  EXPECT_EQ(text_at(document, "b.c.0"), "1");
  EXPECT_EQ(text_at(document, "b.c.1"), "7");
  EXPECT_EQ(text_at(document, "b.d.e"), "5");
  EXPECT_EQ(text_at(document, "b.d.f"), "4");
  EXPECT_EQ(text_at(document, "new.deep.key.1"), "2");
  document.override_with("b.d={g: 1}");
  EXPECT_EQ(node_at(document, "b.d").find("f"), nullptr);
  EXPECT_EQ(text_at(document, "b.d.g"), "1");
  document.override_with("a=");
  EXPECT_EQ(node_at(document, "a").kind, ConfigNode::Kind::null);
}

TEST(ConfigDocument, RefusesOverridesThatMeanNothing) {
  const auto refusal_of = [](const std::string& assignment) {
    ConfigDocument document = parse("a: 1\nb: [1, 2]\n");
    return error_of<ConfigError>([&] { document.override_with(assignment); });
  };
  EXPECT_EQ(refusal_of("a"), "override a: expected key.path=value");
  EXPECT_EQ(refusal_of("=1"), "override =1: '' is not a key.path");
  EXPECT_EQ(refusal_of("b..c=1"), "override b..c=1: 'b..c' is not a key.path");
  EXPECT_EQ(refusal_of("b.=1"), "override b.=1: 'b.' is not a key.path");
  EXPECT_EQ(refusal_of("a.b=1"), "override a.b=1: a.b: no key can lie below '1', at f.yaml:1:4");
  EXPECT_EQ(refusal_of("b.2=1"),
            "override b.2=1: b.2: no such element in the list of 2 at f.yaml:2:4");
  EXPECT_EQ(refusal_of("b.x=1"),
            "override b.x=1: b.x: no such element in the list of 2 at f.yaml:2:4");
  EXPECT_EQ(refusal_of("a=[1"), "override a=[1: not valid YAML: end of sequence flow not found");
  EXPECT_EQ(refusal_of("a={x: 1, x: 2}"),
            "override a={x: 1, x: 2}: a.x: given twice, first at override a={x: 1, x: 2}");
}

TEST(ConfigDocument, MergesMapsKeyByKeyAndReplacesTheRest) {
  ConfigDocument base = parse("a:\n  b: 1\n  c: [1, 2]\nd:\n  e: {f: 2}\n");
  const ConfigDocument overrides = ConfigDocument::from_text(
      "a: {c: [3]}\n"
      "d.e.f: 4\n"
      "g: {h.i: 5}\n",
      "o.yaml");
  base.merge(overrides.root());
  EXPECT_EQ(text_at(base, "a.b"), "1");
  EXPECT_EQ(node_at(base, "a.b").where, "f.yaml:2:6");
  EXPECT_EQ(node_at(base, "a.c").entries.size(), 1u);
  EXPECT_EQ(node_at(base, "a.c.0").where, "o.yaml:1:9");
  EXPECT_EQ(text_at(base, "d.e.f"), "4");
  EXPECT_EQ(text_at(base, "g.h.i"), "5");
}

}  // namespace
}  // namespace mobius::document_test
