#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

#include "core/parallel.h"
#include "data/lm.h"
#include "nn/generator.h"
#include "train/checkpoint/checkpoint.h"
#include "train/commands/commands.h"
#include "train/io/printable.h"
#include "train/run/device.h"
#include "train/run/experiment.h"
#include "train/run/memory.h"

namespace mobius {

namespace {

constexpr const char* generate_examples = R"(Examples:
  mobius generate runs/shakespeare_char     its best.h5, else its newest checkpoint
  mobius generate best.h5 --prompt "ROMEO:" --tokens 300 --temperature 0.8 --top-k 40 --seed 7

The text goes to standard output as it is made, the prompt first; how fast, to standard error. The
same options and seed make the same text. Ctrl-C ends it, and so does a closed
pipe of standard output.)";

struct GenerateArguments {
  std::string checkpoint;
  std::optional<std::string> prompt;
  std::int64_t tokens = 500;
  SamplingOptions sampling;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> context;

  void describe(Schema& schema) {
    schema.field("tokens", tokens, "how many to make").non_negative();
    sampling.describe(schema);
    schema.field("seed", seed, "of the draws").non_negative().unbounded();
    schema
        .field("context", context,
               "tokens looked back on at most; the length of training sequences unless given")
        .at_least(2);
  }
};

// Returns the size of the text without a character at its end that is cut short.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0u) == 0x80u) continue;  // inside a character
    const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return size > back ? text.size() - back : text.size();
  }
  return text.size();
}

// Writes text as its tokens come, but each character only when it is whole.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, Output& out) : tokenizer_(tokenizer), out_(out) {}
  ~TextStream() { write(pending_.size()); }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  void add(std::span<const std::int32_t> tokens) {
    pending_ += tokenizer_.decode(tokens);
    write(whole_characters(pending_));
  }

 private:
  void write(std::size_t n) {
    out_.write(std::string_view(pending_).substr(0, n));
    pending_.erase(0, n);
  }

  const Tokenizer& tokenizer_;
  Output& out_;
  std::string pending_;
};

// The model of a checkpoint and the tokeniser of its text.
struct Writer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<LanguageModel> model;
  std::int64_t trained_length;
};

Writer load_writer(const std::string& checkpoint, const Registries& known) {
  const std::string path = find_checkpoint(checkpoint).string();
  const CheckpointHeader header = read_checkpoint_header(path);
  const auto config = parse_config(header.config, path, known);
  allow_any_device(*config);
  const Device device = device_of(*config);
  const auto* task = dynamic_cast<const LmOptions*>(config->task.options.get());
  if (task == nullptr || !header.tokenizer) {
    throw Error("{}: expected a language model trained on text: this one has no tokeniser", path);
  }
  if (config->train.threads > 0) set_num_threads(config->train.threads);
  Writer writer{make_tokenizer(*header.tokenizer), nullptr, task->seq_len};
  require_memory(
      memory_need(*config, {writer.tokenizer->vocab_size(), task->seq_len}, MemoryUse::model),
      device);
  writer.model = std::make_unique<LanguageModel>(config->model, *config->attention,
                                                 writer.tokenizer->vocab_size(), task->seq_len,
                                                 config->train.seed, DType::f32, device);
  load_checkpoint(path, tensors_of(*writer.model));
  return writer;
}

// Returns the token that text without a prompt begins from: a line end if the vocabulary has one,
// else a space, else its first token that stands for text.
std::int32_t first_token(const Tokenizer& tokenizer) {
  for (const std::string beginning : {"\n", " ", ""}) {  // "": any text
    for (std::int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
      if (tokenizer.is_unknown(token)) continue;
      const std::string text = tokenizer.decode(std::span(&token, 1));
      if (beginning.empty() ? !text.empty() : text == beginning) return token;
    }
  }
  throw Error("the tokenizer has no token that stands for text");
}

std::vector<std::int32_t> tokens_of(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> tokens;
  try {
    tokens = tokenizer.encode(prompt);
  } catch (const Error& error) {
    throw ConfigError("--prompt: {}", error.what());
  }
  if (tokens.empty()) throw ConfigError("--prompt: expected text to go on from, got none");
  const auto n = std::ranges::count_if(
      tokens, [&](std::int32_t token) { return tokenizer.is_unknown(token); });
  if (n > 0) {
    say(fmt::format("mobius: warning: --prompt: {} of {} tokens are unknown to the tokenizer", n,
                    tokens.size()));
  }
  return tokens;
}

ExitCode generate(const GenerateArguments& arguments, const Registries& known, StopSignal& stop) {
  const Writer writer = load_writer(arguments.checkpoint, known);
  const Tokenizer& tokenizer = *writer.tokenizer;
  const std::vector<std::int32_t> prompt = arguments.prompt
                                               ? tokens_of(tokenizer, *arguments.prompt)
                                               : std::vector{first_token(tokenizer)};
  Generator generator(*writer.model, arguments.sampling,
                      arguments.context.value_or(writer.trained_length), arguments.seed);
  stop.listen();
  Output out(stdout, &stop);
  const auto start = std::chrono::steady_clock::now();
  std::int64_t n = 0;
  {
    TextStream text(tokenizer, out);
    text.add(prompt);
    generator.read(prompt);
    for (; n < arguments.tokens && !stop.is_requested() && out.is_written(); ++n) {
      const std::int32_t token = generator.next();
      text.add(std::span(&token, 1));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  say("");
  say(fmt::format("{} tokens, {:.0f} tokens/s", n, static_cast<double>(n) / seconds.count()));
  if (stop.is_requested()) return ExitCode::interrupted;
  out.require_written();
  return ExitCode::done;
}

}  // namespace

void add_generate_command(CLI::App& app, const Registries& known, StopSignal& stop,
                          Action& action) {
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained language model");
  command->footer(generate_examples);
  auto arguments = std::make_shared<GenerateArguments>();
  add_checkpoint(*command, arguments->checkpoint);
  command
      ->add_option(
          "--prompt", arguments->prompt,
          "text to go on from; unless given: a line end, else a space, else the first token that "
          "stands for text")
      ->type_name("TEXT");
  add_value_options(*command, describe(*arguments));
  set_action(*command, action,
             [arguments, &known, &stop] { return generate(*arguments, known, stop); });
}

}  // namespace mobius
