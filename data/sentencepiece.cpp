#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/isolated.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

namespace mobius {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::string_view space_mark = "\xE2\x96\x81";    // U+2581, a space within pieces
constexpr std::string_view unknown_mark = "\xE2\x96\x85";  // U+2585, which no piece may contain

// Returns the reason in a message of the library, or an empty string. The messages begin with the
// source location and the condition in brackets, and many end there.
std::string reason_of(const sentencepiece::util::Status& status) {
  const std::string message = status.message();
  const std::size_t condition = message.rfind("] ");
  return condition == std::string::npos ? message : message.substr(condition + 2);
}

// ---- parts of a text

// The longest text that the library is given at once. Its time, memory and rounding errors grow
// with the length, and it does not learn from longer lines (max_sentence_length, by default).
constexpr std::size_t longest_part = 4192;

// Returns the length of the first part of a text: its first line with the line end. Cuts a longer
// line before a space, where pieces begin, or between two characters if it has no space.
std::size_t first_part(std::string_view text) {
  const std::string_view head = text.substr(0, longest_part);
  if (const std::size_t end = head.find('\n'); end != std::string_view::npos) return end + 1;
  if (head.size() == text.size()) return text.size();
  for (std::size_t at = head.size() - 1; at > 0; --at) {
    if (text[at] == ' ' && text[at - 1] != ' ') return at;
  }
  return character_start(text, head.size());
}

// Calls fn(part) for every part of a text, in order.
template <typename Fn>
void for_each_part(std::string_view text, Fn&& fn) {
  while (!text.empty()) {
    const std::size_t size = first_part(text);
    fn(text.substr(0, size));
    text.remove_prefix(size);
  }
}

// Calls fn(piece, is_mark) for the marks in a text and for the text between them, in order.
template <typename Fn>
void split_at(std::string_view mark, std::string_view text, Fn&& fn) {
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(mark), text.size());
    if (at > 0) fn(text.substr(0, at), false);
    if (at < text.size()) fn(mark, true);
    text.remove_prefix(std::min(at + mark.size(), text.size()));
  }
}

// ---- models

// Takes a varint off the front of a protocol buffer: 7 bits per byte, the lowest first. Empty if it
// is truncated.
std::optional<std::uint64_t> take_number(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7Fu) << shift;
    if (byte < 0x80) return number;
  }
  return std::nullopt;
}

// Takes a field off the front of a ModelProto, whose fields are all byte strings, and returns its
// number. Empty if there is no valid or complete field.
std::optional<std::uint64_t> take_field(std::string_view& bytes) {
  constexpr std::uint64_t type_bits = 3, string_of_bytes = 2;
  const std::optional<std::uint64_t> tag = take_number(bytes);
  if (!tag || *tag % (1u << type_bits) != string_of_bytes) return std::nullopt;
  const std::optional<std::uint64_t> size = take_number(bytes);
  if (!size || *size > bytes.size()) return std::nullopt;
  bytes.remove_prefix(*size);
  return *tag >> type_bits;
}

// Returns the model with the settings for text in parts (see data/tokenizer.h) appended: if a
// protocol buffer holds a setting twice, the last one counts. Drops the self-test samples of the
// model, which were made with its own settings.
std::string model_for_parts(std::string_view model) {
  constexpr std::uint64_t trainer_settings = 2, normalizer_settings = 3, self_test = 4;
  constexpr std::array<char, 6> added = {normalizer_settings << 3 | 2,
                                         4,  // 4 bytes:
                                         3 << 3,
                                         0 /* add_dummy_prefix */,  //
                                         4 << 3,
                                         0 /* remove_extra_whitespaces */};
  std::set<std::uint64_t> found;
  std::string changed;
  for (std::string_view rest = model; !rest.empty();) {
    const std::string_view before = rest;
    const std::optional<std::uint64_t> field = take_field(rest);
    if (!field) throw Error("this is not a SentencePiece model, or it is truncated");
    found.insert(*field);
    if (*field != self_test) changed += before.substr(0, before.size() - rest.size());
  }
  if (!found.contains(trainer_settings) || !found.contains(normalizer_settings))
    throw Error("this is not a SentencePiece model, or it is truncated: its settings are missing");
  return changed.append(added.data(), added.size());
}

std::string text_of_piece(const SentencePieceProcessor& processor, int token) {
  const std::string& piece = processor.IdToPiece(token);
  if (processor.IsControl(token)) return "";
  if (processor.IsUnknown(token)) return " \u2047 ";
  if (processor.IsByte(token))  // "<0x0A>"
    return {static_cast<char>(std::strtol(piece.c_str() + 1, nullptr, 16))};
  std::string text;
  split_at(space_mark, piece,
           [&](std::string_view part, bool is_space) { text += is_space ? " " : part; });
  return text;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& model) : model_(model) {
    const auto status = processor_.LoadFromSerializedProto(model_for_parts(model));
    if (!status.ok()) throw Error("this SentencePiece model is damaged: {}", reason_of(status));
    for (int token = 0; token < processor_.GetPieceSize(); ++token) {
      texts_.push_back(text_of_piece(processor_, token));
    }
    tokens_of_mark_ = spell_mark();
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text);
    std::vector<std::int32_t> tokens;
    std::vector<int> of_part;
    const auto add = [&](std::string_view part, bool is_mark) {
      if (is_mark) {
        of_part = tokens_of_mark_;
      } else if (const auto status = processor_.Encode({part.data(), part.size()}, &of_part);
                 !status.ok()) {
        throw Error("sentencepiece: cannot encode text: {}", reason_of(status));
      }
      tokens.insert(tokens.end(), of_part.begin(), of_part.end());
    };
    for_each_part(text, [&](std::string_view part) { split_at(space_mark, part, add); });
    return tokens;
  }

  bool is_unknown(std::int32_t token) const override { return processor_.IsUnknown(token); }

  TokenizerModel model() const override { return {"sentencepiece", model_}; }

 private:
  // The library treats this character in a text as a space, so it is spelt in bytes.
  std::vector<int> spell_mark() const {
    std::vector<int> tokens;
    for (const char* byte : {"<0xE2>", "<0x96>", "<0x81>"}) {
      const int token = processor_.PieceToId(byte);
      if (!processor_.IsByte(token)) return {processor_.unk_id()};
      tokens.push_back(token);
    }
    return tokens;
  }

  const std::string model_;
  SentencePieceProcessor processor_;
  std::vector<int> tokens_of_mark_;
};

