// Token files.
#include <cstring>

#include "data/lm.h"
#include "data/token_source.h"
#include "tests/data/token_files.h"
#include "tests/fuzz/target.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t vocab = 300;

// Reads the tokens of a file directly by the format; empty if the file is invalid.
std::vector<std::uint32_t> tokens_in(const std::string& file) {
  const auto number = [&file](std::size_t at, std::size_t width) {
    std::uint32_t value = 0;
    std::memcpy(&value, file.data() + at, width);
    return value;
  };
  const std::uint32_t magic = file.size() < 4 ? 0 : number(0, 4);
  const bool has_header = magic >= 20240101 && magic <= 20241231;
  const std::size_t begin = has_header ? 1024 : 0, width = magic == 20240801 ? 4 : 2;
  std::vector<std::uint32_t> tokens;
  for (std::size_t at = begin; at + width <= file.size(); at += width) {
    tokens.push_back(number(at, width));
  }
  return tokens;
}

class TokensTarget final : public FuzzTarget {
 public:
  explicit TokensTarget(const fs::path& folder) : folder_(folder) {
    std::vector<std::uint16_t> narrow;
    std::vector<std::uint32_t> wide;
    for (std::uint32_t i = 0; i < 400; ++i) {
      narrow.push_back(static_cast<std::uint16_t>(i * i % vocab));
      wide.push_back(i * i % vocab);
    }
    const fs::path path = folder / "good.bin";
    write_raw(path, narrow);
    files_.push_back(read_text(path));
    write_llm_c(path, narrow);
    files_.push_back(read_text(path));
    write_llm_c(path, wide);
    files_.push_back(read_text(path));
  }

  std::string make(FuzzRandom& random) override {
    const std::string& good = random.one_of(files_);
    if (random.chance(8)) return mutate_bytes(good, 0, random);
    // Damages only the first numbers of the header: the tokens stay in range.
    std::string file = mutate_bytes(good.substr(0, 16), 0, random) + good.substr(16);
    if (random.chance(2)) file = good.substr(0, good.size() - random.below(good.size()));
    return file;
  }

  std::string read(const fs::path& file) const override {
    const std::vector<std::uint32_t> expected = tokens_in(read_text(file));
    const auto source = open_token_file(file, TokenFormat::automatic, vocab);
    if (source->size() != expected.size()) return nonsense("its number of tokens is wrong");
    std::vector<std::int32_t> tokens(expected.size());
    source->read(0, tokens);
    if (!std::equal(tokens.begin(), tokens.end(), expected.begin()))
      return nonsense("its tokens are wrong");

    LmOptions options;
    options.tokens = file.string();
    options.vocab = vocab;
    options.seq_len = 8;
    const auto task = options.build(1);
    const Batch batch = task->sequences(Split::train, 0, 0, 4);
    for (const std::int32_t token : batch.inputs.to_vector<std::int32_t>()) {
      if (token < 0 || token >= vocab) return nonsense("a token is out of range");
    }
    return "";
  }

  std::vector<std::string> command(const fs::path& file) const override {
    const fs::path config = folder_ / "tokens.yaml";
    write_text(config, "task: {name: lm, tokens: '" + file.string() +
                           "', vocab: " + std::to_string(vocab) +
                           ", seq_len: 8}\nmodel: {d_model: 8, n_layers: 1, n_heads: 1}\n"
                           "train: {max_steps: 1, batch_size: 2, threads: 1}\n");
    fs::remove_all(folder_ / "out");
    return {"train", config, "--out", folder_ / "out"};
  }

 private:
  const fs::path folder_;
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<FuzzTarget> make_tokens_target(const fs::path& folder) {
  return std::make_unique<TokensTarget>(folder);
}

}  // namespace mobius
