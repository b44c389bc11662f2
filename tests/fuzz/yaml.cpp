// Configurations and comparisons.
#include <filesystem>

#include "tests/fuzz/target.h"
#include "tests/temporary_folder.h"
#include "train/compare/comparison_file.h"
#include "train/config/config.h"
#include "train/config/document.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> shipped_texts() {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(MOBIUS_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts = {fuzz_config};
  for (const fs::path& path : paths) texts.push_back(read_text(path));
  return texts;
}

std::vector<std::string> yaml_words() {
  std::vector<std::string> words = {"&a ",
                                    "*a ",
                                    "!!binary ",
                                    "!x ",
                                    "? ",
                                    ": ",
                                    "- ",
                                    "\n",
                                    "\t",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "'",
                                    "\"",
                                    "\"\\x00\"",
                                    "|\n",
                                    ">\n",
                                    "---\n",
                                    "...\n",
                                    "%YAML",
                                    "#",
                                    "\x1b[2J",
                                    "\xff\xfe",
                                    "\xc0",
                                    "\r\n",
                                    "null",
                                    "~",
                                    "<<: ",
                                    "=",
                                    "\xe2\x80\xa8",
                                    "{a: {b: {c: ",
                                    "variations: ",
                                    "grid: ",
                                    "base: ",
                                    "train.seed: [1, 2]"};
  for (const char* repeated : {"[", "{a: ", "- ", "? ", "a.", "x", "\n", "'", "&a [*a, "}) {
    std::string many;
    for (int i = 0; i < 5000; ++i) many += repeated;
    words.push_back(many);
  }
  return words;
}

class YamlTarget final : public FuzzTarget {
 public:
  std::string make(FuzzRandom& random) override {
    return mutate_text(random.one_of(texts_), words_, texts_, random);
  }

  std::string read(const fs::path& file) const override {
    const ConfigDocument document = ConfigDocument::from_file(file);
    if (document.root().find("variations") != nullptr || document.root().find("grid") != nullptr) {
      for (const ComparisonJob& job : expand_comparison(document)) {
        if (const std::string problem = check(job.document); !problem.empty()) return problem;
      }
      return "";
    }
    return check(document);
  }

  std::vector<std::string> command(const fs::path& file) const override {
    return {"config", "show", file.string()};
  }

 private:
  // A configuration must survive writing and reading.
  static std::string check(const ConfigDocument& document) {
    const Registries known;
    const std::string yaml = resolved_yaml(*make_config(document, known));
    try {
      const std::string again = resolved_yaml(*parse_config(yaml, "again", known));
      return again == yaml ? "" : nonsense("it does not survive writing and reading");
    } catch (const Error& error) {
      return nonsense(std::string("it is refused after writing: ") + error.what());
    }
  }

  const std::vector<std::string> texts_ = shipped_texts(), words_ = yaml_words();
};

}  // namespace

std::unique_ptr<FuzzTarget> make_yaml_target(const fs::path&) {
  return std::make_unique<YamlTarget>();
}

}  // namespace mobius
