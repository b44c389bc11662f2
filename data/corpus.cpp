#include "data/corpus.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/path.h"
#include "data/input_file.h"
#include "data/utf8.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;

// Runs `fn` and prefixes its errors with the key.
template <typename Fn>
auto about(std::string_view key, Fn&& fn) {
  try {
    return fn();
  } catch (const ConfigError& error) {
    throw ConfigError("task.{}: {}", key, error.what());
  } catch (const Error& error) {
    throw Error("task.{}: {}", key, error.what());
  }
}

// ---- files

// The device and inode identify a file, whatever names and links lead to it.
using FileIdentity = std::pair<dev_t, ino_t>;

FileIdentity identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw Error("{}: {}", path.string(), std::strerror(errno));
  return {status.st_dev, status.st_ino};
}

struct DataFile {
  fs::path path;
  FileIdentity identity;
};

std::vector<DataFile> files_of(std::string_view key, const std::string& pattern) {
  return about(key, [&] {
    std::vector<DataFile> files;
    for (const fs::path& path : matching_files(pattern)) files.push_back({path, identity_of(path)});
    return files;
  });
}

// The files that the keys name. There are no validation files if a part of the training data is
// used for validation.
struct DataFiles {
  std::string_view key;  // of the training data
  std::vector<DataFile> train;
  std::vector<DataFile> validation;
};

// Throws if a file occurs twice, under whatever names or links: training data must not be tested
// on or count double.
void require_distinct(const DataFiles& files) {
  std::map<FileIdentity, fs::path> seen;
  for (const auto& [path, identity] : files.train) {
    const auto [first, is_new] = seen.emplace(identity, path);
    if (!is_new)
      throw ConfigError("task.{}: {} and {} are the same file", files.key, first->second.string(),
                        path.string());
  }
  for (const auto& [path, identity] : files.validation) {
    const auto [first, is_new] = seen.emplace(identity, path);
    if (!is_new)
      throw ConfigError("task.validation: {} is the same file as {} (task.{})", path.string(),
                        first->second.string(), files.key);
  }
}

DataFiles find_files(const LmOptions& options) {
  const bool is_text = options.tokens.empty();
  DataFiles files{.key = is_text ? "text" : "tokens", .train = {}, .validation = {}};
  files.train = files_of(files.key, is_text ? options.text : options.tokens);
  if (!options.validation.empty()) files.validation = files_of("validation", options.validation);
  require_distinct(files);
  return files;
}

// ---- text

// A file and the offset of its content in the joined text.
struct TextPart {
  fs::path path;
  std::size_t begin;
};

struct Text {
  std::string content;
  std::vector<TextPart> parts;
};

std::string_view part_of(const Text& text, std::size_t part) {
  const std::size_t begin = text.parts[part].begin;
  const bool is_last = part + 1 == text.parts.size();
  return std::string_view(text.content)
      .substr(begin, (is_last ? text.content.size() : text.parts[part + 1].begin) - begin);
}

Text read_text(const std::vector<DataFile>& files) {
  Text text;
  for (const auto& [path, identity] : files) {
    text.parts.push_back({path, text.content.size()});
    text.content += content_of(path);
  }
  if (text.content.empty()) throw Error("{}: the text is empty", files.front().path.string());
  return text;
}

// Checks the joined text: a text that was split by size may have a character across two files.
void require_text_is_utf8(const Text& text) {
  const std::size_t at = find_invalid_utf8(text.content);
  if (at == text.content.size()) return;
  std::size_t part = text.parts.size() - 1;
  while (text.parts[part].begin > at) --part;
  const std::string_view format = format_of(part_of(text, part));
  throw Error("{}: byte {} is not UTF-8{}{}; the byte tokenizer reads any file",
              text.parts[part].path.string(), at - text.parts[part].begin,
              format.empty() ? "" : ": this is ", format);
}

// Warns of known file formats, which the byte tokeniser accepts but the user hardly meant.
std::vector<std::string> formats_in(const Text& text) {
  std::vector<std::string> found;
  for (std::size_t part = 0; part < text.parts.size(); ++part) {
    if (const std::string_view format = format_of(part_of(text, part)); !format.empty())
      found.push_back(fmt::format("{}: is {}, and its bytes are read as text",
                                  text.parts[part].path.string(), format));
  }
  return found;
}

struct Texts {
  std::string train, test;
  std::vector<std::string> warnings;
};

// Takes the end of the text, from a character boundary on, for validation.
Texts split_text(std::string text, double validation_fraction) {
  const auto size = static_cast<double>(text.size());
  const auto middle = static_cast<std::size_t>(std::floor(size * (1 - validation_fraction)));
  const std::size_t begin = character_start(text, middle);
  Texts texts{"", text.substr(begin), {}};
  text.resize(begin);
  texts.train = std::move(text);
  return texts;
}

