#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "data/lm.h"
#include "nn/generator.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/printable.h"
#include "train/stop_signal.h"

namespace mobius {

namespace {

constexpr const char* examples = R"(Examples:
  mobius generate runs/shakespeare_char     its best.h5, else its newest checkpoint
  mobius generate best.h5 --prompt "ROMEO:" --tokens 300 --temperature 0.8 --top-k 40 --seed 7

The text goes to standard output as it is made, the prompt first; how fast, to standard error. The
same options and seed make the same text. Ctrl-C ends it.)";

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt = "\n";
  std::int64_t tokens = 500;
  SamplingOptions sampling;
  std::uint64_t seed = 1;
  std::optional<std::int64_t> context;
};

// Bytes of a text that end with a whole character, or with bytes that begin none.
std::size_t whole_characters(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0u) == 0x80u) continue;  // inside a character
    const std::size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return size > back ? text.size() - back : text.size();
  }
  return text.size();
}

// Writes text as its tokens come, a character only when all of its bytes are there.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  ~TextStream() { write(pending_.size()); }
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  void add(std::span<const std::int32_t> tokens) {
    pending_ += tokenizer_.decode(tokens);
    write(whole_characters(pending_));
  }

 private:
  void write(std::size_t n) {
    std::fwrite(pending_.data(), 1, n, stdout);
    std::fflush(stdout);
    pending_.erase(0, n);
  }

  const Tokenizer& tokenizer_;
  std::string pending_;
};

// The model that a checkpoint holds, and what turns its tokens into text.
struct Writer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<LanguageModel> model;
  std::int64_t trained_length;
};

Writer load_writer(const std::string& checkpoint, const Registries& known) {
  const std::string path = find_checkpoint(checkpoint).string();
  const CheckpointHeader header = read_checkpoint_header(path);
  const auto config = parse_config(header.config, path, known);
  const auto* task = dynamic_cast<const LmOptions*>(config->task.options.get());
  if (task == nullptr || !header.tokenizer) {
    throw Error("{}: expected a language model trained on text: this one has no tokeniser", path);
  }
  if (config->train.threads > 0) set_num_threads(config->train.threads);
  Writer writer{make_tokenizer(*header.tokenizer), nullptr, task->seq_len};
  writer.model = std::make_unique<LanguageModel>(config->model, *config->attention,
                                                 writer.tokenizer->vocab_size(), task->seq_len,
                                                 config->train.seed);
  load_checkpoint(path, tensors_of(*writer.model));
  return writer;
}

std::vector<std::int32_t> tokens_of(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> tokens;
  try {
    tokens = tokenizer.encode(prompt);
  } catch (const Error& error) {
    throw ConfigError("--prompt: {}", error.what());
  }
  if (tokens.empty()) throw ConfigError("--prompt: expected text to go on from, got none");
  return tokens;
}

ExitCode generate(const GenerateArguments& arguments, const Registries& known) {
  arguments.sampling.validate();
  const Writer writer = load_writer(arguments.checkpoint, known);
  const std::vector<std::int32_t> prompt = tokens_of(*writer.tokenizer, arguments.prompt);
  Generator generator(*writer.model, arguments.sampling,
                      arguments.context.value_or(writer.trained_length), arguments.seed);
  const StopSignal stop;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t n = 0;
  {
    TextStream text(*writer.tokenizer);
    text.add(prompt);
    generator.read(prompt);
    for (; n < arguments.tokens && !stop.is_requested(); ++n) {
      const std::int32_t token = generator.next();
      text.add(std::span(&token, 1));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "\n{} tokens, {:.0f} tokens/s\n", n, static_cast<double>(n) / seconds.count());
  return stop.is_requested() ? ExitCode::interrupted : ExitCode::done;
}

}  // namespace

void add_generate_command(CLI::App& app, const Registries& known, Action& action) {
  CLI::App* command = app.add_subcommand("generate", "Write text with a trained language model");
  command->footer(examples);
  auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("checkpoint", arguments->checkpoint, "HDF5 file, or the folder of a run")
      ->required()
      ->type_name("CHECKPOINT");
  command->add_option("--prompt", arguments->prompt, "text to go on from; a line end unless given")
      ->type_name("TEXT");
  command->add_option("--tokens", arguments->tokens, "how many to make")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "divides the logits; 0: always the likeliest token")
      ->capture_default_str()
      ->type_name("T");
  command
      ->add_option("--top-k", arguments->sampling.top_k, "draw from the K likeliest tokens alone")
      ->type_name("K");
  command
      ->add_option("--top-p", arguments->sampling.top_p,
                   "draw from the likeliest tokens that have the probability P together")
      ->type_name("P");
  command->add_option("--seed", arguments->seed, "of the draws")
      ->capture_default_str()
      ->type_name("SEED");
  command
      ->add_option("--context", arguments->context,
                   "tokens looked back on at most; the length of training sequences unless given")
      ->type_name("N");
  command->callback([arguments, &known, &action] {
    action = [arguments, &known] { return generate(*arguments, known); };
  });
}

}  // namespace mobius
