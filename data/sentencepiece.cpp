#include "data/sentencepiece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/utf8.h"

namespace mobius {
namespace {

// The library's messages begin with the place in its source and the condition, in brackets.
void require(const sentencepiece::util::Status& status, std::string_view action) {
  if (status.ok()) return;
  const std::string message = status.message();
  const std::size_t condition = message.rfind("] ");
  throw Error("sentencepiece: cannot {}: {}", action,
              condition == std::string::npos ? message : message.substr(condition + 2));
}

// Calls fn(line) for every line, each with its line end.
template <typename Fn>
void for_each_line(std::string_view text, Fn&& fn) {
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    fn(text.substr(0, size));
    text.remove_prefix(size);
  }
}

// Lines are what the library is made for: its time and memory grow with what it is given at once.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::string& model) : model_(model) {
    require(processor_.LoadFromSerializedProto(model), "read the model");
  }

  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text);
    std::vector<std::int32_t> tokens;
    std::vector<int> of_line;
    for_each_line(text, [&](std::string_view line) {
      require(processor_.Encode({line.data(), line.size()}, &of_line), "encode a line");
      tokens.insert(tokens.end(), of_line.begin(), of_line.end());
    });
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    for (const std::int32_t token : tokens) check_token(token);
    std::string text;
    require(processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text), "decode");
    return text;
  }

  TokenizerModel model() const override { return {"sentencepiece", model_}; }

 private:
  const std::string model_;
  sentencepiece::SentencePieceProcessor processor_;
};

// The lines of a text that have anything on them, without their line ends.
class LinesOf final : public sentencepiece::SentenceIterator {
 public:
  explicit LinesOf(std::string_view text) {
    for_each_line(text, [&](std::string_view line) {
      if (line.ends_with('\n')) line.remove_suffix(1);
      if (!line.empty()) lines_.emplace_back(line);
    });
  }

  bool empty() const { return lines_.empty(); }
  bool done() const override { return next_ == lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  std::size_t next_ = 0;
};

// The settings that keep every byte of a text, as the header promises; one thread, for the result
// depends on their number.
std::unordered_map<std::string, std::string> settings(std::int64_t vocab, SentencePieceKind kind) {
  return {{"vocab_size", std::to_string(vocab)},
          {"model_type", kind == SentencePieceKind::bpe ? "bpe" : "unigram"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"add_dummy_prefix", "false"},
          {"byte_fallback", "true"},
          {"character_coverage", "1.0"},
          {"num_threads", "1"},
          {"minloglevel", "2"}};
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const std::string& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::unique_ptr<Tokenizer> train_sentencepiece(std::string_view text, std::int64_t vocab,
                                               SentencePieceKind kind) {
  require_utf8(text);
  LinesOf lines(text);
  if (lines.empty()) throw Error("sentencepiece: the text to learn pieces from is empty");
  std::string model;
  require(sentencepiece::SentencePieceTrainer::Train(settings(vocab, kind), &lines, &model),
          "learn " + std::to_string(vocab) + " pieces");
  return make_sentencepiece_tokenizer(model);
}

}  // namespace mobius