Texts read_texts(const LmOptions& options, bool are_bytes) {
  const DataFiles files = find_files(options);
  std::vector<std::string> warnings;
  const auto read = [&](std::string_view key, const std::vector<DataFile>& named) {
    return about(key, [&] {
      Text text = read_text(named);
      if (!are_bytes) require_text_is_utf8(text);
      std::ranges::move(formats_in(text), std::back_inserter(warnings));
      return std::move(text.content);
    });
  };
  std::string text = read("text", files.train);
  Texts texts = files.validation.empty()
                    ? split_text(std::move(text), options.validation_fraction)
                    : Texts{std::move(text), read("validation", files.validation), {}};
  texts.warnings = std::move(warnings);
  return texts;
}

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& file) {
  const std::vector<fs::path> found = matching_files(file);
  if (found.size() != 1) throw ConfigError("{}: expected one file, got {}", file, found.size());
  const std::string path = found.front().string();
  const std::string model = content_of(found.front());
  try {
    return make_tokenizer({"sentencepiece", model});
  } catch (const Error& error) {
    throw Error("{}: {}", path, error.what());
  }
}

std::unique_ptr<Tokenizer> learn_pieces(const LmOptions& options, const std::string& text) {
  try {
    return train_sentencepiece(text, options.vocab, options.pieces);
  } catch (const ConfigError& error) {
    throw ConfigError("task.vocab: {}", error.what());
  } catch (const Error& error) {
    throw Error("task.text: {}", error.what());
  }
}

std::unique_ptr<Tokenizer> learn_tokenizer(const LmOptions& options, const Texts& texts) {
  switch (options.tokenizer) {
    case LmTokenizer::byte:
      break;
    case LmTokenizer::character:
      return make_char_tokenizer(texts.train + texts.test);
    case LmTokenizer::sentencepiece:
      if (options.tokenizer_model.empty()) return learn_pieces(options, texts.train);
      return about("tokenizer_model", [&] { return read_tokenizer(options.tokenizer_model); });
  }
  return make_byte_tokenizer();
}

// A tokenised text and what its tokens do not preserve.
struct Encoded {
  std::vector<std::int32_t> tokens;
  std::size_t n_unknown = 0;
  std::optional<std::size_t> first_change;  // the first byte at which the decoded text differs

  bool is_kept() const { return n_unknown == 0 && !first_change; }
};

// Returns the first byte at which the decoded text differs.
std::optional<std::size_t> first_difference(const Tokenizer& tokenizer,
                                            std::span<const std::int32_t> tokens,
                                            std::string_view text) {
  constexpr std::size_t block = 65536;
  std::size_t at = 0;
  while (!tokens.empty()) {
    const std::string part = tokenizer.decode(tokens.first(std::min(block, tokens.size())));
    const std::string_view expected = text.substr(at, part.size());
    if (part != expected) {
      const auto [end, other] = std::ranges::mismatch(part, expected);
      return at + static_cast<std::size_t>(end - part.begin());
    }
    at += part.size();
    tokens = tokens.subspan(std::min(block, tokens.size()));
  }
  return at == text.size() ? std::nullopt : std::optional(at);
}

Encoded encode(const Tokenizer& tokenizer, const std::string& text) {
  Encoded encoded;
  encoded.tokens = tokenizer.encode(text);
  encoded.n_unknown = static_cast<std::size_t>(std::ranges::count_if(
      encoded.tokens, [&](std::int32_t t) { return tokenizer.is_unknown(t); }));
  encoded.first_change = first_difference(tokenizer, encoded.tokens, text);
  return encoded;
}

std::vector<TokenRange> whole(std::shared_ptr<const TokenSource> source) {
  const std::uint64_t size = source->size();
  return {{std::move(source), 0, size}};
}

// Warns of what the tokens lose.
void warn_of_loss(std::string_view part, const Encoded& text, std::string_view consequence,
                  std::vector<std::string>& warnings) {
  if (text.n_unknown > 0) {
    warnings.push_back(fmt::format(
        "{}: {} of {} tokens ({:.2g}%) are unknown to the tokenizer{}", part, text.n_unknown,
        text.tokens.size(),
        100.0 * static_cast<double>(text.n_unknown) / static_cast<double>(text.tokens.size()),
        consequence));
  } else if (text.first_change) {
    warnings.push_back(
        fmt::format("{}: the tokenizer does not preserve it: the first changed byte is byte {}{}",
                    part, *text.first_change, consequence));
  }
}

