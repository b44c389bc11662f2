// Every key of the schema has a reader: changing its value changes what a real run does. What a run
// does is everything it leaves behind, without its configuration and its timing.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/tokenizer.h"
#include "tests/data/some_text.h"
#include "tests/data/token_files.h"
#include "tests/train/run_fixture.h"
#include "train/config/writer.h"

namespace mobius::keys_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Some keys count only beside certain values of others. Each must count in one of these bases.
struct Base {
  const char* name;
  std::vector<std::string> settings;
};

constexpr const char* kCommon = R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
optimizer: {lr: 1.0e-02}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1}
eval: {every: 2}
checkpoint: {every: 2}
)";

const std::vector<Base> kBases = {
    {"cosine, dropout, accumulation, rope",
     {"model={d_model: 16, n_layers: 1, n_heads: 2, dropout: 0.1, positions: rope}",
      "attention={kind: softmax, scale: 2.0}",
      "schedule={kind: cosine, warmup_steps: 2, min_lr_ratio: 0.1}", "train.accumulation_steps=2",
      "train.clip_grad_norm=0.01", "checkpoint.metric=accuracy"}},
    {"early stop, sgd, recall, a custom kernel",
     {"task={name: recall, vocab: 16, seq_len: 8, n_test: 16}",
      "attention={kind: conformal, weight: custom, s: 2.0}",
      "optimizer={name: sgd, lr: 0.1, momentum: 0.5, weight_decay: 0.1}",
      "train.early_stop={metric: accuracy, threshold: 0.001}"}},
    {"mixture, a standard kernel",
     {"task={name: mqar, vocab: 32, n_test: 8,"
      " mixture: [{seq_len: 16, n_pairs: 2, weight: 1}, {seq_len: 12, n_pairs: 3, weight: 1}]}",
      "attention={kind: conformal, weight: newton}"}},
    {"a far field of degrees, a custom kernel",
     {"attention={kind: conformal_hierarchical, window: 4, weight: custom, s: 2.0, alpha: 4}"}},
    {"a far field of landmarks",
     {"attention={kind: conformal_hierarchical, window: 4, alpha: 4, far_field: landmarks,"
      " n_landmarks: 4, landmark_source: learned}"}},
    {"relative positions", {"model.positions=relative", "model.max_distance=4"}},
    {"softmax_naive", {"attention.kind=softmax_naive"}},
    {"linear", {"attention.kind=linear"}},
    {"performer", {"attention={kind: performer, n_features: 8}"}},
    {"sparse, local",
     {"task={name: mqar, vocab: 128, seq_len: 80, n_pairs: 2, n_test: 16}",
      "attention.kind=sparse"}},
    {"sparse, strided",
     {"attention={kind: sparse, pattern: strided, window: 2, stride: 5, n_global: 1}"}},
    {"sparse, topk", {"attention={kind: sparse, pattern: topk, topk: 3}"}},
    {"w2, maps of its heads",
     {"attention.kind=w2", "model.n_layers=2", "eval.attention_maps=true"}},
    {"w2_overlap", {"attention.kind=w2_overlap"}},
    {"text", {"task={name: lm, text: text.txt, seq_len: 8, n_test: 4}"}},
    {"text, by pieces",
     {"task={name: lm, text: text.txt, seq_len: 8, n_test: 4, tokenizer: sentencepiece,"
      " vocab: 400}"}},
    {"text, by pieces of a file",
     {"task={name: lm, text: text.txt, seq_len: 8, n_test: 4, tokenizer: sentencepiece,"
      " tokenizer_model: pieces.model}"}},
    {"token files",
     {"task={name: lm, tokens: tokens.bin, vocab: 64, seq_len: 8, n_test: 4,"
      " bytes_per_token: 3}"}}};

// Holds the files that the bases name, and others to name in their place, in the folder where the
// runs start.
class FilesToTrainOn {
 public:
  FilesToTrainOn() : before_(fs::current_path()) {
    fs::current_path(folder_.path());
    write_text("text.txt", some_text(200));
    write_text("elsewhere", some_text(300));
    write_text("pieces.model", pieces(300));
    write_text("elsewhere.model", pieces(310));
    std::vector<std::uint16_t> tokens;
    for (std::uint16_t i = 0; i < 3000; ++i) tokens.push_back(i * i % 61);
    write_llm_c("tokens.bin", tokens);
    tokens.resize(2000);
    write_llm_c("elsewhere.bin", tokens);
  }
  ~FilesToTrainOn() { fs::current_path(before_); }

 private:
  static std::string pieces(std::int64_t vocab) {
    return train_sentencepiece(some_text(200), vocab, SentencePieceKind::unigram)->model().bytes;
  }

  TemporaryFolder folder_;
  fs::path before_;
};

Json without_timing(Json object) {
  for (const char* key : {"tokens_per_s", "train_seconds", "step_ms", "peak_bytes"}) {
    object.erase(key);
  }
  return object;
}

// Trains in the folder of the configuration, below a temporary one.
std::string behaviour(const std::vector<std::string>& settings, const Registries& known) {
  const TemporaryFolder root;
  const auto config = config_of(kCommon, settings, known);
  config->output.dir = root / config->output.dir;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> quiet(std::tmpfile(), std::fclose);
  Progress progress(quiet.get());
  const StopSignal stop;
  run_training(*config, {}, known, progress, stop);

  std::set<std::string> files;
  std::string content;
  for (const auto& entry : fs::recursive_directory_iterator(root.path())) {
    const std::string name = fs::relative(entry.path(), root.path()).string();
    files.insert(name);
    if (entry.path().filename() == "metrics.jsonl") {
      for (const std::string& line : lines_of(read_text(entry.path()))) {
        content += without_timing(Json::parse(line)).dump() + "\n";
      }
    } else if (entry.path().filename() == "summary.json") {
      content += without_timing(Json::parse(read_text(entry.path()))).dump() + "\n";
    } else if (entry.path().filename() == "attention_maps.json") {
      content += read_text(entry.path());
    }
  }
  for (const std::string& name : files) content += name + "\n";
  return content;
}

