// Every key of the schema is read by something: changing it changes what a run does. The run is a
// real one; what it does is everything it leaves behind but its own configuration and its timing.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "run_fixture.h"
#include "train/config_writer.h"

namespace mobius {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Each base makes some of the keys count: a key may count in any of them.
struct Base {
  const char* name;
  const char* yaml;
};

const Base kBases[] = {{"rope, cosine, dropout", R"(
task: {name: mqar, vocab: 32, seq_len: 16, n_pairs: 2, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2, dropout: 0.1, positions: rope}
attention: {kind: softmax, scale: 2.0}
optimizer: {lr: 1.0e-02}
schedule: {kind: cosine, warmup_steps: 2, min_lr_ratio: 0.1}
train: {max_steps: 6, batch_size: 8, accumulation_steps: 2, threads: 1, log_every: 1,
        clip_grad_norm: 0.01}
eval: {every: 2}
checkpoint: {every: 2, keep_last: 2, keep_best: true, metric: accuracy}
)"},
                       {"early stop, sgd, conformal, recall", R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: conformal, weight: custom, s: 2.0, gamma: 0.5}
optimizer: {name: sgd, lr: 0.1, momentum: 0.5, weight_decay: 0.1}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1,
        early_stop: {metric: accuracy, threshold: 0.0}}
eval: {every: 2}
)"},
                       {"mixture, standard weight", R"(
task: {name: mqar, vocab: 32, n_test: 8,
       mixture: [{seq_len: 16, n_pairs: 2, weight: 1.0}, {seq_len: 12, n_pairs: 3, weight: 1.0}]}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: conformal, weight: newton}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1}
eval: {every: 2}
)"},
                       {"relative positions, w2", R"(
task: {name: recall, vocab: 16, seq_len: 16, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2, positions: relative, max_distance: 4}
attention: {kind: w2, tau: 2.0}
train: {max_steps: 6, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"w2_overlap", R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: w2_overlap}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"sparse, strided", R"(
task: {name: recall, vocab: 16, seq_len: 32, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: sparse, pattern: strided, window: 2, stride: 5, n_global: 1, scale: 2.0}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"sparse, topk", R"(
task: {name: recall, vocab: 16, seq_len: 32, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: sparse, pattern: topk, topk: 2}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"performer", R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: performer, n_features: 8, feature_seed: 3}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"linear", R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: linear}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"},
                       {"softmax_naive", R"(
task: {name: recall, vocab: 16, seq_len: 8, n_test: 16}
model: {d_model: 16, n_layers: 1, n_heads: 2}
attention: {kind: softmax_naive, scale: 2.0}
train: {max_steps: 2, batch_size: 8, threads: 1, log_every: 1}
)"}};

Json without_timing(Json object) {
  for (const char* key : {"tokens_per_s", "train_seconds", "step_ms", "peak_bytes"}) {
    object.erase(key);
  }
  return object;
}

// Trains where the configuration says, below a folder of its own.
std::string behaviour(const std::string& yaml, const std::vector<std::string>& overrides,
                      const Registries& known) {
  const TemporaryFolder root;
  const auto config = config_of(yaml, overrides, known);
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
    }
  }
  for (const std::string& name : files) content += name + "\n";
  return content;
}

// gamma only scales a custom kernel, for all keys alike: it cancels in the kernel whose maximum is
// 1 and in its mean (docs/MATH.md, section 1).
const std::set<std::string> kWithoutEffect = {"attention.gamma"};

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
  if (std::holds_alternative<std::string>(value)) return {"elsewhere"};
  return {"0.5", "1", "2"};  // null now
}

void collect(const Schema& schema, const std::string& path,
             std::map<std::string, std::vector<std::string>>& values) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string key = join_path(path, key_of(*entry));
    if (const auto* field = std::get_if<OptionField>(entry)) {
      values[key] = others(*field);
    } else if (const auto* section = std::get_if<OptionSection>(entry)) {
      collect(section->schema(), key, values);
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        collect(*list->element(i), join_path(key, std::to_string(i)), values);
      }
    }
  }
}

// Whether some accepted other value of the key changes what the run does.
bool matters(const Base& base, const std::string& key, const std::vector<std::string>& values,
             const std::string& before, const Registries& known) {
  for (const std::string& value : values) {
    try {
      if (behaviour(base.yaml, {key + "=" + value}, known) != before) return true;
    } catch (const ConfigError&) {
      // Not a value that fits with the rest of the base.
    }
  }
  return false;
}

TEST(EveryKey, ChangesWhatARunDoes) {
  const Registries known;
  std::map<std::string, bool> read;  // by key, without the index of a list's element
  for (const Base& base : kBases) {
    const std::string before = behaviour(base.yaml, {}, known);
    ASSERT_EQ(behaviour(base.yaml, {}, known), before) << base.name << ": not reproducible";
    const auto config = config_of(base.yaml, {}, known);
    std::map<std::string, std::vector<std::string>> values;
    collect(*describe(*config), "", values);
    for (const auto& [key, candidates] : values) {
      bool& is_read = read[key];
      is_read = is_read || matters(base, key, candidates, before, known);
    }
  }
  for (const auto& [key, is_read] : read) {
    EXPECT_NE(is_read, kWithoutEffect.contains(key)) << key << " changes nothing";
  }
  EXPECT_GT(read.size(), 50u);
}

// The bases above cover every kind there is; a new kind needs one too.
TEST(EveryKey, IsCoveredForEveryKind) {
  const Registries known;
  std::set<std::string> covered;
  for (const Base& base : kBases) {
    const auto config = config_of(base.yaml, {}, known);
    covered.insert({config->task.name, config->attention.name, config->optimizer.name});
  }
  for (const auto& names :
       {known.tasks.names(), known.attentions.names(), known.optimizers.names()}) {
    for (const std::string& name : names) EXPECT_TRUE(covered.contains(name)) << name;
  }
}

}  // namespace
}  // namespace mobius