Corpus tokenize(const LmOptions& options, Texts texts, std::unique_ptr<Tokenizer> tokenizer) {
  const std::string_view key_of_test = options.validation.empty() ? "text" : "validation";
  Encoded train = about("text", [&] { return encode(*tokenizer, texts.train); });
  Encoded test = about(key_of_test, [&] { return encode(*tokenizer, texts.test); });
  Corpus corpus;
  corpus.warnings = std::move(texts.warnings);
  warn_of_loss("training text", train, "", corpus.warnings);
  warn_of_loss("validation text", test, "; bits per byte would be meaningless and are omitted",
               corpus.warnings);
  if (test.is_kept() && !test.tokens.empty())
    corpus.bytes_per_token =
        static_cast<double>(texts.test.size()) / static_cast<double>(test.tokens.size());
  corpus.summary =
      fmt::format("data: {} training and {} validation tokens, {} of them unknown to the tokenizer",
                  train.tokens.size(), test.tokens.size(), train.n_unknown + test.n_unknown);
  corpus.vocab = tokenizer->vocab_size();
  corpus.tokenizer = std::move(tokenizer);
  corpus.train = whole(tokens_in_memory("training text", std::move(train.tokens)));
  corpus.test = whole(tokens_in_memory("validation text", std::move(test.tokens)));
  return corpus;
}

Corpus read_text_corpus(const LmOptions& options, const TokenizerModel* stored) {
  if (stored == nullptr) {
    Texts texts = read_texts(options, options.tokenizer == LmTokenizer::byte);
    auto tokenizer = learn_tokenizer(options, texts);
    return tokenize(options, std::move(texts), std::move(tokenizer));
  }
  auto tokenizer = make_tokenizer(*stored);
  return tokenize(options, read_texts(options, stored->kind == "byte"), std::move(tokenizer));
}

// ---- token files

std::vector<TokenRange> open_files(const LmOptions& options, const std::vector<DataFile>& named) {
  std::vector<TokenRange> ranges;
  const auto needed = static_cast<std::uint64_t>(options.seq_len) + 1;
  for (const auto& [path, identity] : named) {
    std::shared_ptr<const TokenSource> file =
        open_token_file(path, options.token_format, options.vocab);
    if (file->size() < needed)
      throw Error("{}: {} tokens are fewer than a sequence of {} and a label need", path.string(),
                  file->size(), options.seq_len);
    const std::uint64_t size = file->size();
    ranges.push_back({std::move(file), 0, size});
  }
  return ranges;
}

// A vocabulary that is larger than every published one and than the number of tokens is a mistake,
// which would cost gigabytes for embeddings that never train.
void require_vocab_in_reason(std::int64_t vocab, std::uint64_t n_tokens) {
  constexpr std::int64_t larger_than_published = 1 << 20;
  if (vocab <= larger_than_published || static_cast<std::uint64_t>(vocab) <= n_tokens) return;
  throw ConfigError("the data have {} tokens in all, too few for vocab = {}", n_tokens, vocab);
}

// Finds tokens beyond the vocabulary before the first step. Checks all of up to `most` tokens,
// which takes a second or two; of more, one block in each `stride`. Returns the stride.
std::uint64_t check_files(const std::vector<TokenRange>& files) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  const std::uint64_t stride = std::max<std::uint64_t>(1, (count_tokens(files) + most - 1) / most);
  for (const TokenRange& file : files) check_tokens(*file.source, stride);
  return stride;
}

// Takes the last tokens of the last files for validation.
void split_files(std::vector<TokenRange> files, double validation_fraction, Corpus& corpus) {
  auto left = static_cast<std::uint64_t>(
      std::floor(static_cast<double>(count_tokens(files)) * (1 - validation_fraction)));
  for (const TokenRange& file : files) {
    const std::uint64_t middle = file.begin + std::min(left, file.size());
    left -= middle - file.begin;
    if (middle > file.begin) corpus.train.push_back({file.source, file.begin, middle});
    if (middle < file.end) corpus.test.push_back({file.source, middle, file.end});
  }
}

Corpus read_token_corpus(const LmOptions& options) {
  const DataFiles names = find_files(options);
  Corpus corpus;
  corpus.vocab = options.vocab;
  corpus.bytes_per_token = options.bytes_per_token;
  std::string sampled;
  const auto open = [&](std::string_view key, const std::vector<DataFile>& named) {
    return about(key, [&] {
      std::vector<TokenRange> files = open_files(options, named);
      if (const std::uint64_t stride = check_files(files); stride > 1)
        sampled += fmt::format("; of task.{} one token in {} was compared to the vocabulary size",
                               key, stride);
      return files;
    });
  };
  std::vector<TokenRange> files = open("tokens", names.train);
  about("tokens", [&] { require_vocab_in_reason(options.vocab, count_tokens(files)); });
  if (names.validation.empty()) {
    split_files(std::move(files), options.validation_fraction, corpus);
  } else {
    corpus.train = std::move(files);
    corpus.test = open("validation", names.validation);
  }
  corpus.summary = fmt::format("data: {} training and {} validation tokens{}",
                               count_tokens(corpus.train), count_tokens(corpus.test), sampled);
  return corpus;
}

}  // namespace

Corpus read_corpus(const LmOptions& options, const TokenizerModel* stored) {
  return options.tokens.empty() ? read_text_corpus(options, stored) : read_token_corpus(options);
}

}  // namespace mobius