// ---- learning

// The parts of a text to learn pieces from, without line ends. Omits characters that no piece can
// contain, for which the library would drop the whole line.
class LearnedParts final : public sentencepiece::SentenceIterator {
 public:
  explicit LearnedParts(std::string_view text) {
    const auto add = [this](std::string_view part, bool is_mark) {
      if (!is_mark) parts_.push_back(part);
    };
    const auto add_without_unknown = [&](std::string_view part, bool is_mark) {
      if (!is_mark) split_at(unknown_mark, part, add);
    };
    for_each_part(text, [&](std::string_view part) {
      if (part.ends_with('\n')) part.remove_suffix(1);
      split_at(space_mark, part, add_without_unknown);
    });
    load();
  }

  bool done() const override { return next_ == parts_.size(); }
  void Next() override {
    ++next_;
    load();
  }
  const std::string& value() const override { return part_; }
  sentencepiece::util::Status status() const override { return {}; }

  // Counts the distinct characters in pieces. The library ignores tabs and NUL.
  std::size_t count_characters() const {
    std::vector<bool> is_there(0x110000, false);
    for (std::string_view part : parts_) {
      while (!part.empty()) {
        const Utf8Character character = first_character(part);
        is_there[character.code] = true;
        part.remove_prefix(character.size);
      }
    }
    is_there[U'\t'] = is_there[U'\0'] = false;
    return static_cast<std::size_t>(std::count(is_there.begin(), is_there.end(), true));
  }

 private:
  void load() {
    if (!done()) part_ = parts_[next_];
  }

  std::vector<std::string_view> parts_;
  std::size_t next_ = 0;
  std::string part_;
};

// Returns the settings that preserve every byte of a text. Uses one thread, because the result
// depends on the number of threads. By default the library learns from every line, without
// sampling.
std::unordered_map<std::string, std::string> settings(std::size_t text_size, std::int64_t vocab,
                                                      SentencePieceKind kind) {
  std::unordered_map<std::string, std::string> settings = {
      {"vocab_size", std::to_string(vocab)},
      {"model_type", kind == SentencePieceKind::bpe ? "bpe" : "unigram"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "1.0"},
      {"num_threads", "1"},
      {"minloglevel", "3"}};
  const bool takes_64_bits = text_size >= std::size_t{1} << 31;
  if (takes_64_bits) settings["train_extremely_large_corpus"] = "true";
  return settings;
}

// The result of learning: a model or the reason for its absence.
struct Learned {
  std::string model;
  std::string reason;
};

// Runs in a child process, because the library exits if it can learn nothing from a text.
Learned learn(std::string_view text, LearnedParts& parts, std::int64_t vocab,
              SentencePieceKind kind) {
  const auto train = [&] {
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(
        settings(text.size(), vocab, kind), &parts, &model);
    return status.ok() ? "+" + model : "-" + reason_of(status);
  };
  const std::optional<std::string> result = run_isolated(train, no_limits).answer;
  if (!result) return {"", ""};
  return result->front() == '+' ? Learned{result->substr(1), ""} : Learned{"", result->substr(1)};
}

// Returns 324 for "Vocabulary size too high (500). Please set it to a value <= 324.".
std::optional<std::int64_t> largest_vocab(const std::string& reason) {
  constexpr std::string_view before = "to a value <= ";
  const std::size_t at = reason.find(before);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoll(reason.c_str() + at + before.size(), nullptr, 10);
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::unique_ptr<Tokenizer> train_sentencepiece(std::string_view text, std::int64_t vocab,
                                               SentencePieceKind kind) {
  constexpr std::size_t reserved = 256 + 3;
  require_utf8(text);
  LearnedParts parts(text);
  const std::size_t characters = parts.count_characters();
  if (characters == 0) throw Error("the text has nothing to learn pieces from");
  if (static_cast<std::uint64_t>(vocab) < reserved + characters)
    throw ConfigError(
        "expected at least {} pieces (256 bytes, 3 special tokens and the {} characters of the "
        "text), got {}",
        reserved + characters, characters, vocab);
  const Learned learned = learn(text, parts, vocab, kind);
  if (!learned.model.empty()) return make_sentencepiece_tokenizer(learned.model);
  if (const std::optional<std::int64_t> most = largest_vocab(learned.reason))
    throw ConfigError("the text has at most {} pieces to learn, got {}", *most, vocab);
  throw Error("the text is too short or too repetitive to learn pieces from{}{}",
              learned.reason.empty() ? "" : ": ", learned.reason);
}

}  // namespace mobius