// gamma scales a custom kernel for all keys alike: it cancels in the kernel, whose maximum is 1,
// and in its mean (docs/MATH.md, section 1). Only 0 is accepted.
//
// The keys of `distributed` are for several ranks (tests/e2e/ranks_test.cpp).
//
// Only the CPU computes in this build.
//
// A file that fits several formats of tokens needs a large vocabulary, since the numbers of a
// header are then tokens (tests/data/token_source_test.cpp).
const std::set<std::string> kWithoutEffect = {
    "attention.gamma of conformal", "attention.gamma of conformal_hierarchical",
    "distributed.zero_stage",       "distributed.bucket_mib",
    "task.token_format of lm",      "train.device"};

// ---- other values for a key

std::vector<std::string> numbers_near(const OptionForm& form, double value) {
  if (form.type == OptionType::integer) {
    const auto whole = static_cast<std::int64_t>(value);
    std::vector<std::string> values;
    for (const std::int64_t other : {whole + 1, whole * 2, whole + 4, whole / 2, whole + 7}) {
      values.push_back(std::to_string(other));
    }
    return values;
  }
  std::vector<std::string> values;
  for (const double other : {value * 0.5, value * 2, value + 0.5, value * 1000 + 0.1}) {
    values.push_back(fmt::format("{}", other));
  }
  return values;
}

std::vector<std::string> others(const OptionField& field) {
  const OptionValue value = field.value();
  if (!field.choices().empty()) return field.choices();
  if (const auto* flag = std::get_if<bool>(&value)) return {*flag ? "false" : "true"};
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return numbers_near(field.form(), static_cast<double>(*whole));
  }
  if (const auto* number = std::get_if<double>(&value)) return numbers_near(field.form(), *number);
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    std::string text;
    for (const double element : *list)
      text += fmt::format("{}{}", text.empty() ? "[" : ", ", element / 2);
    return {text + "]"};
  }
  if (std::holds_alternative<std::vector<std::int64_t>>(value)) return {"[1]"};
  if (std::holds_alternative<std::string>(value))
    return {"elsewhere", "elsewhere.bin", "elsewhere.model"};
  return {"0.5", "1", "2"};  // null now
}

// A key with other values. The name of a kind tells its key from that of another kind.
struct Key {
  std::string path;
  std::string name;
  std::vector<std::string> others;
};

void collect(const Schema& schema, const std::string& path, std::vector<Key>& keys) {
  std::string kind;
  for (const OptionEntry* entry : schema.entries()) {
    const std::string key = join_path(path, key_of(*entry));
    if (const auto* field = std::get_if<OptionField>(entry)) {
      keys.push_back({key, kind.empty() ? key : key + " of " + kind, others(*field)});
    } else if (const auto* section = std::get_if<OptionSection>(entry)) {
      collect(section->schema(), key, keys);
    } else if (const auto* variant = std::get_if<OptionVariant>(entry)) {
      kind = variant->current();
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        collect(*list->element(i), join_path(key, std::to_string(i)), keys);
      }
    }
  }
}

// Whether some accepted other value of the key changes what the run does.
bool matters(const Base& base, const Key& key, const std::string& before, const Registries& known) {
  for (const std::string& value : key.others) {
    std::vector<std::string> settings = base.settings;
    settings.push_back(key.path + "=" + value);
    try {
      if (behaviour(settings, known) != before) return true;
    } catch (const Error&) {
      // The value does not fit the rest of the base, or the file is not of the right kind.
    }
  }
  return false;
}

TEST(EveryKey, ChangesWhatARunDoes) {
  const FilesToTrainOn files;
  const Registries known;
  std::map<std::string, bool> read;
  for (const Base& base : kBases) {
    const std::string before = behaviour(base.settings, known);
    ASSERT_EQ(behaviour(base.settings, known), before) << base.name << ": not reproducible";
    const auto config = config_of(kCommon, base.settings, known);
    std::vector<Key> keys;
    collect(*describe(*config), "", keys);
    for (const Key& key : keys) {
      bool& is_read = read[key.name];
      is_read = is_read || matters(base, key, before, known);
    }
  }
  for (const auto& [name, is_read] : read) {
    EXPECT_NE(is_read, kWithoutEffect.contains(name)) << name << " changes nothing";
  }
  EXPECT_GT(read.size(), 50u);
}

// A new kind needs a base above.
TEST(EveryKey, IsCoveredForEveryKind) {
  const FilesToTrainOn files;
  const Registries known;
  std::set<std::string> covered;
  for (const Base& base : kBases) {
    const auto config = config_of(kCommon, base.settings, known);
    covered.insert({config->task.name, config->attention.name, config->optimizer.name});
  }
  for (const auto& names :
       {known.tasks.names(), known.attentions.names(), known.optimizers.names()}) {
    for (const std::string& name : names) EXPECT_TRUE(covered.contains(name)) << name;
  }
}

}  // namespace
}  // namespace mobius::keys_test
